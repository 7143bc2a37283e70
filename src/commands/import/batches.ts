import { createHash, type Hash } from 'node:crypto';
import type { NewTransaction } from '../../transactions/transaction.js';
import type { RejectedRow } from './rejected-rows.js';
import type { Row } from './rows.js';

/** Most bytes of rows in one request: the service takes 1 MiB, including the JSON around the rows. */
const BATCH_BYTES = 1_000_000;

/** Rows that are sent together, and what was rejected between them. */
export interface Batch {
  readonly good: readonly { readonly line: number; readonly transaction: NewTransaction; readonly text: string }[];
  readonly rejected: readonly RejectedRow[];
  /** The place of the byte after its last row. */
  readonly end: number;
  /** The number of the line there. */
  readonly nextLine: number;
  /** SHA-256 of the input up to `end`. */
  readonly digest: string;
}

/**
 * Rows in batches: until there are `mostRows` good ones, or as many rejected ones, or as many bytes as one request may have. The first
 * one ends at `firstEnd` where that is known, because its content may have been sent before.
 */
export async function* batchesOf(
  rows: AsyncIterable<Row>,
  mostRows: number,
  { firstEnd, hash }: { readonly firstEnd: number | undefined; readonly hash: Hash },
): AsyncGenerator<Batch> {
  let wantedEnd = firstEnd;
  let good: Batch['good'][number][] = [];
  let rejected: RejectedRow[] = [];
  let bytes = 0;
  let last: Row | undefined;

  function complete(row: Row): Batch {
    const batch = { good, rejected, end: row.end, nextLine: row.nextLine, digest: hash.copy().digest('hex') };
    good = [];
    rejected = [];
    bytes = 0;
    last = undefined;
    wantedEnd = undefined;
    return batch;
  }

  for await (const row of rows) {
    const { content } = row;
    const size = content.state === 'good' ? Buffer.byteLength(JSON.stringify(content.transaction)) + 1 : 0;
    if (last && wantedEnd === undefined && bytes + size > BATCH_BYTES) yield complete(last);
    hash.update(row.bytes);
    last = row;
    bytes += size;
    const text = row.bytes.toString('utf8').replace(/\r?\n$/, '');
    if (content.state === 'good') good.push({ line: row.line, transaction: content.transaction, text });
    if (content.state === 'rejected') rejected.push({ line: row.line, reason: content.reason, row: text });
    const isFull = good.length === mostRows || rejected.length === mostRows;
    if (wantedEnd === undefined ? isFull : row.end >= wantedEnd) yield complete(row);
  }
  if (last) yield complete(last);
}

export const newHash = (): Hash => createHash('sha256');
