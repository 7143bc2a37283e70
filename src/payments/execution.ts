import { StoreUnavailable } from '../platform/faults.js';
import type { AttemptEndings } from './attempt-endings.js';
import type { PaymentContext, PaymentEvents, PaymentRules } from './context.js';
import type { Leases } from './leases.js';
import { knownBy, type LookUpNext, type NextAttempt, NO_NEXT, type Superseded, supersededBy } from './lost-attempts.js';
import type { SettleResult } from './ports/ledger.js';
import type { ChargeResult, LookUpResult, NotSent } from './ports/processor.js';
import { keptReason } from './processors/decline-reason.js';
import { fingerprintOf } from './values/money.js';
import {
  type Claim,
  type ExecutionNote,
  type FinalOutcome,
  type LookedUp,
  type Origin,
  type Outcome,
  type UnsentMark,
  unsentMarkOf,
} from './values/payment.js';
import { isComputed, type Reference } from './values/reference.js';

export type ExecutionResult =
  /** This attempt wrote the outcome: it alone gives the first answer (rule P13). */
  | { readonly state: 'settled'; readonly final: FinalOutcome }
  /** Rows were lost, and the processor has a record of the next attempt: this one was declined before that, and its row says so now. */
  | { readonly state: 'superseded'; readonly by: number }
  /** Another attempt wrote it. */
  | { readonly state: 'finished elsewhere'; readonly final: FinalOutcome }
  /** Its row was lost, and the payment was cancelled since. Only the processor has what it answered. */
  | { readonly state: 'cancelled'; readonly answered: Outcome['state'] }
  /** Not known (yet): never reported as failed (rule P11). */
  | { readonly state: 'unknown'; readonly cause: string }
  /** Nothing was ever sent for it, and the row says so: the next takeover sends it (rule P15). */
  | { readonly state: 'not sent'; readonly cause: string };

/** Carries out a claimed payment: asks the processor, settles, and writes the outcome to the key store. */
export type CarryOut = (claim: Claim, askedAt: number, origin: Origin) => Promise<ExecutionResult>;

/** The row of an unclear charge was lost, and then the payment was cancelled. */
const CANCELLED_MEANWHILE =
  'and the payment was cancelled meanwhile: nobody looks for its charge, so look at the processor, and refund it there';

/** The knowledge about a payment, or the reason why there is none. */
type Answer = LookUpResult | NotSent | Superseded | { readonly state: 'of unknown amount'; readonly cause: string };

const OF_UNKNOWN_AMOUNT = {
  state: 'of unknown amount',
  cause: 'charged, and the processor does not say which amount; rows were lost, so resolve it',
} as const;

/** The steps that an attempt has done so far. */
type Done = { -readonly [Member in Exclude<keyof ExecutionNote, 'cause'>]: ExecutionNote[Member] };

export function createCarryOut(
  context: Pick<PaymentContext, 'ledger' | 'processor' | 'recoverAfterMs' | 'clock' | 'counts'> & {
    rules: Pick<PaymentRules, 'idempotencyTtlMs'>;
    events: Pick<PaymentEvents, 'contradiction' | 'known'>;
    endings: AttemptEndings;
    leases: Leases;
    lookUpNext: LookUpNext;
  },
): CarryOut {
  const { ledger, processor, recoverAfterMs, clock, counts, events, endings, leases, lookUpNext } = context;
  const { idempotencyTtlMs } = context.rules;

  /**
   * Dies before `askProcessor`: the row is PROCESSING, nothing was charged; recovery looks up, then charges. Dies before `settle`: charged,
   * the row is PROCESSING; recovery looks up by the same reference and settles. Dies before `giveUp` of a charge that was not sent: the row
   * is like any other that may have been sent. Dies after `settle`: the row is final; the next begin or look finds it there and repairs the
   * key record.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the order of these lines is what a death between them leaves behind.
  return async function carryOut(claim, askedAt, origin) {
    const lease = leases.hold(claim, askedAt);
    // By the clock that says that more time has passed: sending a charge too late may charge twice, not sending it asks an operator.
    const ageMs = () =>
      Math.max(
        claim.ageMs + clock.monotonic() - askedAt,
        clock.now() - (claim.claimedAtWallMs ?? Number.POSITIVE_INFINITY),
      );
    const done: Done = { lookedUp: undefined, sent: false };
    let charged = false;
    try {
      const result = await askProcessor(claim, origin, ageMs, done, () => lease.outlives(processor.traits.timeoutMs));
      if (result.state === 'unknown' || result.state === 'not sent' || result.state === 'of unknown amount') {
        // First stop renewing: a renewal after the end of the lease would begin a new one for a dead attempt.
        lease.drop();
        return await leaveUnfinished(claim, result, ageMs(), done);
      }
      charged = true;
      const note = origin === 'first claim' ? undefined : done;
      const outcome = result.state === 'superseded' ? supersededBy(result.by) : outcomeOf(claim, result);
      const settled = await settle(claim, result, outcome, note);
      noteSettlement(claim, origin, outcome.state, settled);
      if (settled.state === 'fenced off') {
        await endings.release(claim.key, claim.owner);
        const cause = `the processor answered "${result.state}", and another attempt has taken the payment over`;
        return { state: 'unknown', cause };
      }
      if (settled.state === 'cancelled') {
        await endings.forget(claim.key, claim.owner);
        return { state: 'cancelled', answered: outcome.state };
      }
      // The commit is known, so the answer is the outcome, also when the key store fails now.
      await endings.finish(claim.key, claim.owner, settled.final);
      if (result.state === 'superseded' && settled.state === 'settled') return result;
      return { state: settled.state === 'settled' ? 'settled' : 'finished elsewhere', final: settled.final };
    } catch (fault) {
      lease.drop();
      const cause = charged ? 'the processor answered, and the outcome could not be written' : 'the store failed';
      await giveUp(claim, ageMs(), undefined, { ...done, cause });
      throw charged ? new StoreUnavailable('unknown', 'the outcome could not be written', fault) : fault;
    } finally {
      lease.drop();
    }
  };

  /**
   * A takeover looks up first, because an earlier attempt may have charged. The result is 'unknown' only if this attempt has called
   * `charge`: a look-up that fails sends nothing.
   */
  async function askProcessor(
    claim: Claim,
    origin: Origin,
    ageMs: () => number,
    done: Done,
    stillOurs: () => Promise<boolean>,
  ): Promise<Exclude<Answer, { state: 'no record' }>> {
    if (origin !== 'first claim') {
      const known = await lookUp(claim, done);
      if (known.state !== 'no record') return known;
      const obstacle = obstacleToSending(claim, origin, ageMs());
      if (obstacle) return { state: 'not sent', cause: `no record at the processor, ${obstacle}` };
    }
    if (!(await stillOurs())) return { state: 'not sent', cause: 'the lease was lost before the charge was sent' };
    const { key, transactionId, amount, currency, reference: order, content } = claim;
    done.sent = true;
    const answer = await processor.charge({ key, transactionId, amount, currency, order, content });
    if (answer.state === 'not sent') done.sent = false;
    return answer;
  }

  /** The processor's answer about the payment, and about the next attempt if its row may be lost. Only a clear answer permits a send. */
  async function lookUp(claim: Claim, done: Done): Promise<Answer> {
    // At the same time if it is known already that nothing may be sent without both answers.
    const [found, early] = await Promise.all([
      processor.lookUp(claim.key, claim.claimedAfterLoss ? undefined : claim),
      claim.mayBeLost ? lookUpNext(referenceOf(claim)) : undefined,
    ]);
    done.lookedUp = lookedUpAs(found.state);
    if (found.state === 'unknown') return { state: 'not sent', cause: found.cause };
    if (found.state === 'succeeded' && claim.claimedAfterLoss && !found.charged) return OF_UNKNOWN_AMOUNT;
    if (found.state !== 'no record') return found;
    const next = early ?? (await lookUpNextIfLost(claim));
    return next.state === 'unknown' ? { state: 'not sent', cause: next.cause } : next;
  }

  /** A takeover of a row that was there before the loss, or whose first claim died before it looked up. */
  async function lookUpNextIfLost(claim: Claim): Promise<NextAttempt> {
    return isComputed(claim.key) && (await ledger.mayBeLost(claim.key)) ? lookUpNext(referenceOf(claim)) : NO_NEXT;
  }

  /** Why a payment that the processor has no record of is not sent now; undefined when it is. */
  function obstacleToSending(claim: Claim, origin: Origin, ageMs: number): string | undefined {
    if (origin === 'operator') return "and an operator's request never sends";
    if (claim.processor !== processor.traits.name) return `and it was claimed under a former name, ${claim.processor}`;
    // Whatever was sent for a lost row, the processor would know.
    const isUnsent = claim.unsent || claim.mayBeLost;
    if (!isUnsent) return isWithin(ageMs, processor.traits.dedupMs) ? undefined : 'and too old to be sent again';
    // A payer who repeats wants to pay. After the life of a key without a repeat the payer may have paid elsewhere.
    const mayBeSent = origin !== 'recovery' || isWithin(ageMs, idempotencyTtlMs);
    return mayBeSent ? undefined : 'never sent, and too old to be sent without a repeat';
  }

  /**
   * With how it is known, if that is not the processor's own answer: then the decline never counts as one that it answered. A row that was
   * claimed after a loss gets what was charged, which is the amount that the lost row had.
   */
  function settle(
    claim: Claim,
    result: Extract<Answer, { state: 'succeeded' | 'declined' | 'superseded' }>,
    outcome: Outcome,
    note: ExecutionNote | undefined,
  ): Promise<SettleResult> {
    if (!note) return ledger.settle(claim, outcome, idempotencyTtlMs, note);
    if (result.state === 'superseded') {
      return ledger.settleAfterLoss(claim, { outcome, idempotencyTtlMs, note, resolution: knownBy(result.by) });
    }
    const charged = result.state === 'succeeded' && claim.claimedAfterLoss ? result.charged : undefined;
    const fingerprint = charged && fingerprintOf(charged);
    if (!charged || !fingerprint || fingerprint === claim.fingerprint) {
      return ledger.settle(claim, outcome, idempotencyTtlMs, note);
    }
    return ledger.settleAfterLoss({ ...claim, ...charged, fingerprint }, { outcome, idempotencyTtlMs, note });
  }

  /** Counts a settlement, and reports how an outcome became known, or that it differs from the processor's. */
  function noteSettlement(claim: Claim, origin: Origin, answered: Outcome['state'], settled: SettleResult): void {
    if (settled.state === 'settled') counts.settled[origin] += 1;
    else counts.fencedOff += 1;
    if (settled.state === 'fenced off') return;
    if (settled.state === 'cancelled') {
      // A declined payment charged nothing, as a cancellation promises.
      if (answered === 'COMPLETED') events.contradiction(claim, answered, 'CANCELLED');
      return;
    }
    const kept = settled.final.outcome.state;
    if (answered !== kept) events.contradiction(claim, answered, kept);
    if (settled.state === 'settled' && origin !== 'first claim') events.known?.(claim, origin, answered);
  }

  /** Leaves the row PROCESSING for the next attempt. */
  async function leaveUnfinished(
    claim: Claim,
    result: Extract<Answer, { cause: string }>,
    ageMs: number,
    done: Done,
  ): Promise<ExecutionResult> {
    const { cause } = result;
    const mark = markOf(claim, result.state);
    const left = await giveUp(claim, ageMs, mark, { ...done, cause });
    if (left === 'fenced off') counts.fencedOff += 1;
    // Only a row that is known to be marked unsent is answered so. Under a former name it is never sent.
    const isOurs = claim.processor === processor.traits.name;
    if (mark === 'unsent' && left === 'given up' && isOurs) return { state: 'not sent', cause };
    return outcomeElsewhere(claim, cause, done);
  }

  /** A takeover may have finished the payment meanwhile; a payment that is not final stays unknown. */
  async function outcomeElsewhere(claim: Claim, cause: string, { sent }: Done): Promise<ExecutionResult> {
    // If this read fails too, the outcome stays unknown.
    const found = await ledger.find(claim.key).catch(() => undefined);
    if (found?.state === 'final') return { state: 'finished elsewhere', final: found.final };
    const isForgotten = found?.state === 'cancelled' && sent;
    return { state: 'unknown', cause: isForgotten ? `${cause}, ${CANCELLED_MEANWHILE}` : cause };
  }

  /**
   * Ends the row's lease and the lock at once, because the outcome is unknown: the next repeat looks it up. The lock ends last, because its
   * end wakes the waiters and they must find the row free. The result is undefined if a store failed.
   */
  async function giveUp(
    claim: Claim,
    ageMs: number,
    mark: UnsentMark | undefined,
    note: ExecutionNote,
  ): Promise<'given up' | 'fenced off' | undefined> {
    const isGivenUp = await ledger.abandon(claim, recoverAfterMs(ageMs), mark, note).catch(ignoreUnavailable);
    await endings.release(claim.key, claim.owner);
    if (isGivenUp === undefined) return undefined;
    return isGivenUp ? 'given up' : 'fenced off';
  }
}

function markOf(claim: Claim, state: Extract<Answer, { cause: string }>['state']): UnsentMark | undefined {
  if (state === 'of unknown amount') return 'charged an amount that is not known';
  return state === 'not sent' ? unsentMarkOf(claim) : undefined;
}

/** Undefined for a key that was generated. */
function referenceOf({ reference: text, attempt, client }: Claim): Reference | undefined {
  return text === undefined || attempt === undefined ? undefined : { text, attempt, client };
}

function lookedUpAs(state: ChargeResult['state'] | 'no record'): LookedUp {
  if (state === 'no record') return state;
  return state === 'unknown' ? 'no answer' : 'found';
}

/** In a store that is down the lease runs out by itself. Any other exception is a bug and is thrown. */
function ignoreUnavailable(fault: unknown): undefined {
  if (!(fault instanceof StoreUnavailable)) throw fault;
}

/** A negative age is unknown, because the store's clock was set back: then the charge is not sent for now. */
function isWithin(ageMs: number, limitMs: number): boolean {
  return limitMs === Number.POSITIVE_INFINITY || (ageMs >= 0 && ageMs < limitMs);
}

export function outcomeOf(
  claim: Pick<Claim, 'transactionId' | 'content'>,
  result: Exclude<ChargeResult, { state: 'unknown' }>,
): Outcome {
  return result.state === 'succeeded'
    ? { state: 'COMPLETED', transactionId: claim.transactionId }
    : { state: 'DECLINED', reason: keptReason(result.reason, claim.content?.source) };
}
