import { createHash } from 'node:crypto';
import type { NewTransaction, Transaction } from './transaction.js';

/** The most rows in one create: one commit of a few hundredths of a second, which other writes wait for. */
export const MAX_CREATED_TOGETHER = 1_000;

/** Keys of one endpoint say nothing about the other's keys. */
export type CreationEndpoint = 'one' | 'batch';

/** The client's own key of a create: unique for each client and endpoint. */
export interface CreationName {
  /** The client that owns the key (rule A5); empty without `AUTH`. */
  readonly client: string;
  readonly endpoint: CreationEndpoint;
  readonly key: string;
}

export interface CreationKey extends CreationName {
  /** A fingerprint of the rows that are wanted: a repeat must want the same. */
  readonly fingerprint: string;
  readonly idempotencyTtlMs: number;
}

/** The result of a commit: the first of ids that follow each other, and the one time of all its rows (ms since the epoch). */
export interface Creation {
  readonly firstId: number;
  readonly createdAt: number;
}

/** The record of a key that was used: the result of its first create, or that it created other rows. */
export type KnownCreation = ({ readonly state: 'replayed' } & Creation) | { readonly state: 'mismatch' };

export type CreationResult = ({ readonly state: 'created' } & Creation) | KnownCreation;

/** A digest of the rows as they will be kept, in their order: the same rows, written in another way, are the same rows. */
export function fingerprintOf(wanted: readonly NewTransaction[]): string {
  const rows = wanted.map(({ fromAccount, toAccount, amount, status }) => [fromAccount, toAccount, amount, status]);
  return createHash('sha256').update(JSON.stringify(rows)).digest('base64url');
}

/**
 * The rows as that create made them, without their later changes. All but ids and time is in the request, which has the fingerprint of the
 * first one: so no store needs to keep the rows a second time.
 */
export function asCreated(wanted: readonly NewTransaction[], { firstId, createdAt }: Creation): Transaction[] {
  return wanted.map((row, index) => ({ ...row, id: firstId + index, version: 1, createdAt }));
}

/** The store's answer to the key that was sent; `stored`: its record that has not expired. */
export function knownCreation(
  stored: ({ readonly fingerprint: string } & Creation) | undefined,
  fingerprint: string,
): KnownCreation | undefined {
  if (!stored) return undefined;
  if (stored.fingerprint !== fingerprint) return { state: 'mismatch' };
  return { state: 'replayed', firstId: stored.firstId, createdAt: stored.createdAt };
}
