import { StoreUnavailable } from '../platform/faults.js';
import { lookUp as lookUpAt, send } from './asking.js';
import type { PaymentContext, PaymentEvents, PaymentRules } from './context.js';
import type { Leases } from './leases.js';
import type { LockEnds } from './lock-ends.js';
import { knownBy, type LookUpNext, type NextAttempt, NO_NEXT, type Superseded, supersededBy } from './lost-attempts.js';
import { countSettled } from './payment-counts.js';
import type { PendingLooks } from './pending.js';
import type { Left, SettleResult } from './ports/ledger.js';
import type { ChargeResult, EndResult, LookUpResult, NotSent, OpenCharge } from './ports/processor.js';
import { keptReason } from './processors/decline-reason.js';
import { fingerprintOf, UNKNOWN_FINGERPRINT } from './values/money.js';
import {
  type Claim,
  type ExecutionNote,
  type FinalOutcome,
  type LookedUp,
  type Origin,
  type Outcome,
  type PendingPayment,
  type UnsentMark,
  unsentMarkOf,
} from './values/payment.js';
import { referenceIn } from './values/reference.js';

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
  | { readonly state: 'not sent'; readonly cause: string }
  /** The payment waits at the processor, and its row says so (rule P24). */
  | { readonly state: 'pending'; readonly payment: PendingPayment }
  /** The processor did not end the payment, so the cancellation is over and the payment goes on (rule P25). */
  | { readonly state: 'cannot be ended' };

/**
 * Carries out a claimed payment: asks the processor, settles, and writes the outcome to the key store. `known`: the outcome of a pending
 * payment, with which it was taken over.
 */
export type CarryOut = (
  claim: Claim,
  askedAt: number,
  origin: Origin,
  known?: KnownOutcome,
) => Promise<ExecutionResult>;

export type KnownOutcome = Extract<LookUpResult, { state: 'succeeded' | 'declined' }>;

/** The row of an unclear charge was lost, and then the payment was cancelled. */
const CANCELLED_MEANWHILE =
  'and the payment was cancelled meanwhile: nobody looks for its charge, so look at the processor, and refund it there';

/** The knowledge about a payment, or the reason why there is none. */
type Answer =
  | LookUpResult
  | NotSent
  | Superseded
  | { readonly state: 'of unknown amount'; readonly cause: string }
  /** `pending`: the processor said so of a payment that it did not end. */
  | { readonly state: 'not ended'; readonly cause: string; readonly pending?: PendingResult };

type PendingResult = Extract<LookUpResult, { state: 'pending' }>;

/** The end of a payment that a cancellation reached before anything was sent for it. */
const ENDED_UNSENT = { state: 'declined', reason: 'cancelled before it was sent' } as const;

/** The end of a charge that may still be on its way to a processor that deduplicates nothing. */
const NOT_COME = {
  state: 'not ended',
  cause: 'the processor has no record of it and deduplicates nothing, so the charge may still be on its way',
} as const;

/** Recovery asks about a payment that became pending after this time first, and then at times that the store computes. */
const FIRST_QUESTION_MS = 5_000;

const OF_UNKNOWN_AMOUNT = {
  state: 'of unknown amount',
  cause: 'charged, and the processor does not say which amount; rows were lost, so resolve it',
} as const;

async function nothing(): Promise<void> {}
const NO_RECORD = { finish: nothing, release: nothing, forget: nothing } as const;

/** The steps that an attempt has done so far. */
type Done = { -readonly [Member in 'lookedUp' | 'sent']: ExecutionNote[Member] };

export function createCarryOut(
  context: Pick<PaymentContext, 'ledger' | 'refunds' | 'processor' | 'recoverAfterMs' | 'clock' | 'counts'> & {
    rules: Pick<PaymentRules, 'idempotencyTtlMs'>;
    events: Pick<PaymentEvents, 'contradiction' | 'known'>;
    lockEnds: LockEnds;
    leases: Leases;
    lookUpNext: LookUpNext;
    pendingLooks: Pick<PendingLooks, 'note'>;
  },
): CarryOut {
  const { ledger, refunds, processor, recoverAfterMs, clock, counts, events, lockEnds, leases, lookUpNext } = context;
  const { pendingLooks } = context;
  const { idempotencyTtlMs } = context.rules;

  /**
   * Dies before `askProcessor`: the row is PROCESSING, nothing was charged; recovery looks up, then charges. Dies before `settle`: charged,
   * the row is PROCESSING; recovery looks up by the same reference and settles. Dies before `giveUp` of a charge that was not sent: the row
   * is like any other that may have been sent. Dies before `leave` of one that is pending: recovery looks it up, finds it pending, and
   * leaves it so. Dies while it is ended: the row says `ending`, and each takeover asks for the ending again. Dies after `settle`: the row
   * is final; the next begin or look finds it there and repairs the key record.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the order of these lines is what a death between them leaves behind.
  return async function carryOut(claim, askedAt, origin, known) {
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
      const stillOurs = () => lease.outlives(processor.traits.timeoutMs);
      const result = known ? withKnownAmount(claim, known, done) : await ask(claim, origin, ageMs, done, stillOurs);
      if (result.state === 'pending' || result.state === 'not ended') {
        lease.drop();
        return await leave(claim, result, done);
      }
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
        await lockEndsOf(claim).release(claim.key, claim.owner);
        const cause = `the processor answered "${result.state}", and another attempt has taken the payment over`;
        return { state: 'unknown', cause };
      }
      if (settled.state === 'cancelled') {
        await lockEndsOf(claim).forget(claim.key, claim.owner);
        return { state: 'cancelled', answered: outcome.state };
      }
      // The commit is known, so the answer is the outcome, also when the key store fails now.
      await lockEndsOf(claim).finish(claim.key, claim.owner, settled.final);
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

  /** A payment that a cancellation ends is never sent again, and no look-up answers for its ending. */
  async function ask(
    claim: Claim,
    origin: Origin,
    ageMs: () => number,
    done: Done,
    stillOurs: () => Promise<boolean>,
  ): Promise<Exclude<Answer, { state: 'no record' }>> {
    return claim.ending ? askForEnding(claim, done) : askProcessor(claim, origin, ageMs, done, stillOurs);
  }

  /**
   * Only deduplication holds an ending against a charge that comes after it. At a processor that deduplicates nothing, or whose deduplication
   * may not have moved to its present name, only a charge that has come is ended.
   */
  async function askForEnding(claim: Claim, done: Done): Promise<Exclude<Answer, { state: 'no record' }>> {
    if (claim.unsent) return ENDED_UNSENT;
    const { name, dedupMs } = processor.traits;
    if (dedupMs > 0 && claim.processor === name) return endAtProcessor(claim, done);
    const come = await lookUpEnding(claim, done);
    if (come.state === 'no record') return NOT_COME;
    if (come.state === 'unknown') return come;
    return come.state === 'pending' ? endAtProcessor(claim, done) : withKnownAmount(claim, come, done);
  }

  /**
   * An adapter that does not know endings may have answered for one that does: then the payment is looked up, and if that brings no
   * outcome, it goes on as if no cancellation had asked for its end.
   */
  async function endAtProcessor(claim: Claim, done: Done): Promise<Exclude<Answer, { state: 'no record' }>> {
    const { key, transactionId, amount, currency, processorId: id } = claim;
    done.sent = true;
    const ended: EndResult = await processor.end({ key, transactionId, amount, currency, id }, knownMoneyOf(claim));
    if (ended.state === 'cannot be ended') return { state: 'not ended', cause: 'the processor cannot end it' };
    if (ended.state !== 'other contract' && !isOfUnknownAmount(claim, ended)) return ended;
    const found = await lookUpEnding(claim, done);
    if (found.state === 'succeeded' || found.state === 'declined') return withKnownAmount(claim, found, done);
    if (ended.state !== 'other contract') return OF_UNKNOWN_AMOUNT;
    return { state: 'not ended', cause: ended.cause, ...(found.state === 'pending' && { pending: found }) };
  }

  async function lookUpEnding(claim: Claim, done: Done): Promise<LookUpResult> {
    const found = await processor.lookUp(claim.key, knownMoneyOf(claim), { id: claim.processorId });
    done.lookedUp = lookedUpAs(found.state);
    return found;
  }

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
    done.sent = true;
    const answer = await send(processor, claim);
    if (answer.state === 'not sent') done.sent = false;
    return answer;
  }

  /** The processor's answer about the payment, and about the next attempt if its row may be lost. Only a clear answer permits a send. */
  async function lookUp(claim: Claim, done: Done): Promise<Answer> {
    // At the same time if it is known already that nothing may be sent without both answers.
    const [found, early] = await Promise.all([
      lookUpAt(processor, claim, !claim.claimedAfterLoss, openOf(claim)),
      claim.mayBeLost ? lookUpNext(referenceIn(claim)) : undefined,
    ]);
    done.lookedUp = lookedUpAs(found.state);
    if (found.state === 'unknown') return { state: 'not sent', cause: found.cause };
    if (found.state !== 'no record') return isOfUnknownAmount(claim, found) ? OF_UNKNOWN_AMOUNT : found;
    const next = early ?? (await lookUpNextIfLost(claim));
    return next.state === 'unknown' ? { state: 'not sent', cause: next.cause } : next;
  }

  /** A takeover of a row that was there before the loss, or whose first claim died before it looked up. */
  async function lookUpNextIfLost(claim: Claim): Promise<NextAttempt> {
    const mayHaveNext = claim.reference !== undefined && (await ledger.mayBeLost(claim.key));
    return mayHaveNext ? lookUpNext(referenceIn(claim)) : NO_NEXT;
  }

  /** Why a payment that the processor has no record of is not sent now; undefined when it is. */
  function obstacleToSending(claim: Claim, origin: Origin, ageMs: number): string | undefined {
    if (origin === 'operator') return "and an operator's request never sends";
    // It was taken over for an ending that was over before the takeover.
    if (claim.isPending) return 'and it was pending, so it is never sent again';
    if (claim.processor !== processor.traits.name) return `and it was claimed under a former name, ${claim.processor}`;
    return obstacleOfAge(claim, origin, ageMs);
  }

  function obstacleOfAge({ unsent, mayBeLost, refund }: Claim, origin: Origin, ageMs: number): string | undefined {
    // Whatever was sent for a lost row, the processor would know.
    const isUnsent = unsent || mayBeLost;
    const { dedupMs } = processor.traits;
    // The processor knows a refund for ever, and a charge for a time.
    if (!isUnsent && !refund) return isWithin(ageMs, dedupMs) ? undefined : 'and too old to be sent again';
    // After that time an operator may decline a refund, and a restore may lose the verdict.
    const recoveredForMs = isUnsent || dedupMs === 0 ? idempotencyTtlMs : Math.min(dedupMs, idempotencyTtlMs);
    // A payer who repeats wants to pay. After the life of a key without a repeat the payer may have paid elsewhere, and a shop may have given
    // the money back by hand.
    if (origin !== 'recovery' || isWithin(ageMs, recoveredForMs)) return undefined;
    return `${isUnsent ? 'never sent, and' : 'and'} too old to be sent without a repeat`;
  }

  /**
   * With how it is known, if that is not the processor's own answer: then the decline never counts as one that it answered. A row that was
   * claimed after a loss gets what was charged, which is the amount that the lost row had.
   */
  function settle(
    claimed: Claim,
    result: Extract<Answer, { state: 'succeeded' | 'declined' | 'superseded' }>,
    outcome: Outcome,
    note: ExecutionNote | undefined,
  ): Promise<SettleResult> {
    const id = 'id' in result ? result.id : undefined;
    const claim = id === undefined ? claimed : { ...claimed, processorId: id };
    if (!note) return ledger.settle(claim, outcome, idempotencyTtlMs);
    if (result.state === 'superseded') {
      // The lost row may have had another amount than this request.
      const lost = { ...claim, fingerprint: UNKNOWN_FINGERPRINT };
      return ledger.settleAfterLoss(lost, { outcome, idempotencyTtlMs, note, resolution: knownBy(result.by) });
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
    if (settled.state === 'settled') countSettled(counts, claim.refund !== undefined, origin, answered);
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

  /** A refund has no record in the key store: its row alone answers. */
  function lockEndsOf({ refund }: Claim): Pick<LockEnds, 'finish' | 'release' | 'forget'> {
    return refund ? NO_RECORD : lockEnds;
  }

  /** Leaves the row PROCESSING for the next request or recovery: it is pending, or the cancellation could not end it. */
  async function leave(
    claim: Claim,
    result: Extract<Answer, { state: 'pending' | 'not ended' }>,
    done: Done,
  ): Promise<ExecutionResult> {
    const pending = result.state === 'pending' ? result : result.pending;
    const charged = pending && otherMoneyOf(claim, pending);
    const left = {
      recoverAfterMs: FIRST_QUESTION_MS,
      pendingUntilMs: pending?.untilMs,
      clearsEnding: claim.ending !== undefined,
      processorId: pending?.id,
      charged,
    };
    const cause = result.state === 'pending' ? undefined : result.cause;
    const note = { ...done, cause, pendingUntil: pending?.untilMs };
    const isLeft = await ledger.leave(claim, left, note).catch(ignoreUnavailable);
    await lockEndsOf(claim).release(claim.key, claim.owner);
    if (isLeft === false) counts.fencedOff += 1;
    // The store failed, or another execution has the payment: the state of its row is not certain.
    if (!isLeft) return outcomeElsewhere(claim, cause ?? 'it is pending, and its row could not be written', done);
    if (result.state === 'not ended') return { state: 'cannot be ended' };
    pendingLooks.note(claim.key, result);
    return { state: 'pending', payment: pendingPaymentOf({ ...claim, ...charged }, result) };
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
    const finding = claim.refund ? refunds.findRefund(claim.key) : ledger.find(claim.key);
    const found = await finding.catch(() => undefined);
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
    await lockEndsOf(claim).release(claim.key, claim.owner);
    if (isGivenUp === undefined) return undefined;
    return isGivenUp ? 'given up' : 'fenced off';
  }
}

/** Undefined for a payment that is not known as pending, of which every contract may tell. */
function openOf({ isPending, processorId }: Claim): OpenCharge | undefined {
  return isPending ? { id: processorId } : undefined;
}

/** Undefined if rows were lost, because the row may have another amount than the charge. */
function knownMoneyOf(claim: Claim): Claim | undefined {
  return claim.claimedAfterLoss ? undefined : claim;
}

/** Rows were lost, so the row may have another amount than the charge. */
function isOfUnknownAmount(claim: Claim, found: LookUpResult): boolean {
  return found.state === 'succeeded' && claim.claimedAfterLoss === true && !found.charged;
}

/** The money of a pending charge, if it is another amount than the row's. The row then gets it. */
function otherMoneyOf({ claimedAfterLoss, fingerprint }: Claim, { charged }: PendingResult): Left['charged'] {
  if (!claimedAfterLoss || !charged) return undefined;
  const found = { ...charged, fingerprint: fingerprintOf(charged) };
  return found.fingerprint === fingerprint ? undefined : found;
}

function withKnownAmount(claim: Claim, found: KnownOutcome, done: Done): KnownOutcome | typeof OF_UNKNOWN_AMOUNT {
  done.lookedUp = 'found';
  return isOfUnknownAmount(claim, found) ? OF_UNKNOWN_AMOUNT : found;
}

function markOf(claim: Claim, state: Extract<Answer, { cause: string }>['state']): UnsentMark | undefined {
  if (state === 'of unknown amount') return 'charged an amount that is not known';
  return state === 'not sent' ? unsentMarkOf(claim) : undefined;
}

function pendingPaymentOf(claim: Claim, { untilMs, id }: PendingResult): PendingPayment {
  const { key, refund, transactionId, amount, currency, fingerprint, client, processor, reference, attempt } = claim;
  const payment = { key, refund, transactionId, amount, currency, fingerprint, client, processor, reference, attempt };
  const { processorId, claimedAfterLoss } = claim;
  return { ...payment, processorId: id ?? processorId, claimedAfterLoss, untilMs, remainingMs: 0 };
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
  result: Exclude<ChargeResult, { state: 'unknown' | 'pending' }>,
): Outcome {
  return result.state === 'succeeded'
    ? { state: 'COMPLETED', transactionId: claim.transactionId }
    : { state: 'DECLINED', reason: keptReason(result.reason, claim.content) };
}
