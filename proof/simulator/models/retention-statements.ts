import { keyTimeOf } from '#idempay/payments/values/idempotency-key.js';
import { HOUR_MS } from '#idempay/stores/shared/retention-hour.js';
import type { StoredPayment } from './payment-statements.js';
import type { Statements, Tables } from './postgres-server.js';

interface Hour {
  readonly hour: number;
  readonly from_ms: number;
  readonly until_ms: number;
  readonly lowest_key_ms: number;
  readonly clock_ms: number;
  readonly unseen_ms: number;
  readonly confirmed: boolean;
}

/** The tables `retention_hours` and `payment_horizon`. */
export interface Retention {
  /** The oldest first; never empty. */
  hours: Hour[];
  keysBefore: string;
  removableBefore: string;
  seenAt: number | null;
  /** The latest settlement that was removed; null if none was. */
  removedUntil: number | null;
}

const BEFORE_ALL = '00000000-0000-0000-0000-000000000000';

export function createRetention(now: number): Retention {
  const clock = { lowest_key_ms: Math.floor(now), clock_ms: Math.floor(now) };
  const hour = { hour: 1, from_ms: 0, until_ms: 0, ...clock, unseen_ms: 0, confirmed: false };
  return { hours: [hour], keysBefore: BEFORE_ALL, removableBefore: BEFORE_ALL, seenAt: now, removedUntil: null };
}

export const currentHour = ({ hours }: Retention) => hours.at(-1) as Hour;

/** As an attempt is judged by it that follows a decline of this hour; undefined for one that was forgotten. */
export function ageOfHour({ hours }: Retention, hour: number | null | undefined): number | undefined {
  const old = hours.find((each) => each.hour === hour);
  if (!old) return undefined;
  const confirmed = hours.filter((each) => each.hour > old.hour && each.confirmed);
  const confirmedMs = confirmed.reduce((sum, { unseen_ms }) => sum + unseen_ms, 0);
  return (hours.at(-1) as Hour).until_ms - old.until_ms + confirmedMs;
}

/** The final rows after a place in the order of their ends, with those in microseconds. */
export const settledAfter = ({ payments }: Tables, afterUs: number, afterKey: string) =>
  [...payments.values()]
    .flatMap((row) => (row.settled_at === null ? [] : { row, us: Math.floor(row.settled_at * 1000) }))
    .filter(({ row, us }) => us > afterUs || (us === afterUs && row.key > afterKey))
    .sort((one, other) => one.us - other.us || (one.row.key < other.row.key ? -1 : 1));

/** The model of the statements in `retention-statements.ts`. */
export const RETENTION_STATEMENTS: Statements = {
  note_elapsed({ retention }, [sinceMs, elapsedMs, lowestKeyMs]: [number, number, number], [at]) {
    const now = Math.floor(at);
    const hour = currentHour(retention);
    const { until_ms: until } = hour;
    const seenMs = until < sinceMs ? until : Math.max(until, sinceMs + Math.min(elapsedMs, HOUR_MS));
    const aheadMs = now - hour.clock_ms - (seenMs - until);
    const noted = {
      ...{ ...hour, until_ms: seenMs, lowest_key_ms: Math.min(hour.lowest_key_ms, lowestKeyMs), clock_ms: now },
      unseen_ms: hour.unseen_ms + (aheadMs > HOUR_MS ? aheadMs : 0),
      confirmed: hour.confirmed && aheadMs <= HOUR_MS,
    };
    retention.hours = [...retention.hours.slice(0, -1), noted];
    return [{ hour: hour.hour, seenMs, isOver: seenMs - hour.from_ms >= HOUR_MS }];
  },

  begin_hour({ retention }, [number, lowest_key_ms]: [number, number]) {
    const { hour, until_ms, clock_ms } = currentHour(retention);
    const begun = { from_ms: until_ms, until_ms, lowest_key_ms, clock_ms, unseen_ms: 0, confirmed: false };
    if (hour === number) retention.hours = [...retention.hours, { hour: number + 1, ...begun }];
    return [];
  },

  retention_time({ retention: { hours, keysBefore } }) {
    const unseenMs = hours.reduce((sum, { confirmed, unseen_ms }) => sum + (confirmed ? 0 : unseen_ms), 0);
    return [{ keysBefore, unseenMs }];
  },

  old_hour({ retention }, [minAgeMs]: [number]) {
    const { hours } = retention;
    for (let index = hours.length - 2; index >= 0; index -= 1) {
      const younger = hours.slice(index + 1);
      const confirmedMs = younger.reduce((sum, { confirmed, unseen_ms }) => sum + (confirmed ? unseen_ms : 0), 0);
      const { hour, until_ms } = hours[index] as Hour;
      if (currentHour(retention).until_ms - until_ms + confirmedMs < minAgeMs) continue;
      return [{ hour, keysFromMs: Math.min(...younger.map(({ lowest_key_ms }) => lowest_key_ms)) }];
    }
    return [];
  },

  forget_hours({ retention }, [before]: [number]) {
    retention.hours = retention.hours.filter(({ hour }) => hour >= before);
    return [];
  },

  advance_horizon({ retention }, [keysBefore, afterMs]: [string, number], [now]) {
    const { seenAt } = retention;
    if (seenAt === null) retention.seenAt = now;
    else if (seenAt <= now - afterMs) {
      retention.seenAt = null;
      retention.removableBefore = retention.keysBefore;
      if (keysBefore > retention.keysBefore) retention.keysBefore = keysBefore;
    }
    return [];
  },

  /**
   * Rows that somebody is changing are left alone (`SKIP LOCKED`). The rows of a reference go together, or none does, and so do a payment and
   * its refunds.
   */
  remove_settled(tables, values: [number, string, number, number, number], [now], isLocked) {
    const { payments, retention } = tables;
    const [afterUs, afterKey, before, hour, limit] = values;
    const settled = settledAfter(tables, afterUs, afterKey).filter(({ us }) => us < before * 1000);
    const looked = settled.slice(0, limit);
    const isOver = ({ settled_hour, expires_at }: StoredPayment) =>
      (settled_hour ?? Infinity) <= hour && (expires_at ?? Infinity) <= now;
    const isBelowHorizon = ({ settled_at }: StoredPayment) =>
      (settled_at ?? Infinity) < keyTimeOf(retention.keysBefore);
    const refundsOf = ({ key, refunded }: StoredPayment) =>
      refunded === null ? [] : [...payments.values()].filter(({ refund_of }) => refund_of === key);
    const hasOldRefunds = (row: StoredPayment) => refundsOf(row).every((each) => isOver(each) && isBelowHorizon(each));
    const over = looked
      .map(({ row }) => row)
      .filter((row) => isOver(row) && row.refund_of === null && hasOldRefunds(row));
    const single = over.filter(({ key, reference }) => reference === null && key < retention.removableBefore);
    const references = new Set(over.filter(isBelowHorizon).flatMap(({ reference }) => reference ?? []));
    const attempts = [...payments.values()].filter(({ reference }) => reference !== null && references.has(reference));
    const isRemovable = ({ reference, client }: StoredPayment) =>
      attempts.every(
        (row) =>
          row.reference !== reference ||
          row.client !== client ||
          (isOver(row) && isBelowHorizon(row) && hasOldRefunds(row)),
      );
    // Nothing changes a final row of a reference that is as old: a claim changes no row that it meets, and nothing of it is refunded.
    const whole = [...single.filter(({ key }) => !isLocked(key)), ...attempts.filter(isRemovable)];
    const removable = whole.flatMap((row) => [row, ...refundsOf(row)]);
    for (const { key } of removable) payments.delete(key);
    const latest = Math.max(retention.removedUntil ?? -Infinity, ...removable.map((row) => Number(row.settled_at)));
    if (removable.length > 0) retention.removedUntil = latest;
    const last = looked.length === limit ? looked.at(-1) : undefined;
    return [{ removed: removable.length, settledAtUs: last?.us ?? null, key: last?.row.key ?? null }];
  },

  may_be_removed: ({ retention }, [key]: [string]) => [{ mayBeRemoved: key < retention.keysBefore }],
};
