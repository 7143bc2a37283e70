import { randomBytes } from 'node:crypto';
import { lowestKeyAt } from '../../../payments/values/idempotency-key.js';
import { CannotOpen } from '../../shared/deployment.js';
import {
  CLOCKS_DIFFER_MS,
  GAP,
  LAST_DAY_US,
  LOOK_UP_REFERENCES_MS,
  MOST_LAST_ROWS,
} from '../../shared/replaced-database.js';
import { type CommitMark, lacksCommits } from './last-commit.js';
import type { Database } from './sqlite.js';
import { changeStopped } from './stopped-database.js';

const INCARNATION_BYTES = 16;

const newIncarnation = () => randomBytes(INCARNATION_BYTES).toString('hex');

/** `incarnation`: a further column of the commit, or ''. */
const markAnd = (incarnation: string) => `
  BEGIN IMMEDIATE;
  UPDATE deployment SET is_backup = 1;
  UPDATE last_commit SET number = number + 1${incarnation};
  COMMIT`;

/** A transaction id begins with the microsecond of its first claim. */
const LAST_ROWS = `
  SELECT processor FROM payments
  WHERE transaction_id >= (
    SELECT printf('TXN%016d000000', max(0, CAST(substr(max(transaction_id), 4, 16) AS INTEGER) - ${LAST_DAY_US})) FROM payments)
  ORDER BY transaction_id DESC LIMIT ${MOST_LAST_ROWS}`;

/**
 * The processors of the last day before the loss. If keys are still looked up because of an earlier loss, they must also be of the day
 * before that one. NULL if nothing was ever paid. Running it twice changes nothing.
 */
const PROCESSORS_BEFORE_LOSS = `
  CASE WHEN processors <> '[]' THEN (
    SELECT json_group_array(DISTINCT processor) FROM (${LAST_ROWS})
    WHERE processor IS NOT NULL AND (
      processors_before_loss IS NULL OR look_up_references_until <= (SELECT max(until_ms) FROM retention_hours)
      OR processor IN (SELECT value FROM json_each(processors_before_loss)))) END`;

/**
 * A lost takeover may have sent what is marked unsent. A pending payment has no such mark, because it was sent: so the statement does not
 * read pending payments, of which there may be very many.
 */
export const FORGET_UNSENT = `
  UPDATE payments SET unsent_epoch = NULL WHERE state = 'PROCESSING' AND pending_until IS NULL AND unsent_epoch IS NOT NULL`;

/** Another incarnation of the feed of settlements, from now on. */
export const beginIncarnation = (nowMs: string) => `
  INSERT INTO settlement_incarnations SELECT max(number) + 1, lower(hex(randomblob(8))), ${nowMs} FROM settlement_incarnations`;

/** All consequences of rows that may be lost, in one commit. Running it twice only leaves another gap in the ids, and another incarnation. */
const adoptionBefore = (key: string, nowMs: number) => `
  BEGIN IMMEDIATE;
  ${FORGET_UNSENT};
  UPDATE transaction_list
  SET last_id = last_id + ${GAP}, version = version + ${GAP}, last_removal_version = version + ${GAP};
  UPDATE deployment SET is_backup = 0, look_up_before = max(look_up_before, '${key}'), adopted_at = ${nowMs},
    lost_ms = ${nowMs} - (SELECT claimed_at FROM payments ORDER BY transaction_id DESC LIMIT 1),
    look_up_references_until = (SELECT max(until_ms) FROM retention_hours) + ${LOOK_UP_REFERENCES_MS},
    processors_before_loss = ${PROCESSORS_BEFORE_LOSS};
  ${beginIncarnation(`${nowMs}`)};
  UPDATE last_commit SET incarnation = '${newIncarnation()}', number = number + 1, adopted = incarnation;
  COMMIT`;

/**
 * The first start of the copy treats everything that it lacks as lost. It gets another incarnation, so that no log of the
 * database that was copied is taken for the copy's.
 */
export function markAsBackup(database: Database): void {
  database.exec(markAnd(`, incarnation = '${newIncarnation()}'`));
}

/** True if rows may have been written after the state that this database has: it is a copy, or older than the folder's lock knows. */
export function isRestored(database: Database, last: CommitMark, remembered: CommitMark | undefined): boolean {
  const { is_backup } = database.prepare('SELECT is_backup FROM deployment').get() as { is_backup: number };
  return is_backup === 1 || lacksCommits(last, remembered);
}

/** Treats everything written after the state of the database as lost. `nowMs`: the store's time. */
export function adopt(database: Database, nowMs: number): void {
  const key = lowestKeyAt(nowMs + CLOCKS_DIFFER_MS);
  // The log begins anew with this commit: see `assertLogBelongs`.
  const { busy } = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
  if (busy !== 0) throw new CannotOpen('Another program reads the database. End it and start again.');
  database.exec(adoptionBefore(key, nowMs));
}

/**
 * `idempay restored`: says that the folder is a restored snapshot, which has its lock as well, so that nothing in it tells.
 * Throws CannotOpen.
 */
export function markFolderAsRestored(dataDir: string): void {
  changeStopped(dataDir, (database) => database.exec(markAnd('')));
}
