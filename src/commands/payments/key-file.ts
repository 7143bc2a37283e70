import { closeSync, fsyncSync, linkSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import type { PaymentRequest } from 'idempay/client';
import { syncFolderOf } from '../../sync-folder.js';
import { UsageError } from '../usage.js';

const MODE = 0o600;

/** What `--key-file` keeps of one payment, so that the same command after a crash goes on with it. */
export interface KeptPayment extends PaymentRequest {
  readonly idempotencyKey: string;
}

/** Undefined where no payment was begun with this file. Throws UsageError for a file that holds something else. */
export function keptPayment(path: string): KeptPayment | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const kept = parsed(text);
  if (kept) return kept;
  throw new UsageError(`${path} holds no payment. Name another file, which is not there yet.`);
}

/**
 * Durable when it returns. The file appears complete or not at all, and never replaces another one: of two concurrent commands one
 * fails before it sends anything. A crash before the link leaves no file, and nothing was sent.
 */
export function keepPayment(path: string, payment: KeptPayment): void {
  try {
    writeOnce(path, payment);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${path} cannot be written, so nothing was sent: ${(error as Error).message}`);
  }
}

function writeOnce(path: string, payment: KeptPayment): void {
  const draft = `${path}.${process.pid}.new`;
  const file = openSync(draft, 'w', MODE);
  try {
    writeSync(file, `${JSON.stringify(payment)}\n`);
    fsyncSync(file);
    linkSync(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new UsageError(`${path} was just written by another command, so nothing was sent. Run this one again.`);
  } finally {
    closeSync(file);
    rmSync(draft, { force: true });
  }
  syncFolderOf(path);
}

/** Only after the service refused the content, and only by the command that wrote the file. */
export function forgetPayment(path: string): void {
  rmSync(path, { force: true });
}

function parsed(text: string): KeptPayment | undefined {
  try {
    const { idempotencyKey, amount, currency } = JSON.parse(text) as Record<string, unknown>;
    const isWhole = [idempotencyKey, amount, currency].every((member) => typeof member === 'string');
    return isWhole ? ({ idempotencyKey, amount, currency } as KeptPayment) : undefined;
  } catch {
    return undefined;
  }
}
