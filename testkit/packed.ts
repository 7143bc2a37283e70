import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from './programs.js';

/** As for a user: without what npm hands to its scripts, such as this repository's `engine-strict`. */
export const USERS_ENVIRONMENT = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_')),
);

/** Packs the service and the client into a folder, as they are built. Resolves to the two files. */
export async function packInto(folder: string): Promise<{ service: string; client: string }> {
  const packages = ['--workspace', '@idempay/client', '--include-workspace-root'];
  const options = ['--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await promisify(execFile)('npm', ['pack', ...options, ...packages], {
    cwd: ROOT,
    env: USERS_ENVIRONMENT,
  });
  const [service = '', client = ''] = stdout.trim().split('\n');
  return { service: join(folder, service), client: join(folder, client) };
}
