import type { DatabaseClock } from '#idempay/deployments/distributed/postgres/database-clock.js';
import { createConfirmDurable } from '#idempay/deployments/distributed/postgres/durability.js';
import { createPostgresLedger } from '#idempay/deployments/distributed/postgres/ledger.js';
import type { PaymentRow } from '#idempay/deployments/distributed/postgres/payment-row.js';
import type { Postgres, Statement } from '#idempay/deployments/distributed/postgres/postgres.js';
import type { ClaimAttempt, Ledger } from '#idempay/payments/ports/ledger.js';
import type { Outcome } from '#idempay/payments/values/payment.js';
import { ROUTINE, type Server } from '../network.js';
import type { Actor } from '../simulation.js';
import type { Statements } from '../statements.js';
import type { PaymentRows, Row } from './rows.js';

/** What a statement returns; the adapter knows what is in it. */
type Returned = readonly object[];
type Values = readonly unknown[];

/** A statement that writes rows: which ones, and what it makes of each when that is its own. */
interface Write {
  readonly says: string;
  keys(values: Values): readonly string[];
  /** Undefined: it leaves the row as it is. `index` is the key's own place in the values. */
  change(rows: PaymentRows, values: Values, index: number): object | undefined;
}

const oneKey = ([key]: Values) => [key as string];
const keyColumn = ([keys]: Values) => keys as string[];

/** What the statements of `ledger-statements.ts` do, by their names, done with maps. */
const WRITES: Readonly<Record<string, Write>> = {
  claim: {
    says: 'claims',
    keys: keyColumn,
    change(rows, values, index) {
      const [keys, ids, amounts, currencies, prints, processors, owners, leases, claimBefore] = values as unknown[][];
      const at = <T>(column: unknown[] | undefined) => column?.[index] as T;
      const attempt: ClaimAttempt = {
        key: at(keys),
        transactionId: at(ids),
        amount: at(amounts),
        currency: at(currencies),
        fingerprint: at(prints),
        processor: at(processors),
        owner: at(owners),
        leaseMs: at(leases),
        claimBy: at(claimBefore),
      };
      // No server is replaced here: no row is ever lost.
      const inserted = { owner: attempt.owner, may_be_lost: false, age_ms: 0 };
      return rows.insert(attempt, attempt.claimBy) ? inserted : undefined;
    },
  },
  take_over: {
    says: 'takes over',
    keys: oneKey,
    change(rows, values) {
      const [key, owner, leaseMs, ...processors] = values as [string, string, number, string, string | null];
      return rows.takeOver(key, owner, leaseMs, processors) && columnsOf(rows, key);
    },
  },
  renew: {
    says: 'renews the row of',
    keys: keyColumn,
    change(rows, values, index) {
      const { fence, ms } = fencedMs(values, index);
      return rows.renew(fence, ms) ? { key: fence.key, owner: fence.owner } : undefined;
    },
  },
  abandon: {
    says: 'gives up',
    keys: keyColumn,
    change(rows, values, index) {
      const { fence, ms } = fencedMs(values, index);
      const unsent = (values[4] as boolean[])[index] as boolean;
      return rows.abandon(fence, ms, unsent) ? { key: fence.key, owner: fence.owner } : undefined;
    },
  },
  settle: {
    says: 'settles',
    keys: keyColumn,
    change(rows, values, index) {
      const [keys, epochs, owners, states, reasons, ttls] = values as [
        string[],
        number[],
        string[],
        Outcome['state'][],
        (string | null)[],
        number[],
      ];
      const key = keys[index] as string;
      const fence = { key, epoch: epochs[index] as number, owner: owners[index] as string };
      const outcome: Outcome =
        states[index] === 'DECLINED'
          ? { state: 'DECLINED', reason: reasons[index] ?? '' }
          : { state: 'COMPLETED', transactionId: '' };
      const row = rows.settle(fence, outcome, ttls[index] as number);
      return row && { key, owner: row.owner, expires_at: Math.floor(row.expiresAt ?? 0) };
    },
  },
  resolve: {
    says: 'resolves',
    keys: oneKey,
    change(rows, values) {
      const [key, owner, state, reason, dedupMs, idempotencyTtlMs] = values as [
        string,
        string,
        Outcome['state'],
        string,
        number,
        number,
      ];
      return rows.resolve({ key, owner, state, reason, dedupMs, idempotencyTtlMs }) && columnsOf(rows, key);
    },
  },
};

/** The real adapter of the distributed deployment, in one process that is connected to the server. */
export function createSimulatedLedger(
  line: Server,
  rows: PaymentRows,
  instance: Actor,
  databaseClock: DatabaseClock,
  statements: Statements<string>,
  commitsAfterMs: (key: string) => number,
): Ledger {
  function write({ name }: Statement, values: Values = []): Promise<Returned> {
    if (name === 'confirm_durable') return line.ask(instance, ROUTINE, instance.name, () => []);
    if (name === 'take_over_abandoned') return line.ask(instance, ROUTINE, instance.name, () => takeOverDue(values));
    const { says, keys, change } = WRITES[name] ?? nobodyKnows(name);
    const all = keys(values);
    const first = all[0] as string;
    return line.send<Returned>(instance, says, first, (reply, refuse) => {
      const begin = (_key: string, index: number) => {
        const judgedAt = rows.moment;
        return () => rows.asOf(judgedAt, () => change(rows, values, index));
      };
      const tell = (changed: readonly (object | undefined)[]) => reply(changed.flatMap((row) => row ?? []));
      statements.executeAll(all, begin, commitsAfterMs(first), tell, refuse);
    });
  }

  /** Rows that somebody is changing are left alone (`SKIP LOCKED`). */
  function takeOverDue(values: Values): Returned {
    const [owner, leaseMs, processor, former, limit] = values as [string, number, string, string | null, number];
    const isHeld = (key: string) => statements.isHeld(key);
    const claims = rows.takeOverAbandoned(owner, leaseMs, [processor, former], limit, isHeld);
    return claims.flatMap(({ key }) => columnsOf(rows, key) ?? []);
  }

  function read({ name }: Statement, values: Values = []): Promise<Returned> {
    const [value] = values;
    switch (name) {
      case 'find_payments': {
        const keys = value as string[];
        return line.read(instance, 'reads the row of', keys[0] as string, () =>
          keys.flatMap((key) => columnsOf(rows, key) ?? []),
        );
      }
      case 'count_abandoned':
        return line.read(instance, ROUTINE, instance.name, () => {
          const [dedupMs, idempotencyTtlMs] = values as [number, number];
          return [{ abandoned: countAbandoned(dedupMs, idempotencyTtlMs) }];
        });
      case 'may_be_lost':
        return line.read(instance, ROUTINE, instance.name, () => [{ mayBeLost: false }]);
      case 'may_be_removed':
        return line.read(instance, ROUTINE, instance.name, () => [{ mayBeRemoved: false }]);
      default:
        return nobodyKnows(name);
    }
  }

  function countAbandoned(dedupMs: number, idempotencyTtlMs: number): number {
    const now = rows.now();
    const isOverdue = (row: Row) => row.state === 'PROCESSING' && row.leaseUntil <= now;
    const limitOf = (row: Row) => (row.unsentEpoch === row.epoch ? idempotencyTtlMs : dedupMs);
    return [...rows.byKey.values()].filter((row) => isOverdue(row) && now - row.claimedAt > limitOf(row)).length;
  }

  const database = { read, write } as unknown as Postgres;
  return createPostgresLedger(database, databaseClock, createConfirmDurable(database, databaseClock.clock));
}

function columnsOf(rows: PaymentRows, key: string): PaymentRow | undefined {
  const row = rows.byKey.get(key);
  const now = rows.now();
  return (
    row && {
      key,
      transaction_id: row.transactionId,
      amount: row.amount,
      currency: row.currency,
      fingerprint: row.fingerprint,
      processor: row.processor,
      state: row.state,
      epoch: row.epoch,
      unsent_epoch: row.unsentEpoch ?? null,
      owner: row.owner,
      reason: row.reason ?? null,
      remaining_ms: Math.max(0, row.leaseUntil - now),
      age_ms: now - row.claimedAt,
      expires_at: row.expiresAt === undefined ? null : Math.floor(row.expiresAt),
      repeatable: (row.expiresAt ?? 0) > now,
    }
  );
}

function fencedMs(values: Values, index: number) {
  const [keys, epochs, owners, ms] = values as [string[], number[], string[], number[]];
  const fence = { key: keys[index] as string, epoch: epochs[index] as number, owner: owners[index] as string };
  return { fence, ms: ms[index] as number };
}

function nobodyKnows(name: string): never {
  throw new Error(`nobody knows the statement ${name}`);
}
