import type { Ledger } from '../../../payments/ports/ledger.js';
import { keyTimeOf, lowestKeyAt } from '../../../payments/values/idempotency-key.js';
import { HOUR_MS } from '../../shared/retention-hour.js';
import { STATEMENT_TIMEOUT_MS } from '../../shared/time-limits.js';
import type { PostgresPart } from '../connection/part.js';
import * as statements from './retention-statements.js';

/** Every claim that did not see a raise of the horizon has ended this long after the raise was visible. */
const CLAIMS_END_MS = STATEMENT_TIMEOUT_MS + 2_000;
const BEFORE_ALL = { settledAtUs: -1, key: '00000000-0000-0000-0000-000000000000' };

/** The time that the processes of this deployment have seen pass. */
export function createNoteElapsed(database: PostgresPart): Ledger['noteElapsed'] {
  return async ({ sinceMs, elapsedMs, lowestKeyMs }) => {
    const [hour] = await database.write<{ hour: number; seenMs: number; isOver: boolean }>(statements.NOTE_ELAPSED, [
      sinceMs,
      elapsedMs,
      lowestKeyMs,
    ]);
    if (!hour) throw new Error('idempay.retention_hours is empty: restore its rows from a backup');
    if (hour.isOver) await database.write(statements.BEGIN_HOUR, [hour.hour, lowestKeyMs]);
    const [time] = await database.read<{ keysBefore: string; unseenMs: number }>(statements.RETENTION_TIME);
    return { seenMs: hour.seenMs, keysFromMs: keyTimeOf(time?.keysBefore ?? ''), unseenMs: time?.unseenMs ?? 0 };
  };
}

interface PaymentHorizon {
  readonly removeSettled: Ledger['removeSettled'];
  /** True if the key is so old that retention may have removed its missing row. */
  mayBeRemoved(key: string): Promise<boolean>;
}

/** One pass over all payments that may be old enough, oldest first. It may take many calls. */
interface Pass {
  readonly hour: number;
  readonly settledBefore: number;
  readonly after: { readonly settledAtUs: number; readonly key: string };
}

/** Removes old payments, and prevents any later claim of their keys. Any number may do so at once. */
export function createPaymentHorizon(database: PostgresPart): PaymentHorizon {
  let pass: Pass | undefined;

  async function beginPass(retentionMs: number): Promise<Pass | undefined> {
    const [old] = await database.read<{ hour: number; keysFromMs: number }>(statements.OLD_HOUR, [
      retentionMs + HOUR_MS,
    ]);
    if (!old) return undefined;
    const { hour, keysFromMs } = old;
    await database.write(statements.ADVANCE_HORIZON, [lowestKeyAt(keysFromMs), CLAIMS_END_MS]);
    await database.write(statements.FORGET_HOURS, [hour]);
    return { hour, settledBefore: keysFromMs, after: BEFORE_ALL };
  }

  return {
    async removeSettled(retentionMs, limit) {
      const current = pass ?? (await beginPass(retentionMs));
      if (!current) return { removed: 0, more: false };
      const { hour, settledBefore, after } = current;
      const values = [after.settledAtUs, after.key, settledBefore, hour, limit];
      const [round] = await database.write<{ removed: number; settledAtUs: number | null; key: string | null }>(
        statements.REMOVE_SETTLED,
        values,
      );
      const { removed = 0, settledAtUs = null, key = null } = round ?? {};
      pass = settledAtUs === null || key === null ? undefined : { ...current, after: { settledAtUs, key } };
      return { removed, more: pass !== undefined };
    },

    async mayBeRemoved(key) {
      const [row] = await database.read<{ mayBeRemoved: boolean }>(statements.MAY_BE_REMOVED, [key]);
      return row?.mayBeRemoved ?? false;
    },
  };
}
