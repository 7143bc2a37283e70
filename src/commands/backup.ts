import { parseArgs } from 'node:util';
import { readConfig } from '../config.js';
import { backUp } from '../deployments/embedded/backup.js';
import { UsageError } from './usage.js';

export const BACKUP_USAGE = `
  backup FILE                    copies the embedded database (DATA_DIR) into a new file, while the service runs or not`;

const MEGABYTE = 1_000_000;

/** `idempay backup FILE`. Throws UsageError and ConfigError where the arguments or settings are wrong, CannotOpen where it fails. */
export async function backupCommand(
  parameters: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<void> {
  const { positionals } = parseArgs({ args: [...parameters], allowPositionals: true });
  const [file, ...more] = positionals;
  if (file === undefined || more.length > 0)
    throw new UsageError('Name one file, which is not there yet: backup FILE.');
  const { deployment } = readConfig(environment);
  if (deployment.kind !== 'embedded') {
    throw new UsageError(
      'This is the distributed deployment: back PostgreSQL up with its own tools (docs/deployment.md, "Backup and restore").',
    );
  }
  await backUp(deployment.dataDir, file, (copied, about) =>
    console.error(`${megabytes(copied)} of about ${megabytes(about)} MB`),
  );
  console.log(`${file} is complete.`);
}

function megabytes(bytes: number): string {
  return (bytes / MEGABYTE).toFixed(1);
}
