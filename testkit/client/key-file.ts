import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { type Credential, keyFileOf } from './credentials.js';

/** For a suite: a file of API keys, and the settings of a service that wants one of them. */
export async function requireKeys(...credentials: readonly Credential[]) {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-keys-'));
  afterAll(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, 'api-keys.json');
  const write = (...kept: readonly Credential[]) => writeFile(path, keyFileOf(...kept));
  await write(...credentials);
  return {
    environment: { AUTH: 'required', API_KEYS_FILE: path },
    /** The service reads the file again when it changes. */
    write,
  };
}

export const secretOf = ({ headers }: Credential): string => headers.Authorization.replace('Bearer ', '');
