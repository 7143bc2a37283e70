import type { PaymentRow } from '#idempay/deployments/distributed/postgres/payment-row.js';
import { StatementRefused } from '#idempay/deployments/distributed/postgres/postgres.js';
import type { ModelledStatement, Tables, Values } from './postgres-server.js';
import { currentHour } from './retention-statements.js';
import type { StoredPayment } from './stored-payment.js';

const firstColumn = ([keys]: Values) => keys as string[];
const firstValue = ([key]: Values) => [key as string];

/** The n-th row of values that are columns. */
function rowOf<Row extends readonly unknown[]>(values: Values, index: number): Row {
  return values.map((column) => (column as unknown[])[index]) as unknown as Row;
}

/** The row of a claim; undefined where there is one already, or it came too late. */
function insertOf(
  { payments, retention }: Tables,
  values: Values,
  index: number,
  now: number,
): StoredPayment | undefined {
  const [key, transaction_id, amount, currency, fingerprint, processor, owner, leaseMs, claimBefore] = rowOf<
    [string, string, string, string, string, string, string, number, number]
  >(values, index);
  if (now > claimBefore || key < retention.keysBefore || payments.has(key)) return undefined;
  return {
    ...{ key, transaction_id, amount, currency, fingerprint, processor, owner },
    ...{ state: 'PROCESSING', epoch: 1, lease_until: now + leaseMs, recover_at: now + leaseMs, claimed_at: now },
    ...{ unsent_epoch: null, reason: null, resolution: null },
    ...{ expires_at: null, settled_at: null, settled_hour: null },
  };
}

type Fenced = readonly [key: string, epoch: number, owner: string, ...more: unknown[]];

/** Compare-and-set on (key, epoch, owner, PROCESSING). */
function fencedUpdate(
  set: (row: StoredPayment, values: Fenced, now: number, tables: Tables) => Partial<StoredPayment>,
) {
  return (tables: Tables, values: Values, at: readonly number[]) =>
    at.flatMap((now, index) => {
      const fenced = rowOf<Fenced>(values, index);
      const [key, epoch, owner] = fenced;
      const row = tables.payments.get(key);
      if (row?.state !== 'PROCESSING' || row.epoch !== epoch || row.owner !== owner) return [];
      const written = { ...row, ...set(row, fenced, now, tables) };
      tables.payments.set(key, written);
      return [{ key, owner, expires_at: floor(written.expires_at) }];
    });
}

function takeOver(
  { payments }: Tables,
  row: StoredPayment | undefined,
  owner: string,
  leaseMs: number,
  processors: readonly (string | null)[],
  now: number,
): PaymentRow[] {
  if (row?.state !== 'PROCESSING' || row.lease_until > now || !processors.includes(row.processor)) return [];
  const leaseUntil = now + leaseMs;
  const taken = { ...row, epoch: row.epoch + 1, owner, lease_until: leaseUntil, recover_at: leaseUntil };
  payments.set(row.key, taken);
  return [columnsOf(taken, now)];
}

/** What `ledger-statements.ts` and `payment-history-statements.ts` say. */
export const PAYMENT_STATEMENTS: Readonly<Record<string, ModelledStatement>> = {
  claim: {
    locks: firstColumn,
    run(tables, values, at) {
      const inserted: StoredPayment[] = [];
      const ids = new Set([...tables.payments.values()].map(({ transaction_id }) => transaction_id));
      for (const [index, now] of at.entries()) {
        const row = insertOf(tables, values, index, now);
        if (row && ids.has(row.transaction_id)) {
          for (const { key } of inserted) tables.payments.delete(key);
          throw new StatementRefused('23505', new Error(`${row.transaction_id} is there already`));
        }
        if (!row) continue;
        tables.payments.set(row.key, row);
        ids.add(row.transaction_id);
        inserted.push(row);
      }
      return inserted.map(({ owner }) => ({ owner, may_be_lost: false, age_ms: 0 }));
    },
  },

  take_over: {
    locks: firstValue,
    run(tables, values, [now = 0]) {
      const [key, owner, leaseMs, ...processors] = values as [string, string, number, string, string | null];
      return takeOver(tables, tables.payments.get(key), owner, leaseMs, processors, now);
    },
  },

  /** Rows that somebody is changing are left alone (`SKIP LOCKED`). */
  take_over_abandoned: {
    run(tables, values, [now = 0], isLocked) {
      const [owner, leaseMs, processor, former, limit] = values as [string, number, string, string | null, number];
      const processors = [processor, former];
      return [...tables.payments.values()]
        .filter((row) => row.state === 'PROCESSING' && row.recover_at <= now && row.lease_until <= now)
        .filter((row) => processors.includes(row.processor) && !isLocked(row.key))
        .sort((one, other) => one.recover_at - other.recover_at)
        .slice(0, limit)
        .flatMap((row) => takeOver(tables, row, owner, leaseMs, processors, now));
    },
  },

  renew: {
    locks: firstColumn,
    run: fencedUpdate((_row, [, , , leaseMs], now) => {
      const leaseUntil = now + Number(leaseMs);
      return { lease_until: leaseUntil, recover_at: leaseUntil };
    }),
  },

  abandon: {
    locks: firstColumn,
    run: fencedUpdate(({ epoch }, [, , , recoverAfterMs, unsent], now) => ({
      ...{ owner: '', lease_until: 0, recover_at: now + Number(recoverAfterMs) },
      unsent_epoch: unsent ? epoch : null,
    })),
  },

  settle: {
    locks: firstColumn,
    run: fencedUpdate((_row, [, , , state, reason, ttlMs], now, tables) => ({
      ...{ state: state as StoredPayment['state'], reason: reason as string | null },
      ...{ settled_at: now, settled_hour: currentHour(tables.retention).hour, expires_at: now + Number(ttlMs) },
    })),
  },

  resolve: {
    locks: firstValue,
    run({ payments, retention }, values, [now = 0]) {
      const [key, owner, state, reason, dedupMs, idempotencyTtlMs] = values as [
        ...[string, string, StoredPayment['state'], string],
        ...[number, number],
      ];
      const row = payments.get(key);
      const minAgeMs = row?.unsent_epoch === row?.epoch ? idempotencyTtlMs : dedupMs;
      if (row?.state !== 'PROCESSING' || row.lease_until > now || row.claimed_at > now - minAgeMs) return [];
      const resolved = {
        ...{ ...row, state, owner, resolution: reason, epoch: row.epoch + 1 },
        reason: state === 'DECLINED' ? reason : null,
        ...{ settled_at: now, settled_hour: currentHour(retention).hour, expires_at: now + idempotencyTtlMs },
      };
      payments.set(key, resolved);
      return [columnsOf(resolved, now)];
    },
  },

  find_payments: {
    run: ({ payments }, [keys], [now = 0]) =>
      (keys as string[]).flatMap((key) => {
        const row = payments.get(key);
        return row ? [columnsOf(row, now)] : [];
      }),
  },

  count_abandoned: {
    run({ payments }, [olderThanMs, unsentOlderThanMs], [now = 0]) {
      const limitOf = (row: StoredPayment) => Number(row.unsent_epoch === row.epoch ? unsentOlderThanMs : olderThanMs);
      const abandoned = [...payments.values()].filter(
        (row) => row.state === 'PROCESSING' && row.lease_until <= now && row.claimed_at < now - limitOf(row),
      );
      return [{ abandoned: abandoned.length }];
    },
  },

  find_record: {
    run({ payments }, [key]) {
      const row = payments.get(key as string);
      return row ? [recordColumnsOf(row)] : [];
    },
  },

  ...newest('newest_payments', () => true),
  ...newest('newest_completed', ({ state }) => state === 'COMPLETED'),
  ...newest('newest_declined', ({ state }) => state === 'DECLINED'),
  ...newest('newest_processing', ({ state }) => state === 'PROCESSING'),

  settled_payments: {
    run({ payments }, values) {
      const [afterUs, afterKey, from, to, limit] = values as [number, string, number, number, number];
      return [...payments.values()]
        .flatMap((row) => (row.settled_at === null ? [] : { row, us: Math.floor(row.settled_at * 1000) }))
        .filter(({ row, us }) => us > afterUs || (us === afterUs && row.key > afterKey))
        .filter(({ us }) => us >= from * 1000 && us < to * 1000)
        .sort((one, other) => one.us - other.us || (one.row.key < other.row.key ? -1 : 1))
        .slice(0, limit)
        .map(({ row }) => recordColumnsOf(row));
    },
  },
};

function newest(name: string, isOne: (row: StoredPayment) => boolean): Record<string, ModelledStatement> {
  return {
    [name]: {
      run({ payments }, values) {
        const [from, below, limit] = values as [string, string, number];
        return [...payments.values()]
          .filter((row) => row.key >= from && row.key < below && isOne(row))
          .sort((one, other) => (one.key < other.key ? 1 : -1))
          .slice(0, limit)
          .map(recordColumnsOf);
      },
    },
  };
}

function columnsOf(row: StoredPayment, now: number): PaymentRow {
  const { lease_until, claimed_at, expires_at, ...columns } = row;
  return {
    ...columns,
    remaining_ms: Math.max(0, lease_until - now),
    age_ms: now - claimed_at,
    expires_at: floor(expires_at),
    repeatable: (expires_at ?? 0) > now,
  };
}

function recordColumnsOf(row: StoredPayment): object {
  const settledAtUs = row.settled_at === null ? null : Math.floor(row.settled_at * 1000);
  return { ...row, claimed_at: floor(row.claimed_at), settled_at: floor(row.settled_at), settled_at_us: settledAtUs };
}

function floor(ms: number | null): number | null {
  return ms === null ? null : Math.floor(ms);
}
