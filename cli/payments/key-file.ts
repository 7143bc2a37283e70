import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import type { PaymentRequest } from '#idempay/client';
import { syncFolderOf } from '#idempay/platform/private-files.js';
import { appear } from '../output/whole-file.js';
import { UsageError } from '../usage.js';

const MODE = 0o600;
/** A part of the name of a file. */
const KEY = /^[0-9a-f-]{36}$/i;

/**
 * The part of one payment that `--key-file` keeps, so that the same command after a crash goes on with it. The payment's content is not
 * kept, because the same command says it again, and a source does not belong in a file.
 */
export interface KeptPayment extends Pick<PaymentRequest, 'amount' | 'currency'> {
  readonly idempotencyKey: string;
}

export interface NewestPayment {
  /** Undefined if no request was ever sent for this file: a key is kept before the first request with it. */
  readonly kept: KeptPayment | undefined;
  /** The place of the next key: the file itself, or `FILE.after-KEY` once the service is certain that KEY never charges. */
  readonly nextPath: string;
}

/**
 * The key that counts. A key file is written once and never replaced, so that one of two commands that take a new key wins. A file for the
 * key that follows K exists once, because its name holds K. Throws UsageError for a file that holds something else.
 */
export function newestPayment(keyFile: string): NewestPayment {
  let kept: KeptPayment | undefined;
  let nextPath = keyFile;
  for (let found = keptPayment(nextPath); found; found = keptPayment(nextPath)) {
    kept = found;
    nextPath = `${keyFile}.after-${found.idempotencyKey}`;
  }
  // Another command may have written it just now, and may not have synced the folder yet.
  if (kept) syncFolderOf(keyFile);
  return { kept, nextPath };
}

function keptPayment(path: string): KeptPayment | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const kept = parsed(text);
  if (kept) return kept;
  if (text === '') {
    throw new UsageError(
      `${path} is empty: another command is writing it now, or one ended before it had kept its key, and sent nothing. If none runs, remove the file.`,
    );
  }
  throw new UsageError(`${path} holds no payment. Name another file, which is not there yet.`);
}

/**
 * Durable when it returns. The file appears complete or not at all, and never replaces another one: false if another command was earlier. A
 * crash before it appears leaves no file (without hard links: or an empty one), or a draft that nothing reads, and nothing was sent. A crash
 * after it leaves a key that counts as sent.
 */
export function keepPayment(path: string, payment: KeptPayment): boolean {
  try {
    return writeOnce(path, payment);
  } catch (error) {
    throw new UsageError(`${path} cannot be written, so nothing was sent: ${(error as Error).message}`);
  }
}

function writeOnce(path: string, payment: KeptPayment): boolean {
  // Commands in two containers may have one process id, and share this folder.
  const draft = `${path}.${randomUUID()}.new`;
  const file = openSync(draft, 'wx', MODE);
  try {
    writeSync(file, `${JSON.stringify(payment)}\n`);
    fsyncSync(file);
    appear(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    closeSync(file);
    rmSync(draft, { force: true });
  }
  syncFolderOf(path);
  return true;
}

/** Only after the service refused the money of the payment, which the file fixes, and only by the command that kept this key. */
export function forgetPayment(path: string, key: string): void {
  if (keptPayment(path)?.idempotencyKey === key) rmSync(path, { force: true });
}

function parsed(text: string): KeptPayment | undefined {
  try {
    const { idempotencyKey, amount, currency } = JSON.parse(text) as Record<string, unknown>;
    const isWhole = [idempotencyKey, amount, currency].every((member) => typeof member === 'string');
    return isWhole && KEY.test(idempotencyKey as string)
      ? ({ idempotencyKey, amount, currency } as KeptPayment)
      : undefined;
  } catch {
    return undefined;
  }
}
