import { isUnknown } from '#idempay/errors.js';
import type { ClaimAttempt, Claimed, Found, Ledger, Settled } from '#idempay/payments/ledger.js';
import type { Claim, Fence, FinalOutcome, Outcome } from '#idempay/payments/payment.js';
import type { InstanceClock } from './instance.js';
import type { Server } from './network.js';
import type { Actor, Simulation } from './simulation.js';

export interface Row {
  readonly key: string;
  readonly transactionId: string;
  readonly amount: string;
  readonly currency: string;
  readonly fingerprint: string;
  readonly processor: string;
  readonly claimedAt: number;
  readonly state: 'PROCESSING' | Outcome['state'];
  readonly reason: string | undefined;
  readonly epoch: number;
  readonly owner: string;
  readonly leaseUntil: number;
  readonly recoverAt: number;
  readonly expiresAt: number | undefined;
  /** By the simulation's own time, which no trouble moves. */
  readonly firstThereAt: number;
}

/** The rows of the store of record: nothing in it is ever forgotten, and its own clock judges every lease. */
export class LedgerState {
  readonly rows = new Map<string, Row>();
  /** Milliseconds that its wall clock is ahead. */
  clockAheadMs = 0;

  constructor(private readonly simulation: Simulation) {}

  now(): number {
    return this.simulation.time + this.clockAheadMs;
  }

  /** Compare-and-set on (key, epoch, owner, PROCESSING). */
  change(fence: Fence, change: Partial<Row>): Row | undefined {
    const row = this.rows.get(fence.key);
    if (row?.state !== 'PROCESSING' || row.epoch !== fence.epoch || row.owner !== fence.owner) return undefined;
    const changed = { ...row, ...change };
    this.rows.set(row.key, changed);
    return changed;
  }

  takeOver(key: string, owner: string, leaseMs: number, processor: string): Claim | undefined {
    const row = this.rows.get(key);
    const now = this.now();
    if (row?.state !== 'PROCESSING' || row.leaseUntil > now || row.processor !== processor) return undefined;
    const leaseUntil = now + leaseMs;
    const taken = { ...row, epoch: row.epoch + 1, owner, leaseUntil, recoverAt: leaseUntil };
    this.rows.set(key, taken);
    return claimOf(taken, now);
  }

  /** Embedded, at a start: no process but this one can hold a lease. */
  endAllLeases(): void {
    const now = this.now();
    for (const row of this.rows.values()) {
      if (row.state === 'PROCESSING') this.rows.set(row.key, { ...row, leaseUntil: now, recoverAt: now });
    }
  }

  find(key: string): Found {
    const row = this.rows.get(key);
    if (!row) return { state: 'absent' };
    const now = this.now();
    if (row.state !== 'PROCESSING') {
      const final = finalOf(row);
      return final.expiresAt > now ? { state: 'final', final } : { state: 'absent' };
    }
    return row.leaseUntil > now
      ? { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.leaseUntil - now }
      : { state: 'abandoned' };
  }
}

/** The port as one instance sees it, with what its adapter does when a reply is lost: it reads back, never repeats. */
export function createSimulatedLedger(
  simulation: Simulation,
  server: Server,
  state: LedgerState,
  instance: Actor,
  clock: InstanceClock,
): Ledger {
  /** The database's clock at a moment of ours: the adapter learns the offset from replies, so it is early, never late. */
  const databaseTime = (monotonicMs: number) => monotonicMs - clock.monotonic() + simulation.time + state.clockAheadMs;

  function insert(attempt: ClaimAttempt, claimBefore: number): boolean {
    const now = state.now();
    if (now > claimBefore || state.rows.has(attempt.key)) return false;
    const { key, transactionId, amount, currency, fingerprint, processor, owner, leaseMs } = attempt;
    const leaseUntil = now + leaseMs;
    state.rows.set(key, {
      key,
      transactionId,
      amount,
      currency,
      fingerprint,
      processor,
      owner,
      leaseUntil,
      claimedAt: now,
      state: 'PROCESSING',
      reason: undefined,
      epoch: 1,
      recoverAt: leaseUntil,
      expiresAt: undefined,
      firstThereAt: simulation.time,
    });
    return true;
  }

  async function insertOrReadBack(attempt: ClaimAttempt): Promise<boolean> {
    const { key, owner, claimBy } = attempt;
    const claimBefore = databaseTime(claimBy);
    try {
      return await server.ask(instance, `claim ${key} as ${owner}`, () => insert(attempt, claimBefore));
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await readRow(key).catch(() => undefined);
      if (row?.owner === owner && row.epoch === 1 && row.state === 'PROCESSING') return true;
      throw fault;
    }
  }

  function readRow(key: string): Promise<Row | undefined> {
    return server.ask(instance, `read the row of ${key}`, () => state.rows.get(key));
  }

  const find = (key: string) => server.ask(instance, `find ${key}`, () => state.find(key));

  const takeOver: Ledger['takeOver'] = ({ key, owner, leaseMs, processor }) =>
    server.ask(instance, `take over ${key} as ${owner}`, () => state.takeOver(key, owner, leaseMs, processor));

  async function explain(attempt: ClaimAttempt): Promise<Claimed> {
    const taken = await takeOver(attempt);
    if (taken) return { state: 'taken over', claim: taken };
    const found = await find(attempt.key);
    if (found.state === 'under way' || found.state === 'final') return found;
    if (found.state === 'abandoned') return { state: 'under way', fingerprint: attempt.fingerprint, remainingMs: 0 };
    return (await readRow(attempt.key)) ? { state: 'expired' } : { state: 'too late' };
  }

  async function settleOrReadBack(claim: Claim, outcome: Outcome, ttlMs: number): Promise<Row | undefined> {
    try {
      return await server.ask(instance, `settle ${claim.key} as ${claim.owner}`, () =>
        state.change(claim, {
          state: outcome.state,
          reason: outcome.state === 'DECLINED' ? outcome.reason : undefined,
          expiresAt: state.now() + ttlMs,
        }),
      );
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await readRow(claim.key).catch(() => undefined);
      if (!row || row.state === 'PROCESSING') throw fault;
      return row.owner === claim.owner && row.epoch === claim.epoch ? row : undefined;
    }
  }

  return {
    async claim(attempt) {
      if (!(await insertOrReadBack(attempt))) return explain(attempt);
      const { key, owner, transactionId, amount, currency, fingerprint, processor } = attempt;
      const claim = { key, epoch: 1, owner, transactionId, amount, currency, fingerprint, processor, ageMs: 0 };
      return { state: 'claimed', claim };
    },

    find,
    takeOver,

    takeOverAbandoned: ({ owner, leaseMs, processor, limit }) =>
      server.ask(instance, 'take over what is abandoned', () => {
        const now = state.now();
        return [...state.rows.values()]
          .filter((row) => row.state === 'PROCESSING' && row.leaseUntil <= now && row.recoverAt <= now)
          .sort((a, b) => a.recoverAt - b.recoverAt)
          .slice(0, limit)
          .flatMap(({ key }) => state.takeOver(key, owner, leaseMs, processor) ?? []);
      }),

    renew: (fence, leaseMs) =>
      server.ask(instance, `renew the row of ${fence.key} as ${fence.owner}`, () => {
        const leaseUntil = state.now() + leaseMs;
        return state.change(fence, { leaseUntil, recoverAt: leaseUntil }) !== undefined;
      }),

    async abandon(fence, recoverAfterMs) {
      await server.ask(instance, `give up ${fence.key} as ${fence.owner}`, () => {
        const now = state.now();
        state.change(fence, { leaseUntil: now, recoverAt: now + recoverAfterMs });
      });
    },

    async settle(claim, outcome, ttlMs): Promise<Settled> {
      const settled = await settleOrReadBack(claim, outcome, ttlMs);
      if (settled) return { state: 'settled', final: finalOf(settled) };
      const row = await readRow(claim.key);
      return row && row.state !== 'PROCESSING' ? { state: 'final', final: finalOf(row) } : { state: 'fenced off' };
    },

    async resolve() {
      throw new Error('no operator is simulated');
    },
    countAbandoned: (olderThanMs) =>
      server.ask(instance, 'count what is overdue', () => {
        const now = state.now();
        const overdue = (row: Row) => row.state === 'PROCESSING' && row.leaseUntil <= now;
        return [...state.rows.values()].filter((row) => overdue(row) && now - row.claimedAt > olderThanMs).length;
      }),
    removeSettled: async () => 0,
  };
}

function claimOf(row: Row, now: number): Claim {
  const { key, epoch, owner, transactionId, amount, currency, fingerprint, processor, claimedAt } = row;
  const ageMs = Math.max(0, now - claimedAt);
  return { key, epoch, owner, transactionId, amount, currency, fingerprint, processor, ageMs };
}

function finalOf(row: Row): FinalOutcome {
  const outcome: Outcome =
    row.state === 'DECLINED'
      ? { state: 'DECLINED', reason: row.reason ?? '' }
      : { state: 'COMPLETED', transactionId: row.transactionId };
  return { outcome, fingerprint: row.fingerprint, expiresAt: row.expiresAt ?? 0 };
}
