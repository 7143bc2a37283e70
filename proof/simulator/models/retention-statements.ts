import { HOUR_MS } from '#idempay/deployments/retention-hour.js';
import type { ModelledStatement } from './postgres-server.js';
import type { StoredPayment } from './stored-payment.js';

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
}

const BEFORE_ALL = '00000000-0000-0000-0000-000000000000';
const LIST = ['retention'];

export function createRetention(now: number): Retention {
  const clock = { lowest_key_ms: Math.floor(now), clock_ms: Math.floor(now) };
  const hour = { hour: 1, from_ms: 0, until_ms: 0, ...clock, unseen_ms: 0, confirmed: false };
  return { hours: [hour], keysBefore: BEFORE_ALL, removableBefore: BEFORE_ALL, seenAt: now };
}

export function currentHour({ hours }: Retention): Hour {
  return hours.at(-1) as Hour;
}

/** What `retention-time.ts` and `payment-horizon-statements.ts` say. */
export const RETENTION_STATEMENTS: Readonly<Record<string, ModelledStatement>> = {
  note_elapsed: {
    locks: () => LIST,
    run({ retention }, values, [at = 0]) {
      const [sinceMs, elapsedMs, lowestKeyMs] = values as [number, number, number];
      const now = Math.floor(at);
      const hour = currentHour(retention);
      const { until_ms: until } = hour;
      const seenMs = until < sinceMs ? until : Math.max(until, sinceMs + Math.min(elapsedMs, HOUR_MS));
      const aheadMs = now - hour.clock_ms - (seenMs - until);
      const noted = {
        ...hour,
        ...{ until_ms: seenMs, lowest_key_ms: Math.min(hour.lowest_key_ms, lowestKeyMs), clock_ms: now },
        unseen_ms: hour.unseen_ms + (aheadMs > HOUR_MS ? aheadMs : 0),
        confirmed: hour.confirmed && aheadMs <= HOUR_MS,
      };
      retention.hours = [...retention.hours.slice(0, -1), noted];
      return [{ hour: hour.hour, seenMs, isOver: seenMs - hour.from_ms >= HOUR_MS }];
    },
  },

  begin_hour: {
    locks: () => LIST,
    run({ retention }, values) {
      const [number, lowestKeyMs] = values as [number, number];
      const hour = currentHour(retention);
      if (hour.hour !== number) return [];
      const begun = { from_ms: hour.until_ms, until_ms: hour.until_ms, lowest_key_ms: lowestKeyMs };
      const next = { hour: number + 1, ...begun, clock_ms: hour.clock_ms, unseen_ms: 0, confirmed: false };
      retention.hours = [...retention.hours, next];
      return [];
    },
  },

  retention_time: {
    run({ retention: { hours, keysBefore } }) {
      const unseen = hours.filter(({ confirmed }) => !confirmed).map(({ unseen_ms }) => unseen_ms);
      return [{ keysBefore, unseenMs: unseen.reduce((sum, ms) => sum + ms, 0) }];
    },
  },

  old_hour: {
    run({ retention }, [minAgeMs]) {
      const { hours } = retention;
      for (let index = hours.length - 2; index >= 0; index -= 1) {
        const younger = hours.slice(index + 1);
        const confirmedMs = younger.reduce((sum, { confirmed, unseen_ms }) => sum + (confirmed ? unseen_ms : 0), 0);
        const { hour, until_ms } = hours[index] as Hour;
        if (currentHour(retention).until_ms - until_ms + confirmedMs < Number(minAgeMs)) continue;
        return [{ hour, keysFromMs: Math.min(...younger.map(({ lowest_key_ms }) => lowest_key_ms)) }];
      }
      return [];
    },
  },

  forget_hours: {
    locks: () => LIST,
    run({ retention }, [before]) {
      retention.hours = retention.hours.filter(({ hour }) => hour >= Number(before));
      return [];
    },
  },

  advance_horizon: {
    locks: () => LIST,
    run({ retention }, values, [now = 0]) {
      const [keysBefore, afterMs] = values as [string, number];
      const { seenAt } = retention;
      if (seenAt === null) retention.seenAt = now;
      else if (seenAt <= now - afterMs) {
        retention.seenAt = null;
        retention.removableBefore = retention.keysBefore;
        if (keysBefore > retention.keysBefore) retention.keysBefore = keysBefore;
      }
      return [];
    },
  },

  /** Rows that somebody is changing are left alone (`SKIP LOCKED`). */
  remove_settled: {
    run({ payments, retention }, values, [now = 0], isLocked) {
      const [afterUs, afterKey, before, hour, limit] = values as [number, string, number, number, number];
      const looked = [...payments.values()]
        .flatMap((row) => (row.settled_at === null ? [] : { row, us: Math.floor(row.settled_at * 1000) }))
        .filter(({ row, us }) => (us > afterUs || (us === afterUs && row.key > afterKey)) && us < before * 1000)
        .sort((one, other) => one.us - other.us || (one.row.key < other.row.key ? -1 : 1))
        .slice(0, limit);
      const isRemovable = ({ key, settled_hour, expires_at }: StoredPayment) =>
        (settled_hour ?? Infinity) <= hour && (expires_at ?? Infinity) <= now && key < retention.removableBefore;
      const removable = looked.filter(({ row }) => isRemovable(row) && !isLocked(row.key));
      for (const { row } of removable) payments.delete(row.key);
      const last = looked.length === limit ? looked.at(-1) : undefined;
      return [{ removed: removable.length, settledAtUs: last?.us ?? null, key: last?.row.key ?? null }];
    },
  },

  may_be_removed: {
    run: ({ retention }, [key]) => [{ mayBeRemoved: (key as string) < retention.keysBefore }],
  },
};
