import { sleep } from '../platform/clock.js';
import { compareWithKept } from './compare-with-kept.js';
import type { PaymentContext } from './context.js';
import type { CarryOut, KnownOutcome } from './execution.js';
import type { PendingLooks } from './pending.js';
import type { DueFirst } from './ports/ledger.js';
import { namesOf } from './ports/processor.js';
import type { Claim, PendingPayment } from './values/payment.js';

/** How often abandoned payments are looked for: a key is stuck at most its lease plus this long. */
const RECOVERY_INTERVAL_MS = 3_000;
/** Payments worked on at a time, over connections of their own, so that recovery and live payments do not block each other. */
export const RECOVERY_CONCURRENCY = 64;
/** The places for pending payments, of which there may be very many, and which are not urgent. */
const PENDING_PLACES = RECOVERY_CONCURRENCY / 4;
export const ABANDONED_PLACES = RECOVERY_CONCURRENCY - PENDING_PLACES;
/** At most half of them are taken from one end of the due payments, so that the other end has the rest. */
const RECOVERY_SHARE = ABANDONED_PLACES / 2;
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
  context: Pick<
    PaymentContext,
    'ledger' | 'history' | 'processor' | 'rules' | 'clock' | 'newOwner' | 'events' | 'counts'
  > & {
    carryOut: CarryOut;
    pendingLooks: Pick<PendingLooks, 'ask'>;
  },
): Recovery {
  const { ledger, history, processor, clock, newOwner, events, counts, carryOut, pendingLooks } = context;
  const { leaseMs, dedupMs, idempotencyTtlMs } = context.rules;
  const names = namesOf(processor.traits);
  const working = new Set<Promise<void>>();
  const asking = new Set<Promise<void>>();
  let finished = 0;
  let cancelNextQuestions = () => {};
  let questions: Promise<unknown> = Promise.resolve();
  let cancelNextRound = () => {};
  let stopped = false;
  let round: Promise<unknown> = Promise.resolve();
  let first: DueFirst = 'longest due';
  let cancelNextCount = () => {};
  let counting: Promise<void> = Promise.resolve();

  async function runOnce(): Promise<number> {
    const before = finished;
    await Promise.all([takeOverWhatIsDue(), askAboutPending()]);
    await Promise.all([...working, ...asking]);
    return finished - before;
  }

  /**
   * Resolves when nothing more is due; work may still be under way, so that one slow look-up delays no other payment. It takes from
   * both ends alternately: a new payment is not kept waiting by a long backlog, and the oldest of the backlog not by new ones.
   */
  async function takeOverWhatIsDue(): Promise<void> {
    for (const each of names) await takeOverWhatIsDueUnder(each);
  }

  async function takeOverWhatIsDueUnder(processorName: string): Promise<void> {
    while (!stopped) {
      const free = ABANDONED_PLACES - working.size;
      if (free === 0) {
        await Promise.race(working);
        continue;
      }
      const limit = Math.min(free, RECOVERY_SHARE);
      const askedAt = clock.monotonic();
      const claims = await ledger.takeOverDue({
        owner: newOwner(),
        leaseMs,
        processor: processorName,
        first,
        limit,
      });
      for (const claim of claims) workOn(claim, askedAt);
      if (claims.length < limit) return;
      first = first === 'longest due' ? 'latest due' : 'longest due';
    }
  }

  function workOn(claim: Claim, askedAt: number): void {
    inPlaceOf(working, finish(claim, askedAt));
  }

  function inPlaceOf(places: Set<Promise<void>>, work: Promise<void>): void {
    const placed = work.catch(events.fault).finally(() => {
      places.delete(placed);
      counts.attemptsOfRecovery = working.size + asking.size;
    });
    places.add(placed);
    counts.attemptsOfRecovery = working.size + asking.size;
  }

  async function finish(claim: Claim, askedAt: number, known?: KnownOutcome): Promise<void> {
    const result = await carryOut(claim, askedAt, 'recovery', known);
    if (result.state === 'unknown' || result.state === 'not sent') events.unknown(claim, result.cause);
    else if (result.state !== 'pending' && result.state !== 'cannot be ended') finished += 1;
  }

  /**
   * Asks about the pending payments that are due. The commit that found one has moved its next question, so a process that dies here, or a
   * processor that does not answer, costs one question. A payment is taken over only with an outcome, or to ask for its ending again.
   */
  async function askAboutPending(): Promise<void> {
    for (const each of names) await askAboutPendingUnder(each);
  }

  async function askAboutPendingUnder(processorName: string): Promise<void> {
    while (!stopped) {
      const limit = PENDING_PLACES - asking.size;
      if (limit === 0) {
        await Promise.race(asking);
        continue;
      }
      const due = await ledger.duePending({ processor: processorName, limit });
      for (const payment of due) inPlaceOf(asking, askAbout(payment));
      if (due.length < limit) return;
    }
  }

  async function askAbout(payment: PendingPayment): Promise<void> {
    if (payment.ending) return takeOverPending(payment);
    const said = await pendingLooks.ask(payment);
    switch (said.state) {
      case 'pending':
        return moveUntil(payment, said.untilMs);
      case 'unknown':
        return;
      case 'no record':
        return moveUntil(payment, Math.min(payment.untilMs, clock.now()));
      default:
        return takeOverPending(payment, said);
    }
  }

  async function moveUntil({ key, untilMs: before }: PendingPayment, untilMs: number): Promise<void> {
    if (untilMs !== before) await ledger.movePending(key, untilMs);
  }

  /** It has no lease, so a repeat, or an operator, may have finished it while the processor was asked. */
  async function takeOverPending(payment: PendingPayment, known?: KnownOutcome): Promise<void> {
    const { key, processor: itsName } = payment;
    const askedAt = clock.monotonic();
    const claim = await ledger.takeOver({ key, owner: newOwner(), leaseMs, processor: itsName, isPending: true });
    if (claim) await finish(claim, askedAt, known);
    else if (known) compareWithKept(events, payment, known, (await history.find(key))?.state);
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

  /**
   * Pending payments have rounds of their own, so that neither the abandoned payments nor the start waits for a long backlog of pending
   * ones.
   */
  function startQuestions(): void {
    questions = askAboutPending()
      .catch(events.fault)
      .finally(() => {
        if (!stopped) cancelNextQuestions = clock.after(RECOVERY_INTERVAL_MS, startQuestions);
      });
  }

  return {
    runOnce,
    async start(waitMs) {
      startRound();
      startQuestions();
      // The payments that a start finds are looked up first: most of them need no operator.
      countAfter(RECOVERY_INTERVAL_MS);
      await Promise.race([round.then(() => Promise.all(working)), sleep(clock, waitMs)]);
    },
    async stop() {
      stopped = true;
      cancelNextRound();
      cancelNextQuestions();
      cancelNextCount();
      await Promise.all([round, questions]);
      await Promise.all([...working, ...asking]);
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
