import type { DatabaseClock } from '#idempay/deployments/distributed/database-clock.js';
import { isUnknown } from '#idempay/errors.js';
import type { ClaimAttempt, Claimed, Found, Ledger, Resolution, Resolved, Settled } from '#idempay/payments/ledger.js';
import type { Claim, Fence, Outcome } from '#idempay/payments/payment.js';
import { ROUTINE, type Server } from '../network.js';
import type { Actor } from '../simulation.js';
import type { Statements } from '../statements.js';
import { finalOf, type PaymentRows, type Row } from './rows.js';

/** A row as a statement sees it: its times are told by the database's clock. */
type SeenRow = Row & { readonly remainingMs: number; readonly ageMs: number; readonly repeatable: boolean };

/** The port as one instance sees it, with what its adapter does when a reply is lost: it reads back, never repeats. */
export function createSimulatedLedger(
  line: Server,
  rows: PaymentRows,
  instance: Actor,
  databaseClock: DatabaseClock,
  statements: Statements<string>,
  commitsAfterMs: (key: string) => number,
): Ledger {
  /** A statement that writes one row. */
  const ask = <T>(operation: string, key: string, execute: () => T) =>
    line.send<T>(instance, operation, key, (reply, refuse) => {
      const begin = () => {
        const judgedAt = rows.moment;
        return { commitsAfterMs: commitsAfterMs(key), commit: () => rows.asOf(judgedAt, execute) };
      };
      statements.execute(key, begin, reply, refuse);
    });

  const findRow = (key: string): Promise<SeenRow | undefined> =>
    line.read(instance, 'reads the row of', key, () => {
      const row = rows.byKey.get(key);
      if (!row) return undefined;
      const now = rows.now();
      return {
        ...row,
        remainingMs: Math.max(0, row.leaseUntil - now),
        ageMs: now - row.claimedAt,
        repeatable: (row.expiresAt ?? 0) > now,
      };
    });

  async function insertOrReadBack(attempt: ClaimAttempt): Promise<boolean> {
    const { key, owner, claimBy } = attempt;
    const claimBefore = databaseClock.at(claimBy);
    try {
      return await ask('claims', key, () => rows.insert(attempt, claimBefore));
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key).catch(() => undefined);
      if (row?.owner === owner && row.epoch === 1 && row.state === 'PROCESSING') return true;
      throw fault;
    }
  }

  const takeOver: Ledger['takeOver'] = ({ key, owner, leaseMs, processor }) =>
    ask('takes over', key, () => rows.takeOver(key, owner, leaseMs, processor));

  async function explain(attempt: ClaimAttempt): Promise<Claimed> {
    const taken = await takeOver(attempt);
    if (taken) return { state: 'taken over', claim: taken };
    const row = await findRow(attempt.key);
    if (row?.state === 'PROCESSING') {
      return { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.remainingMs };
    }
    if (!row) {
      databaseClock.synchronize().catch(() => {});
      return { state: 'too late' };
    }
    return row.repeatable ? { state: 'final', final: finalOf(row) } : { state: 'expired' };
  }

  async function settleOrReadBack(claim: Claim, outcome: Outcome, ttlMs: number): Promise<Row | undefined> {
    try {
      return await ask('settles', claim.key, () => rows.settle(claim, outcome, ttlMs));
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(claim.key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === claim.owner && row.epoch === claim.epoch ? row : undefined;
    }
  }

  async function resolveOrReadBack(resolution: Resolution): Promise<Row | undefined> {
    const { key, owner } = resolution;
    try {
      return await ask('resolves', key, () => rows.resolve(resolution));
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === owner ? row : undefined;
    }
  }

  return {
    async claim(attempt) {
      if (!(await insertOrReadBack(attempt))) return explain(attempt);
      const { key, owner, transactionId, amount, currency, fingerprint, processor } = attempt;
      const claim = { key, epoch: 1, owner, transactionId, amount, currency, fingerprint, processor, ageMs: 0 };
      return { state: 'claimed', claim };
    },

    async find(key): Promise<Found> {
      const row = await findRow(key);
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') {
        return row.repeatable ? { state: 'final', final: finalOf(row) } : { state: 'absent' };
      }
      return row.remainingMs > 0
        ? { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.remainingMs }
        : { state: 'abandoned' };
    },

    takeOver,

    takeOverAbandoned: ({ owner, leaseMs, processor, limit }) =>
      line.ask(instance, ROUTINE, instance.name, () =>
        rows.takeOverAbandoned(owner, leaseMs, processor, limit, (key) => statements.isHeld(key)),
      ),

    renew: (fence: Fence, leaseMs) => ask('renews the row of', fence.key, () => rows.renew(fence, leaseMs)),

    async abandon(fence, recoverAfterMs) {
      await ask('gives up', fence.key, () => rows.abandon(fence, recoverAfterMs));
    },

    async settle(claim, outcome, ttlMs): Promise<Settled> {
      const settled = await settleOrReadBack(claim, outcome, ttlMs);
      if (settled) return { state: 'settled', final: finalOf(settled) };
      const row = await findRow(claim.key);
      return row && row.state !== 'PROCESSING' ? { state: 'final', final: finalOf(row) } : { state: 'fenced off' };
    },

    async resolve(resolution): Promise<Resolved> {
      const resolved = await resolveOrReadBack(resolution);
      if (resolved) return { state: 'resolved', final: finalOf(resolved) };
      const row = await findRow(resolution.key);
      if (!row) return { state: 'absent' };
      if (row.state !== 'PROCESSING') return { state: 'settled before' };
      if (row.remainingMs > 0) return { state: 'under way', remainingMs: row.remainingMs };
      return { state: 'too early', remainingMs: Math.max(0, resolution.minAgeMs - row.ageMs) };
    },

    countAbandoned: (olderThanMs) =>
      line.read(instance, ROUTINE, instance.name, () => {
        const now = rows.now();
        const overdue = (row: Row) => row.state === 'PROCESSING' && row.leaseUntil <= now;
        return [...rows.byKey.values()].filter((row) => overdue(row) && now - row.claimedAt > olderThanMs).length;
      }),

    removeSettled: async () => 0,
  };
}
