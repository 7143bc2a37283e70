import { sleep } from '../platform/clock.js';
import type { PaymentContext } from './context.js';
import type { CarryOut, ExecutionResult } from './execution.js';
import type { DueFirst } from './ports/ledger.js';
import type { Claim } from './values/payment.js';

/** How often abandoned payments are looked for: a key is stuck at most its lease plus this long. */
const RECOVERY_INTERVAL_MS = 3_000;
/** Payments worked on at a time, over connections of their own, so that recovery and live payments do not block each other. */
export const RECOVERY_CONCURRENCY = 64;
/** At most half of them are taken from one end of the due payments, so that the other end has the rest. */
const RECOVERY_SHARE = RECOVERY_CONCURRENCY / 2;
/** How often the payments that only an operator can still resolve are counted. */
const OVERDUE_INTERVAL_MS = 60_000;
/** The bounds of a back-off: at least a short outage, at most a delay that a payer who no longer repeats can accept. */
const SHORTEST_BACK_OFF_MS = 1_000;
const LONGEST_BACK_OFF_MS = 60_000;

export interface Recovery {
  /**
   * Runs one round at once, then one every few seconds until `stop`. Resolves when the payments that the first round found have been worked
   * on, or after `waitMs`; the work then goes on in the background.
   */
  start(waitMs: number): Promise<void>;
  /** Works on abandoned payments until none is due. Resolves to how many were finished. */
  runOnce(): Promise<number>;
  /** Begins nothing more; resolves when the work under way has ended. */
  stop(): Promise<void>;
}

/** Takes over what a dead owner left PROCESSING, and finishes it with the row's own values (protocol, step 6). */
export function createRecovery(
  context: Pick<PaymentContext, 'ledger' | 'processor' | 'rules' | 'clock' | 'newOwner' | 'events' | 'counts'> & {
    carryOut: CarryOut;
  },
): Recovery {
  const { ledger, processor, clock, newOwner, events, counts, carryOut } = context;
  const { leaseMs, dedupMs, idempotencyTtlMs } = context.rules;
  const working = new Set<Promise<void>>();
  let finished = 0;
  let cancelNextRound = () => {};
  let stopped = false;
  let round: Promise<unknown> = Promise.resolve();
  let first: DueFirst = 'longest due';
  let cancelNextCount = () => {};
  let counting: Promise<void> = Promise.resolve();

  async function runOnce(): Promise<number> {
    const before = finished;
    await takeOverWhatIsDue();
    await Promise.all(working);
    return finished - before;
  }

  /**
   * Resolves when nothing more is due; work may still be under way, so that one slow look-up delays no other payment. It takes from
   * both ends alternately: a new payment is not kept waiting by a long backlog, and the oldest of the backlog not by new ones.
   */
  async function takeOverWhatIsDue(): Promise<void> {
    const { name, formerNames } = processor.traits;
    for (const each of [name, ...formerNames]) await takeOverWhatIsDueUnder(each);
  }

  async function takeOverWhatIsDueUnder(name: string): Promise<void> {
    while (!stopped) {
      const free = RECOVERY_CONCURRENCY - working.size;
      if (free === 0) {
        await Promise.race(working);
        continue;
      }
      const limit = Math.min(free, RECOVERY_SHARE);
      const askedAt = clock.monotonic();
      const claims = await ledger.takeOverDue({
        owner: newOwner(),
        leaseMs,
        processor: name,
        first,
        limit,
      });
      for (const claim of claims) workOn(claim, askedAt);
      if (claims.length < limit) return;
      first = first === 'longest due' ? 'latest due' : 'longest due';
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

  function report(claim: Claim, result: ExecutionResult): void {
    if (result.state === 'unknown' || result.state === 'not sent') events.unknown(claim, result.cause);
    else finished += 1;
  }

  /** By a timer of its own: the alarm must not wait for a round, which lasts as long as there is something to do. */
  function countOverdue(): void {
    counting = ledger
      .countAbandoned(dedupMs, idempotencyTtlMs)
      .then((count) => {
        if (count > 0) events.overdue(count);
      })
      .catch(events.fault)
      .finally(() => countAfter(OVERDUE_INTERVAL_MS));
  }

  function countAfter(ms: number): void {
    if (!stopped) cancelNextCount = clock.after(ms, countOverdue);
  }

  async function runRound(): Promise<void> {
    await takeOverWhatIsDue().catch(events.fault);
    if (!stopped) cancelNextRound = clock.after(RECOVERY_INTERVAL_MS, startRound);
  }

  function startRound(): void {
    round = runRound();
  }

  return {
    runOnce,
    async start(waitMs) {
      startRound();
      // The payments that a start finds are looked up first: most of them need no operator.
      countAfter(RECOVERY_INTERVAL_MS);
      await Promise.race([round.then(() => Promise.all(working)), sleep(clock, waitMs)]);
    },
    async stop() {
      stopped = true;
      cancelNextRound();
      cancelNextCount();
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
