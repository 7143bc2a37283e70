import { isUnknown, StoreUnavailable } from '../platform/faults.js';
import {
  type Answers,
  mismatch,
  type PayAnswer,
  type RefusedTurn,
  type RunningAttempt,
  SOON,
  wholeSeconds,
} from './answers.js';
import { compareWithKept, keptIn } from './compare-with-kept.js';
import { claimTermsOf, type PaymentContext } from './context.js';
import { type CarryOut, type ExecutionResult, type KnownOutcome, outcomeOf } from './execution.js';
import { inPlace, type PlacesInFlight } from './fair-places.js';
import { type LockEnds, yieldTo } from './lock-ends.js';
import { knownAttemptOf, mayHideOwnRow } from './lost-attempts.js';
import type { PendingLooks } from './pending.js';
import type { KeyLookResult, Taken } from './ports/key-store.js';
import type { ClaimAttempt, ClaimResult, FindResult, Ledger } from './ports/ledger.js';
import { namesOf } from './ports/processor.js';
import type { TurnOf } from './turn.js';
import {
  fingerprintOf,
  fingerprintOfRefused,
  type MoneyProblem,
  type PaymentRequest,
  type RequestedPayment,
} from './values/money.js';
import type { Claim, FinalOutcome, PendingPayment } from './values/payment.js';
import type { NamedPayment } from './values/reference.js';
import type { Patience, Waiting, WaitingPlace } from './waiting.js';

/**
 * Spec 4.1, endpoint 2, rules 2 to 5. With patience, a duplicate of a payment under way waits for its end before it is answered as
 * in progress. A key of another client than the one that asks is one that was never issued.
 */
export type Pay = (named: NamedPayment, request: PaymentRequest, patience?: Patience) => Promise<PayAnswer>;

/** One request's payment, and the owner under which it begins, claims and takes over. */
interface Attempt {
  readonly named: NamedPayment;
  readonly owner: string;
  readonly fingerprint: string;
  /** Monotonic, before the store was asked that may give it a lock or a row. */
  readonly askedAt: number;
}

/** The path of a payment, from the request to its answer, in the order of its steps. A claimed payment is carried out in `execution.ts`. */
export function createPay(
  context: Pick<
    PaymentContext,
    | 'keys'
    | 'ledger'
    | 'processor'
    | 'rules'
    | 'clock'
    | 'computeKey'
    | 'newTransactionId'
    | 'newOwner'
    | 'events'
    | 'counts'
  > & {
    answers: Answers;
    carryOut: CarryOut;
    lockEnds: LockEnds;
    pendingLooks: PendingLooks;
    placesInFlight: Pick<PlacesInFlight, 'payments'>;
    turnOf: TurnOf;
    waiting: Pick<Waiting, 'enter'>;
  },
): Pay {
  const { keys, ledger, processor, clock, computeKey, newTransactionId, newOwner, events, counts } = context;
  const { carryOut, lockEnds, pendingLooks, turnOf, waiting } = context;
  const { replay, busy, differs, took } = context.answers;
  const { idempotencyTtlMs, leaseMs } = context.rules;
  const { certainResult } = processor.traits;
  const { ofProcessor, recordLifeMs, waitAfterLossMs, shortLossMs } = claimTermsOf(context);
  const places = context.placesInFlight.payments;

  /** With patience it waits instead of answering 'in progress'; if the attempt ended without an outcome, this request begins one. */
  return async function pay(named, request, patience) {
    const first = await payAtOnce(named, request);
    if (!patience || first.state !== 'in progress') return first;
    const place = waiting.enter(named.key, patience, named.client);
    if (!place) return first;
    try {
      let answer = await payWhenFree(place, first, () => payAtOnce(named, request));
      // The last try may be long ago, and the payment may be final since.
      if (answer.state === 'in progress') {
        answer = await answerFromLedger(named, fingerprintIn(request));
      }
      return { ...answer, waited: true };
    } finally {
      place.leave();
    }
  };

  async function payAtOnce(named: NamedPayment, request: PaymentRequest): Promise<PayAnswer> {
    const { key, client } = named;
    if (pendingLooks.mayBePending(key)) {
      const found = await ledger.find(key, client);
      if (found.state === 'pending') return ofPending(named, found.payment, fingerprintIn(request));
      if (found.state === 'final') pendingLooks.forget(key);
    }
    return 'problem' in request ? refuseContent(named, request) : begin(named, request);
  }

  /**
   * Rule 2 of spec 4.1. A lock may be left although its payment is final (its end was lost, or refused by a full store). So
   * the row is read before each 409, after `begin` or `look` was answered (rule P17).
   */
  async function answerFromLedger(
    named: NamedPayment,
    fingerprint: string | undefined,
    lock?: RunningAttempt,
  ): Promise<PayAnswer> {
    return answerByRow(named, await ledger.find(named.key), fingerprint, lock);
  }

  /** The answer by a row that was just read. */
  async function answerByRow(
    named: NamedPayment,
    found: FindResult,
    fingerprint: string | undefined,
    lock?: RunningAttempt,
  ): Promise<PayAnswer> {
    if (found.state === 'pending') return ofPending(named, found.payment, fingerprint);
    return context.answers.byRow(named, found, fingerprint, lock);
  }

  /**
   * The processor is asked, unless another execution is at work on the payment. Nothing is written before the processor reports an outcome.
   */
  async function ofPending(
    named: NamedPayment,
    payment: PendingPayment,
    fingerprint: string | undefined,
  ): Promise<PayAnswer> {
    const { key, client } = named;
    if (differs(key, payment.fingerprint, fingerprint)) return mismatch(key);
    if (payment.remainingMs > 0 || payment.ending) return pendingLooks.answer(payment);
    // A request without payable content finishes no payment, and learns nothing about the payer's next step.
    if (fingerprint === undefined) return { state: 'pending without answer' };
    if (!namesOf(processor.traits).includes(payment.processor)) return { state: 'unknown' };
    if (!places.take(client)) return { state: 'pending without answer' };
    return inPlace(places, client, counts, askAboutPending(named, payment, fingerprint));
  }

  async function askAboutPending(
    named: NamedPayment,
    payment: PendingPayment,
    fingerprint: string,
  ): Promise<PayAnswer> {
    const said = await pendingLooks.ask(payment);
    switch (said.state) {
      case 'pending':
        return pendingLooks.answer({ ...payment, untilMs: said.untilMs });
      case 'unknown':
        return { state: 'pending without answer' };
      case 'no record':
        return { state: 'unknown' };
      default:
        return settlePending(named, payment, fingerprint, said);
    }
  }

  /** Only an outcome takes the payment over. If another request, recovery or an operator was faster, its row answers. */
  async function settlePending(
    named: NamedPayment,
    payment: PendingPayment,
    fingerprint: string,
    outcome: KnownOutcome,
  ): Promise<PayAnswer> {
    const { key } = payment;
    const owner = newOwner();
    const askedAt = clock.monotonic();
    const claim = await ledger.takeOver({ key, owner, leaseMs, ...ofProcessor, isPending: true });
    if (claim) {
      const result = await carryOut(claim, askedAt, 'repeat', outcome);
      return answerOf({ named, fingerprint }, claim, result);
    }
    const found = await ledger.find(key);
    compareWithKept(events, payment, outcome, keptIn(found));
    if (found.state === 'pending') return pendingLooks.answer(found.payment);
    return context.answers.byRow(named, found, fingerprint);
  }

  /**
   * Answers a request whose content cannot be paid: by rules 2 to 4, then with its own problem. It takes no lock. If its
   * amount and currency could be read it may repeat an earlier payment: it is compared with it, and takes it over if its owner is dead.
   */
  async function refuseContent(named: NamedPayment, refused: MoneyProblem): Promise<PayAnswer> {
    const { key, client, reference } = named;
    const askedAt = clock.monotonic();
    const fingerprint = fingerprintOfRefused(refused);
    const looked: KeyLookResult = await keys
      .look(key, client)
      .catch((fault: unknown) => outcomeWithoutKeyStore(ledger, key, client, fault));
    if (looked.state === 'locked') return answerFromLedger(named, fingerprint, looked);
    if (looked.state === 'final') return replay(named, looked.final, fingerprint);
    const found = await ledger.find(key, client);
    switch (found.state) {
      case 'final':
      case 'under way':
      case 'pending':
      case 'cancelled':
      case 'expired':
        return answerByRow(named, found, fingerprint);
      case 'abandoned':
        return fingerprint ? takeOver({ named, owner: newOwner(), fingerprint, askedAt }) : SOON;
      case 'absent':
        if (looked.state === 'generated' || reference) return { state: 'invalid content', problem: refused.problem };
        return { state: 'invalid key' };
    }
  }

  /** Begins the payment in the key store, and answers by the record that is found there (protocol, step 1). */
  async function begin(named: NamedPayment, requested: RequestedPayment): Promise<PayAnswer> {
    const { key, client, reference } = named;
    const owner = newOwner();
    const fingerprint = fingerprintOf(requested);
    const attempt: Attempt = { named, owner, fingerprint, askedAt: clock.monotonic() };
    const makes = reference && { reference, lifeMs: recordLifeMs };
    const begun = await keys.begin({ key, owner, leaseMs, fingerprint, client, makes }).catch((fault: unknown) => {
      // The lock may be held although the reply was lost; release it so that retries are not blocked.
      if (isUnknown(fault)) void lockEnds.release(key, owner);
      return outcomeWithoutKeyStore(ledger, key, client, fault);
    });
    switch (begun.state) {
      case 'locked':
        return answerFromLedger(named, fingerprint, begun);
      case 'final':
        return replay(named, begun.final, fingerprint);
      case 'absent':
        return payFromRow(attempt);
      case 'taken':
        if (!places.take(client)) return refuseForLoad(attempt);
        return inPlace(places, client, counts, claimAndPay(attempt, requested, begun));
    }
  }

  /** The key store does not know the key. The row is read before the key is called invalid (protocol, step 1). */
  async function payFromRow(attempt: Attempt): Promise<PayAnswer> {
    const { named, owner, fingerprint } = attempt;
    const askedAt = clock.monotonic();
    const found = await ledger.find(named.key, named.client);
    switch (found.state) {
      case 'absent':
      case 'expired':
        return { state: 'invalid key' };
      case 'final':
        await lockEnds.finish(named.key, owner, found.final);
        return replay(named, found.final, fingerprint);
      case 'cancelled':
      case 'under way':
      case 'pending':
        return answerByRow(named, found, fingerprint);
      case 'abandoned':
        return takeOver({ ...attempt, askedAt });
    }
  }

  /**
   * Claims nothing and releases the lock. The row is read all the same: a payment that was claimed before must not be
   * answered as busy, because that says that nothing was begun.
   */
  async function refuseForLoad({ named, owner, fingerprint }: Attempt): Promise<PayAnswer> {
    const { key } = named;
    const found = await ledger.find(key).catch(async (fault: unknown) => {
      await lockEnds.release(key, owner);
      throw fault;
    });
    await yieldTo(lockEnds, key, owner, found);
    return found.state === 'absent' ? busy() : answerByRow(named, found, fingerprint);
  }

  /**
   * The lock is ours, so the row is claimed (protocol, step 2). Each path from here releases the lock, or leaves it to the running attempt.
   */
  async function claimAndPay(
    begun: Attempt,
    { amount, currency, content }: RequestedPayment,
    { claimBy, client, reference }: Taken,
  ): Promise<PayAnswer> {
    const { owner, fingerprint, askedAt } = begun;
    const { key } = begun.named;
    // The record says what its key is computed from, also if the request names the key alone.
    const attempt: Attempt = { ...begun, named: { key, reference } };
    const transactionId = newTransactionId();
    const claimed = await claimOrLookUp({
      amount,
      currency,
      content,
      key,
      owner,
      fingerprint,
      client,
      transactionId,
      ...ofProcessor,
      leaseMs,
      claimBy,
      turn: reference && turnOf(reference),
      waitAfterLossMs,
      shortLossMs,
      settleAs: certainResult && { outcome: outcomeOf({ transactionId }, certainResult), idempotencyTtlMs },
    }).catch(async (fault: unknown) => {
      await lockEnds.release(key, owner);
      throw fault;
    });
    if (claimed.state === 'claimed') {
      const result = await carryOut(claimed.claim, askedAt, 'first claim');
      if (result.state === 'settled') took(clock.monotonic() - askedAt);
      return answerOf(attempt, claimed.claim, result);
    }
    if (claimed.state === 'taken over') return finishTakeover(attempt, claimed.claim);
    // A death before this leaves a row that the next begin or look finds, as after every settlement.
    await yieldTo(lockEnds, key, owner, claimed);
    switch (claimed.state) {
      case 'settled':
        counts.settled['first claim'] += 1;
        took(clock.monotonic() - askedAt);
        return { state: 'processed', final: claimed.final, attempt: reference?.attempt };
      case 'final':
        return replay(attempt.named, claimed.final, fingerprint);
      case 'under way':
      case 'pending':
        return answerByRow(attempt.named, claimed, fingerprint);
      case 'cancelled':
        return { state: 'cancelled' };
      case 'not its turn':
        return { ...claimed, attempt: reference?.attempt ?? 1 };
      case 'unknown':
      case 'other processor before loss':
        return claimed;
      case 'too soon':
        return { state: 'too soon', retryAfterSeconds: wholeSeconds(claimed.remainingMs) };
      case 'expired':
        return { state: 'invalid key' };
      case 'too late':
        throw new StoreUnavailable('unchanged', 'the claim came after the lease of its begin');
    }
  }

  /**
   * If rows were lost, the row of an attempt that is out of turn may be one of them: the processor is asked about it before its turn is
   * judged. If it has a record, this attempt is claimed with the rows before it, and looked up again as every claim of a lost row.
   *
   * Dies before the second claim: nothing was written. Dies after it: the rows are there, and recovery looks this attempt up. Run twice:
   * the second finds the row.
   */
  async function claimOrLookUp(
    attempt: ClaimAttempt,
  ): Promise<ClaimResult | Omit<RefusedTurn, 'attempt'> | { readonly state: 'unknown' }> {
    const claimed = await ledger.claim(attempt);
    const { key, turn } = attempt;
    if (!turn || claimed.state !== 'not its turn' || !mayHideOwnRow(claimed)) return claimed;
    if (!(await ledger.mayBeLost(key))) return claimed;
    const found = await processor.lookUp(key);
    if (found.state === 'unknown') return { state: 'unknown' };
    if (found.state === 'no record')
      return claimed.previous === 'absent' ? { ...claimed, previous: 'may be lost' } : claimed;
    const keysAndIds = { computeKey, newTransactionId };
    const knownAtProcessor = knownAttemptOf(turn.reference, keysAndIds, idempotencyTtlMs);
    const known = await ledger.claim({ ...attempt, knownAtProcessor });
    // An attempt before it is not declined yet. This one was made, so it must not be refused as one that never was.
    return known.state === 'not its turn' && known.previous === 'absent' ? { state: 'unknown' } : known;
  }

  /** Takes over a payment whose owner is dead (protocol, step 3), within the limit of attempts in flight. */
  async function takeOver(attempt: Attempt): Promise<PayAnswer> {
    const { client } = attempt.named;
    return places.take(client) ? inPlace(places, client, counts, takeOverRow(attempt)) : SOON;
  }

  async function takeOverRow(attempt: Attempt): Promise<PayAnswer> {
    const { named, owner, fingerprint } = attempt;
    const claim = await ledger.takeOver({ key: named.key, owner, leaseMs, ...ofProcessor });
    // Another attempt was faster, and the payment may be final already.
    return claim ? finishTakeover(attempt, claim) : answerFromLedger(named, fingerprint);
  }

  /** Pays the row's amount, never the request's. A mismatching request is rejected after the takeover completes. */
  async function finishTakeover(attempt: Attempt, claim: Claim): Promise<PayAnswer> {
    return answerOf(attempt, claim, await carryOut(claim, attempt.askedAt, 'repeat'));
  }

  function withoutOutcome(
    claim: Claim,
    result: Exclude<ExecutionResult, { final: FinalOutcome }>,
    fingerprint: string | undefined,
  ): PayAnswer {
    switch (result.state) {
      case 'unknown':
      case 'not sent':
        events.unknown(claim, result.cause);
        return { state: result.state };
      case 'pending':
        if (differs(claim.key, result.payment.fingerprint, fingerprint)) return mismatch(claim.key);
        return pendingLooks.answer(result.payment);
      case 'cannot be ended':
        // An earlier cancellation had begun to end the payment. That ending is over, and the next request finds out more.
        return SOON;
      case 'cancelled':
        return { state: result.answered === 'COMPLETED' ? 'charged after cancellation' : 'cancelled' };
      case 'superseded':
        return { state: 'superseded at processor', attempt: result.by - 1, by: result.by };
    }
  }

  async function answerOf(
    { named, fingerprint }: Pick<Attempt, 'named'> & { readonly fingerprint: string | undefined },
    claim: Claim,
    result: ExecutionResult,
  ): Promise<PayAnswer> {
    if (!('final' in result)) return withoutOutcome(claim, result, fingerprint);
    const { final } = result;
    if (result.state !== 'settled') return replay(named, final, fingerprint);
    if (differs(claim.key, final.fingerprint, fingerprint)) return mismatch(claim.key);
    return { state: 'processed', final, attempt: named.reference?.attempt };
  }
}

/** The fingerprint of the body; undefined if its amount and currency cannot be read. */
function fingerprintIn(request: PaymentRequest): string | undefined {
  return 'problem' in request ? fingerprintOfRefused(request) : fingerprintOf(request);
}

/** Without the key store only outcomes are answered, from the row. No payment is begun. */
async function outcomeWithoutKeyStore(
  ledger: Pick<Ledger, 'find'>,
  key: string,
  client: string | undefined,
  fault: unknown,
): Promise<{ state: 'final'; final: FinalOutcome }> {
  if (!(fault instanceof StoreUnavailable)) throw fault;
  const found = await ledger.find(key, client);
  if (found.state !== 'final') throw fault;
  return found;
}

/** Tries again each time the attempt has probably ended, until there is an answer or the wait is over. */
async function payWhenFree(
  place: WaitingPlace,
  first: PayAnswer,
  tryAgain: () => Promise<PayAnswer>,
): Promise<PayAnswer> {
  let answer = first;
  let fault: StoreUnavailable | undefined;
  while (answer.state === 'in progress' && (await place.next())) {
    try {
      answer = await tryAgain();
      fault = undefined;
    } catch (thrown) {
      // A store that is down for a moment does not end the wait.
      if (!(thrown instanceof StoreUnavailable)) throw thrown;
      // A try before may have charged, whatever this one did.
      if (fault?.effect !== 'unknown') fault = thrown;
    }
  }
  if (fault !== undefined) throw fault;
  return answer;
}
