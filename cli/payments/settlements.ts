import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Payment, SettlementFilter, SettlementPage } from '#idempay/client';
import { type ConnectionOptions, connect } from '../connection.js';
import { type Column, type OutputOptions, printRows } from '../output/results.js';
import { UsageError } from '../usage.js';

const COLUMNS: readonly Column<Payment>[] = [
  { title: 'settled', of: ({ settledAt }) => settledAt },
  { title: 'key', of: ({ idempotencyKey }) => idempotencyKey },
  { title: 'state', of: ({ state }) => state },
  { title: 'amount', of: ({ amount }) => amount },
  { title: 'currency', of: ({ currency }) => currency },
  { title: 'transaction id', of: ({ transactionId }) => transactionId },
  { title: 'reference', of: ({ reference }) => reference },
  { title: 'refund', of: ({ refund }) => refund?.name ?? null },
  { title: 'client', of: ({ client }) => client ?? null },
];

interface FeedOptions extends ConnectionOptions, OutputOptions, SettlementFilter {
  readonly follow?: true | undefined;
  readonly cursorFile?: string | undefined;
}

/**
 * One page of the feed, or with `--follow` all pages until the program is ended. The cursor is kept after its page was written: a program
 * that is killed in between shows that page again. `--after now` is for the first start only, so that a follower that is started again
 * misses nothing that was settled meanwhile.
 */
export async function showSettlements(options: FeedOptions): Promise<void> {
  const { follow, cursorFile, after, from, kind, client, limit } = options;
  if (after !== undefined && from !== undefined) throw new UsageError('Give --after or --from, one of both.');
  const isGiven = from !== undefined || (after !== undefined && after !== 'now');
  const kept = isGiven ? undefined : keptIn(cursorFile);
  const filter = { after: kept ?? after, from, kind, client, limit };
  const { idempay, call } = await connect(options);
  const { settlements } = idempay;

  async function show({ settlements: page, next }: SettlementPage): Promise<void> {
    // A table would say for each empty page that there are none.
    if (page.length > 0) await printRows(page, COLUMNS, options);
    if (cursorFile !== undefined) keep(cursorFile, next);
    else if (!follow) console.error(`--after ${next}`);
  }

  if (!follow) return show(await settlements.page(filter, call));
  try {
    for await (const page of settlements.follow(filter, call)) await show(page);
  } catch (fault) {
    // Ended by Ctrl-C or a supervisor, as it is meant to be.
    if (!call.signal?.aborted) throw fault;
  }
}

function keptIn(file: string | undefined): string | undefined {
  if (file === undefined || !existsSync(file)) return undefined;
  const cursor = readFileSync(file, 'utf8').trim();
  if (/^[\w-]+$/.test(cursor)) return cursor;
  throw new UsageError(`${file} has no cursor. Remove it to begin with the oldest settlement, or give --from.`);
}

/** Whole or not at all: a cursor that was cut would be of no use. */
function keep(file: string, cursor: string): void {
  writeFileSync(`${file}.new`, `${cursor}\n`, { mode: 0o600, flush: true });
  renameSync(`${file}.new`, file);
}
