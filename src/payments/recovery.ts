import { type Clock, sleep } from '../clock.js';
import type { AttemptResult, CarryOut, Origin } from './attempt.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { Ledger } from './ports/ledger.js';
import type { Processor } from './ports/processor.js';
import type { Claim, Outcome } from './values/payment.js';

/** How often abandoned payments are looked for: a key is stuck at most its lease plus this long. */
const RECOVERY_INTERVAL_MS = 3_000;
/** Payments worked on at a time, over connections of their own, so that recovery and live payments do not block each other. */
export const RECOVERY_CONCURRENCY = 64;
/** How often the payments that only an operator can still resolve are counted. */
const OVERDUE_INTERVAL_MS = 60_000;
/** The bounds of a back-off: at least a short outage, at most a delay that a payer who no longer repeats can accept. */
const SHORTEST_BACK_OFF_MS = 1_000;
const LONGEST_BACK_OFF_MS = 60_000;

export interface Recovery {
  /**
   * Runs one round at once, then one every few seconds until `stop`. Resolves when what the first round found has been
   * worked on, or after `waitMs`; the work then goes on in the background.
   */
  start(waitMs: number): Promise<void>;
  /** Works on abandoned payments until none is due. Resolves to how many were finished. */
  runOnce(): Promise<number>;
  /** Begins nothing more; resolves when what is under way has ended. */
  stop(): Promise<void>;
}

/** What names a payment to an operator. */
export type ChargedPayment = Pick<Claim, 'key' | 'transactionId' | 'processor'>;

export interface RecoveryEvents {
  /** A round, or a payment's takeover, failed; the next round tries again. */
  fault(fault: unknown): void;
  /** The outcome of a payment is still not known. */
  unknown(claim: Claim, cause: string): void;
  /** A repeat, recovery, or the look-up for an operator found out what had been left unclear. */
  known?(claim: Claim, origin: Origin, state: Outcome['state']): void;
  /** An operator wrote the outcome; the payment is undefined where it could not be read back. */
  resolved?(payment: ChargedPayment | undefined, state: Outcome['state']): void;
  /**
   * The processor answered one outcome of a payment, and its row is final with the other: an operator resolved it wrongly,
   * or the processor changed its answer. The service cannot correct that.
   */
  contradiction(payment: ChargedPayment, answered: Outcome['state'], kept: Outcome['state']): void;
  /** This many payments are unknown for longer than their charge may be sent again: an operator must resolve them. */
  overdue(count: number): void;
}

/** Takes over what a dead owner left PROCESSING, and finishes it with the row's own values (protocol, step 6). */
export function createRecovery(collaborators: {
  ledger: Ledger;
  processor: Processor;
  carryOut: CarryOut;
  leaseMs: number;
  /** From this age on, a payment that is still unknown is an operator's. */
  dedupMs: number;
  /** The same where nothing was ever sent for it. */
  idempotencyTtlMs: number;
  clock: Clock;
  newOwner: () => string;
  events: RecoveryEvents;
  counts?: Pick<PaymentCounts, 'attemptsOfRecovery'>;
}): Recovery {
  const { ledger, processor, carryOut, leaseMs, dedupMs, idempotencyTtlMs, clock, newOwner, events } = collaborators;
  const { counts = createPaymentCounts() } = collaborators;
  const working = new Set<Promise<void>>();
  let finished = 0;
  let cancelNextRound = () => {};
  let stopped = false;
  let round: Promise<unknown> = Promise.resolve();
  let countedAt = Number.NEGATIVE_INFINITY;
  let counting: Promise<void> | undefined;

  async function runOnce(): Promise<number> {
    const before = finished;
    await takeOverWhatIsDue();
    await Promise.all(working);
    return finished - before;
  }

  /** Resolves when nothing more is due; work may still be under way, so that one slow look-up delays no other payment. */
  async function takeOverWhatIsDue(): Promise<void> {
    while (!stopped) {
      const free = RECOVERY_CONCURRENCY - working.size;
      if (free === 0) {
        await Promise.race(working);
        continue;
      }
      const askedAt = clock.monotonic();
      const claims = await ledger.takeOverAbandoned({
        owner: newOwner(),
        leaseMs,
        processor: processor.name,
        formerProcessor: processor.formerName,
        limit: free,
      });
      for (const claim of claims) workOn(claim, askedAt);
      if (claims.length < free) return;
    }
  }

  function workOn(claim: Claim, askedAt: number): void {
    const work = carryOut(claim, askedAt, 'recovery')
      .then((result) => report(claim, result), events.fault)
      .finally(() => {
        working.delete(work);
        counts.attemptsOfRecovery = working.size;
      });
    working.add(work);
    counts.attemptsOfRecovery = working.size;
  }

  function report(claim: Claim, result: AttemptResult): void {
    if (result.state === 'unknown' || result.state === 'not sent') events.unknown(claim, result.cause);
    else finished += 1;
  }

  async function countOverdue(): Promise<void> {
    if (clock.monotonic() - countedAt < OVERDUE_INTERVAL_MS) return;
    countedAt = clock.monotonic();
    const count = await ledger.countAbandoned(dedupMs, idempotencyTtlMs);
    if (count > 0) events.overdue(count);
  }

  /** Waits until the takeovers are done: while their leases live, these payments are not counted. */
  function countWhenIdle(): void {
    counting ??= Promise.all(working)
      .then(countOverdue)
      .catch(events.fault)
      .finally(() => {
        counting = undefined;
      });
  }

  async function runRound(): Promise<void> {
    await takeOverWhatIsDue().catch(events.fault);
    countWhenIdle();
    if (!stopped) cancelNextRound = clock.after(RECOVERY_INTERVAL_MS, startRound);
  }

  function startRound(): void {
    round = runRound();
  }

  return {
    runOnce,
    async start(waitMs) {
      startRound();
      await Promise.race([round.then(() => Promise.all(working)), sleep(clock, waitMs)]);
    },
    async stop() {
      stopped = true;
      cancelNextRound();
      await round;
      await Promise.all(working);
      await counting;
    },
  };
}

/**
 * How long recovery waits before it tries an unknown payment again: as long as the payment's age, so the wait doubles each time.
 * It does not use the number of attempts, because a payer's repeats raise that too.
 */
export function backOffMs(ageMs: number): number {
  return Math.min(Math.max(ageMs, SHORTEST_BACK_OFF_MS), LONGEST_BACK_OFF_MS);
}
