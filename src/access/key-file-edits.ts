import {
  closeSync,
  fchmodSync,
  fchownSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { syncFolderOf } from '../platform/private-files.js';
import { type ApiKey, KeyFileError, newSecret, readApiKeys, sha256Of } from './api-keys.js';
import type { Scope } from './scopes.js';

/** A file that did not exist is readable by its owner only: hashes are not secret, but the list of clients is private. */
const MODE = 0o600;
const PERMISSIONS = 0o7777;

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

/** Removes the client's secrets, or the only one whose hash begins like this. Returns how many. Throws KeyFileError if several begin so. */
export function revokeApiKeys(path: string, name: string, sha256Start?: string): number {
  let revoked = 0;
  edit(path, (keys) => {
    const kept = keys.filter((key) => key.name !== name || !key.sha256.startsWith(sha256Start ?? ''));
    revoked = keys.length - kept.length;
    if (sha256Start !== undefined && revoked > 1) {
      throw new KeyFileError(
        `${revoked} keys of ${name} have this id, and none was revoked: give more digits of the sha256 in ${path}.`,
      );
    }
    return kept;
  });
  return revoked;
}

/**
 * Writes a new file and renames it over the old one, so that a reader sees the old keys or the new ones. The name of the new
 * file is also the lock: of two concurrent edits one fails. After a crash before the rename the old keys are still valid.
 * The new file has the owner and mode of the old one, or nothing is changed: a service that could not read it would keep the old keys.
 */
function edit(path: string, change: (keys: readonly ApiKey[]) => readonly ApiKey[]): void {
  const target = realPath(path);
  const next = `${target}.new`;
  const file = openNew(next);
  try {
    const before = apiKeysIn(target);
    const after = change(before);
    if (after.length === before.length) {
      rmSync(next);
      return;
    }
    writeFileSync(file, `${JSON.stringify(after, null, 2)}\n`);
    keepOwnerAndMode(file, target);
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

function keepOwnerAndMode(file: number, path: string): void {
  const old = statSync(path, { throwIfNoEntry: false });
  if (!old) return;
  try {
    const { uid, gid } = fstatSync(file);
    if (old.uid !== uid || old.gid !== gid) fchownSync(file, old.uid, old.gid);
    // After the owner, because a change of the owner may clear bits.
    fchmodSync(file, old.mode & PERMISSIONS);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
    throw new KeyFileError(
      `${path} belongs to another user (${old.uid}, group ${old.gid}), and a file that replaces it cannot be given the same owner. Nothing was changed: run the command as that user or as root.`,
    );
  }
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
