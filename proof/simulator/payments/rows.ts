import type { ClaimAttempt, Resolution } from '#idempay/payments/ports/ledger.js';
import type { Claim, Fence, Outcome } from '#idempay/payments/values/payment.js';
import type { WallClock } from '../instance.js';
import type { Simulation } from '../simulation.js';

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
  /** What an operator gave as the reason of a verdict. */
  readonly resolution: string | undefined;
  readonly epoch: number;
  /** The epoch that was given up with nothing ever sent. */
  readonly unsentEpoch: number | undefined;
  readonly owner: string;
  readonly leaseUntil: number;
  readonly recoverAt: number;
  readonly expiresAt: number | undefined;
  /** By the simulation's own time, which no trouble moves: when its claim was judged, and when its outcome was committed. */
  readonly firstThereAt: number;
  readonly finalAt: number | undefined;
}

/** By the wall clock of the rows' machine, and by the simulation's own time. */
export interface Moment {
  readonly now: number;
  readonly time: number;
}

/** A row without what only a judge may know. */
export type ObservedRow = Omit<Row, 'firstThereAt' | 'finalAt'>;

/** The rows of the store of record: nothing in it is ever forgotten, and its own clock judges every lease. */
export class PaymentRows {
  readonly byKey = new Map<string, Row>();
  /** What no store may ever do: write a final state a second time, or a row for somebody who does not hold it. */
  readonly broken: string[] = [];
  private judgedAt: Moment | undefined;

  constructor(
    readonly simulation: Simulation,
    /** Of the machine that it runs on. */
    readonly wall: WallClock,
  ) {}

  now(): number {
    return this.moment.now;
  }

  /** As it is, or as it was when the statement that commits now had its row and was judged. */
  get moment(): Moment {
    const { time } = this.simulation;
    return this.judgedAt ?? { now: time + this.wall.aheadMs, time };
  }

  asOf<T>(judgedAt: Moment, execute: () => T): T {
    this.judgedAt = judgedAt;
    try {
      return execute();
    } finally {
      this.judgedAt = undefined;
    }
  }

  insert(attempt: ClaimAttempt, claimBefore: number): boolean {
    const now = this.now();
    if (now > claimBefore) this.simulation.count('claims too late');
    if (now > claimBefore || this.byKey.has(attempt.key)) return false;
    const { key, transactionId, amount, currency, fingerprint, processor, owner, leaseMs } = attempt;
    const leaseUntil = now + leaseMs;
    this.byKey.set(key, {
      ...{ key, transactionId, amount, currency, fingerprint, processor, owner, leaseUntil },
      claimedAt: now,
      state: 'PROCESSING',
      reason: undefined,
      resolution: undefined,
      epoch: 1,
      unsentEpoch: undefined,
      recoverAt: leaseUntil,
      expiresAt: undefined,
      firstThereAt: this.moment.time,
      finalAt: undefined,
    });
    this.simulation.count('payments');
    return true;
  }

  takeOver(key: string, owner: string, leaseMs: number, processors: readonly (string | null)[]): Claim | undefined {
    const row = this.byKey.get(key);
    const now = this.now();
    if (row?.state !== 'PROCESSING' || row.leaseUntil > now || !processors.includes(row.processor)) return undefined;
    const leaseUntil = now + leaseMs;
    this.simulation.count('takeovers');
    this.simulation.note(this.simulation.tracing ? `${key} is now ${owner}'s, epoch ${row.epoch + 1}` : '');
    return claimOf(this.write({ ...row, epoch: row.epoch + 1, owner, leaseUntil, recoverAt: leaseUntil }), now);
  }

  /** Rows that somebody is changing are left alone (`SKIP LOCKED`). */
  takeOverAbandoned(
    owner: string,
    leaseMs: number,
    processors: readonly (string | null)[],
    limit: number,
    isHeld: (key: string) => boolean,
  ): Claim[] {
    const now = this.now();
    const due: Row[] = [];
    for (const row of this.byKey.values()) {
      if (isHeld(row.key)) continue;
      if (row.state === 'PROCESSING' && row.leaseUntil <= now && row.recoverAt <= now) due.push(row);
    }
    due.sort((a, b) => a.recoverAt - b.recoverAt);
    return due.slice(0, limit).flatMap(({ key }) => this.takeOver(key, owner, leaseMs, processors) ?? []);
  }

  renew(fence: Fence, leaseMs: number): boolean {
    const row = this.heldBy(fence);
    const leaseUntil = this.now() + leaseMs;
    if (row) this.write({ ...row, leaseUntil, recoverAt: leaseUntil });
    return row !== undefined;
  }

  abandon(fence: Fence, recoverAfterMs: number, unsent: boolean): boolean {
    const row = this.heldBy(fence);
    const unsentEpoch = unsent ? fence.epoch : undefined;
    if (row) this.write({ ...row, owner: '', leaseUntil: 0, recoverAt: this.now() + recoverAfterMs, unsentEpoch });
    return row !== undefined;
  }

  settle(fence: Fence, outcome: Outcome, ttlMs: number): Row | undefined {
    const row = this.heldBy(fence);
    if (!row) this.simulation.count('settled too late');
    return row && this.write({ ...row, ...this.finalColumns(outcome.state, reasonOf(outcome), ttlMs) });
  }

  resolve(resolution: Resolution): Row | undefined {
    const { key, owner, state, reason, idempotencyTtlMs } = resolution;
    const row = this.byKey.get(key);
    const now = this.now();
    const minAgeMs = row?.unsentEpoch === row?.epoch ? resolution.idempotencyTtlMs : resolution.dedupMs;
    if (row?.state !== 'PROCESSING' || row.leaseUntil > now || row.claimedAt > now - minAgeMs) return undefined;
    this.simulation.count('resolved by an operator');
    const final = this.finalColumns(state, state === 'DECLINED' ? reason : undefined, idempotencyTtlMs);
    return this.write({ ...row, ...final, epoch: row.epoch + 1, owner, resolution: reason });
  }

  /** What the statements of a real store have made of a row; of one that only its holder may write, `fence` says who wrote. */
  observe(row: ObservedRow, fence: Fence | undefined): void {
    const { simulation } = this;
    const before = this.byKey.get(row.key);
    if (before && isSame(before, row)) return;
    if (!before) simulation.count('payments');
    else if (row.epoch > before.epoch && row.state === 'PROCESSING') {
      simulation.count('takeovers');
      simulation.note(simulation.tracing ? `${row.key} is now ${row.owner}'s, epoch ${row.epoch}` : '');
    }
    const becameFinal = row.state !== 'PROCESSING' && before?.finalAt === undefined;
    if (becameFinal) simulation.count(row.state === 'COMPLETED' ? 'completed' : 'declined');
    if (becameFinal && row.resolution !== undefined) simulation.count('resolved by an operator');
    const finalAt = becameFinal ? simulation.time : before?.finalAt;
    const seen = { ...row, firstThereAt: before?.firstThereAt ?? simulation.time, finalAt };
    if (fence) this.writeFor(fence, seen);
    else this.write(seen);
  }

  /** Compare-and-set on (key, epoch, owner, PROCESSING). */
  private heldBy(fence: Fence): Row | undefined {
    const row = this.byKey.get(fence.key);
    return row?.state === 'PROCESSING' && row.epoch === fence.epoch && row.owner === fence.owner ? row : undefined;
  }

  private finalColumns(state: Outcome['state'], reason: string | undefined, ttlMs: number) {
    this.simulation.count(state === 'COMPLETED' ? 'completed' : 'declined');
    return { state, reason, expiresAt: this.now() + ttlMs, finalAt: this.simulation.time };
  }

  private writeFor(fence: Fence, row: Row): Row {
    const before = this.byKey.get(row.key);
    if (before?.owner !== fence.owner || before.epoch !== fence.epoch) {
      this.broken.push(`${row.key}: ${fence.owner}, epoch ${fence.epoch}, wrote a row that it did not hold`);
    }
    return this.write(row);
  }

  private write(row: Row): Row {
    if (row.unsentEpoch === row.epoch && row.state === 'PROCESSING') this.simulation.count('given up unsent');
    if (this.byKey.get(row.key)?.finalAt !== undefined) this.broken.push(`${row.key}: a final row was written again`);
    this.byKey.set(row.key, row);
    return row;
  }
}

function isSame(before: Row, row: ObservedRow): boolean {
  return Object.entries(row).every(([name, value]) => before[name as keyof Row] === value);
}

function reasonOf(outcome: Outcome): string | undefined {
  return outcome.state === 'DECLINED' ? outcome.reason : undefined;
}

export function claimOf(row: Row, now: number): Claim {
  const { key, epoch, owner, transactionId, amount, currency, fingerprint, processor, claimedAt } = row;
  const ageMs = now - claimedAt;
  const unsent = row.unsentEpoch === epoch - 1;
  return { key, epoch, owner, transactionId, amount, currency, fingerprint, processor, unsent, ageMs };
}
