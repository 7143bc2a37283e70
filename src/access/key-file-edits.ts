import { closeSync, fsyncSync, openSync, readFileSync, realpathSync, renameSync, rmSync, writeSync } from 'node:fs';
import { syncFolderOf } from '../platform/sync-folder.js';
import { type ApiKey, KeyFileError, newSecret, readApiKeys, sha256Of } from './api-keys.js';
import type { Scope } from './scopes.js';

/** Readable by its owner only: hashes are not secret, but the list of clients is private. */
const MODE = 0o600;

export function apiKeysIn(path: string): readonly ApiKey[] {
  const text = textOf(path);
  if (text === undefined) return [];
  const keys = readApiKeys(text);
  if ('problem' in keys) throw new KeyFileError(`${path} is not a file of API keys: ${keys.problem}.`);
  return keys;
}

/** Adds a further secret of the client. Returns the secret, which nothing keeps. */
export function addApiKey(path: string, name: string, scopes: readonly Scope[], expiresAt?: string): string {
  const secret = newSecret();
  const key = { name, scopes, sha256: sha256Of(secret), ...(expiresAt === undefined ? {} : { expiresAt }) };
  edit(path, (keys) => [...keys, key]);
  return secret;
}

/** Removes the client's secrets, or the one whose hash begins like this. Returns how many. */
export function revokeApiKeys(path: string, name: string, sha256Start = ''): number {
  let revoked = 0;
  edit(path, (keys) => {
    const kept = keys.filter((key) => key.name !== name || !key.sha256.startsWith(sha256Start));
    revoked = keys.length - kept.length;
    return kept;
  });
  return revoked;
}

/**
 * Writes a new file and renames it over the old one, so that a reader sees the old keys or the new ones. The name of the new
 * file is also the lock: of two concurrent edits one fails. After a crash before the rename the old keys are still valid.
 */
function edit(path: string, change: (keys: readonly ApiKey[]) => readonly ApiKey[]): void {
  const target = realPath(path);
  const next = `${target}.new`;
  const file = openNew(next);
  try {
    writeSync(file, `${JSON.stringify(change(apiKeysIn(target)), null, 2)}\n`);
    fsyncSync(file);
    renameSync(next, target);
  } catch (error) {
    rmSync(next, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  syncFolderOf(target);
}

function openNew(path: string): number {
  try {
    return openSync(path, 'wx', MODE);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new KeyFileError(
      `${path} exists: another command is writing the keys, or one was killed. Remove it if none runs.`,
    );
  }
}

/** The target of a link, so that an edit does not replace the link itself. */
function realPath(path: string): string {
  return textOf(path) === undefined ? path : realpathSync(path);
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
