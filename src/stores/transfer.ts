import { createHash, randomBytes } from 'node:crypto';
import { StoreUnavailable } from '../platform/faults.js';
import { type LeavingFolder, openLeavingFolder } from './embedded/file/leaving-folder.js';
import { isPostgresFault, wordsFor } from './postgres/connection/start.js';
import { IN_USE } from './postgres/migrate.js';
import { openTransferTarget, type TransferTarget } from './postgres/transfer-target.js';
import type { RedisLocation } from './redis/connection/url.js';
import { openTransferRedis, refuseOtherTransfer, type TransferRedis } from './redis/transfer-mark.js';
import { CannotOpen } from './shared/deployment.js';
import { LONG_TABLES, SHORT_TABLES, type TransferredTable } from './shared/transferred-tables.js';

/** A megabyte of JSON, and 25 if each payment has as much content as it may: the commit is a small part of the time even so. */
const BATCH = 2_000;
/** Short enough for the time limit of a command of Redis. */
const KEY_BATCH = 500;
const NAME_BYTES = 16;
/** The limit for a table that is copied at once, which is above the rows of each such table. */
const ALL = 10_000_000;

const COPY_OF_LEAVING =
  'DATA_DIR is a copy of a folder that was leaving, and a service may have started on its target since. Set REDIS_URL and DATABASE_URL to that target. If it is gone for ever, take the folder back with idempay transfer --cancel --target-is-gone.';

const OTHER_TARGET =
  'DATA_DIR was copied to another target than DATABASE_URL names, and a service may have started there. Set REDIS_URL and DATABASE_URL to that target. If it is gone for ever, take the folder back with idempay transfer --cancel --target-is-gone.';

const RUN_AGAIN = 'Run it again: it goes on where it ended.';

/** Both ends of a transfer. */
export interface TransferSettings {
  readonly dataDir: string;
  readonly redis: RedisLocation;
  readonly databaseUrl: string;
}

export interface TransferProgress {
  warn(sentence: string): void;
  /** Rows and keys, of how many. */
  copied(count: number, of: number): void;
}

export type TransferResult =
  | { readonly state: 'complete'; readonly payments: number; readonly transactions: number }
  | { readonly state: 'started before' };

interface Ends {
  readonly folder: LeavingFolder;
  readonly target: TransferTarget;
  readonly redis: TransferRedis;
}

/**
 * Copies an embedded deployment to Redis and PostgreSQL, and may be run again after a death at any moment
 * (docs/engineering/decisions/0081). Throws CannotOpen, with a sentence for the operator.
 */
export function transfer(settings: TransferSettings, progress: TransferProgress): Promise<TransferResult> {
  return withEnds(settings, progress, async (ends) => {
    const begun = await begin(ends);
    if (begun === 'started before') return { state: begun };
    if (begun !== 'complete before') await copyAll(ends, begun, progress);
    const [payments = 0, transactions = 0] = LONG_TABLES.map((table) => ends.folder.count(table));
    return { state: 'complete', payments, transactions };
  });
}

/** The name under which rows are copied from now on. Nothing is changed before everything that can be refused was looked at. */
async function begin({ folder, target, redis }: Ends): Promise<string | 'complete before' | 'started before'> {
  const { mark } = folder;
  const found = await target.find();
  if (found === 'empty') {
    refuseOtherTarget(folder);
    const name = randomBytes(NAME_BYTES).toString('hex');
    const other = await redis.find();
    if (other) refuseOtherTransfer(other, mark?.name ?? name);
    // A copy of the folder may have its lock too, and does not know then that its target has started.
    if (other?.isStarted) throw new CannotOpen(OTHER_TARGET);
    await target.refuseUnwritable();
    folder.migrate();
    if (mark) await redis.release(mark.name);
    await folder.leave(name);
    await target.create(name);
    return claim(redis, name);
  }
  if (found === 'in use' || found.name !== mark?.name) throw new CannotOpen(mark?.isCopied ? OTHER_TARGET : IN_USE);
  switch (found.state) {
    case 'COPYING':
      folder.migrate();
      return claim(redis, found.name);
    case 'COMPLETE':
      await claim(redis, found.name);
      return 'complete before';
    case 'STARTED':
      return 'started before';
    case 'GIVEN UP':
      throw givenUp();
  }
}

/**
 * No target can start whose copy was not noted, and none will be noted without the folder's present name. A copy of the folder does not know
 * what was noted later. Throws CannotOpen.
 */
function refuseOtherTarget({ mark, isRestored }: LeavingFolder): void {
  if (mark?.isCopied) throw new CannotOpen(OTHER_TARGET);
  if (mark && isRestored) throw new CannotOpen(COPY_OF_LEAVING);
}

async function claim(redis: TransferRedis, name: string): Promise<string> {
  const found = await redis.claim(name);
  if (found.isGivenUp) throw givenUp();
  refuseOtherTransfer(found, name);
  return name;
}

const givenUp = () =>
  new CannotOpen('This transfer was given up: run idempay transfer --cancel again, which frees DATA_DIR.');

async function copyAll({ folder, target, redis }: Ends, name: string, progress: TransferProgress): Promise<void> {
  const counts = new Map(LONG_TABLES.map((table) => [table, folder.count(table)]));
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
  let copied = 0;
  const report = (count: number) => {
    copied += count;
    progress.copied(Math.min(copied, all), all);
  };
  for (const table of LONG_TABLES) await copyTable({ folder, target }, name, table, report);
  await copyKeys(folder, redis, name);
  const rest = new Map(SHORT_TABLES.map((table) => [table, folder.rows(table, undefined, ALL)]));
  await target.copyRest(name, folder.deployment, rest);
  for (const table of [...LONG_TABLES, ...SHORT_TABLES]) await compare(folder, target, table);
  await compareTags(folder, target);
  await target.beginSettlementsBehind(folder.clockMs);
  await folder.markCopied();
  await target.complete(name);
}

async function copyTable(
  { folder, target }: Pick<Ends, 'folder' | 'target'>,
  name: string,
  table: TransferredTable,
  report: (count: number) => void,
): Promise<void> {
  const isNumber = (column: string) => table.columns[column] === 'integer';
  const last = await target.last(table);
  let after = last && table.key.map((column, index) => (isNumber(column) ? Number(last[index]) : (last[index] ?? '')));
  if (last) report(await target.count(table));
  // The next rows are read while PostgreSQL writes: a batch of them takes far less than the limit of an idle transaction.
  let writing: Promise<void> = Promise.resolve();
  for (;;) {
    const rows = folder.rows(table, after, BATCH);
    await writing;
    const newest = rows.at(-1);
    if (!newest) return;
    after = table.key.map((column) => newest[column] as string | number);
    writing = target.copy(name, table, rows).then(() => report(rows.length));
    // It is awaited in the next turn.
    writing.catch(() => {});
    if (rows.length < BATCH) return writing;
  }
}

async function copyKeys(folder: LeavingFolder, redis: TransferRedis, name: string): Promise<void> {
  for (let after = ''; ; ) {
    const keys = folder.unpaidKeys(after, KEY_BATCH);
    await redis.issue(name, keys);
    if (keys.length < KEY_BATCH) return;
    after = keys.at(-1)?.key ?? after;
  }
}

async function compare(folder: LeavingFolder, target: TransferTarget, table: TransferredTable): Promise<void> {
  if (folder.sums(table) !== (await target.sums(table))) throw differing(table.name);
}

/** The tag of the list of all transactions, which clients have (`list-tags.ts`). */
async function compareTags(folder: LeavingFolder, target: TransferTarget): Promise<void> {
  const [original, copy] = [createHash('md5'), createHash('md5')];
  for (const ids of folder.transactionIds()) original.update(ids.join(''));
  for await (const ids of target.transactionIds()) copy.update(ids.join(''));
  if (original.digest('hex') !== copy.digest('hex')) throw differing('transactions');
}

const differing = (table: string) =>
  new CannotOpen(
    `The copy of ${table} differs from DATA_DIR, and no service starts on it. Take the folder back with idempay transfer --cancel, and tell us.`,
  );

/**
 * Takes the folder back. The next start on it is that of a restored copy: it looks up before it charges. Throws CannotOpen, with nothing
 * changed, if a service has started on the target, or the target that may have started cannot be asked. May be run again.
 */
export function cancelTransfer(settings: TransferSettings, progress: Pick<TransferProgress, 'warn'>): Promise<void> {
  return withEnds(settings, progress, async ({ folder, target, redis }) => {
    const { mark } = folder;
    if (!mark) throw notLeaving();
    const found = await target.find();
    // Whatever DATABASE_URL names: a copy of the folder may meet the Redis of the target that has started.
    if ((await redis.find())?.isStarted) throw started();
    const isOurs = typeof found === 'object' && found.name === mark.name;
    if (isOurs) {
      if (!(await target.giveUp(mark.name))) throw started();
    } else refuseOtherTarget(folder);
    await redis.giveUp(mark.name);
    await folder.free();
  });
}

/** The same without asking the target, for one that is gone for ever. Only the operator can know that. */
export function cancelWithoutTarget(dataDir: string): void {
  const folder = openLeavingFolder(dataDir);
  try {
    if (!folder.mark) throw notLeaving();
    folder.free();
  } finally {
    folder.close();
  }
}

const notLeaving = () => new CannotOpen('No transfer of DATA_DIR is under way, and nothing was changed.');

const started = () =>
  new CannotOpen(
    'A service has started on the target, which has the deployment since then, and nothing was changed. Only if the target is gone for ever, take the folder back with idempay transfer --cancel --target-is-gone.',
  );

async function withEnds<Result>(
  { dataDir, databaseUrl, redis: location }: TransferSettings,
  { warn }: Pick<TransferProgress, 'warn'>,
  work: (ends: Ends) => Promise<Result>,
): Promise<Result> {
  const folder = openLeavingFolder(dataDir);
  try {
    const target = await openTransferTarget(databaseUrl);
    try {
      const redis = await openTransferRedis(location, folder.deployment, warn);
      try {
        return await work({ folder, target, redis });
      } finally {
        redis.close();
      }
    } finally {
      await target.close();
    }
  } catch (error) {
    if (error instanceof CannotOpen) throw error;
    throw new CannotOpen(`The command ended early: ${wordsOf(error)}`, { cause: error });
  } finally {
    folder.close();
  }
}

function wordsOf(error: unknown): string {
  const { message, errcode, syscall } = error as { message: string; errcode?: unknown; syscall?: unknown };
  if (error instanceof StoreUnavailable) return `REDIS_URL: ${message}. ${RUN_AGAIN}`;
  if (isPostgresFault(error)) return `DATABASE_URL: ${wordsFor(error)}. ${RUN_AGAIN}`.replace('..', '.');
  // A fault of SQLite has a number, and a fault of a file names the call.
  if (errcode !== undefined || syscall !== undefined) return `DATA_DIR: ${message}. ${RUN_AGAIN}`;
  return `${message}. If it ends so again, take the folder back with idempay transfer --cancel, and tell us.`;
}
