import { StoreUnavailable } from '../platform/faults.js';
import { type Answers, SOON } from './answers.js';
import { lookUp } from './asking.js';
import { compareWithKept, keptIn } from './compare-with-kept.js';
import type { PaymentContext } from './context.js';
import { claimTermsOf } from './context.js';
import type { CarryOut, ExecutionResult, KnownOutcome } from './execution.js';
import { inPlace, type PlacesInFlight } from './fair-places.js';
import type { PendingLooks } from './pending.js';
import type { FindResult } from './ports/ledger.js';
import type { ClaimedPayment, PaymentRecord } from './ports/payment-history.js';
import { CONTRACT_OF_ENDINGS, namesOf } from './ports/processor.js';
import { lateMsOf } from './turn.js';
import { amountOfUnits, fingerprintOf, type Money, unitsOf } from './values/money.js';
import { type Claim, type FinalOutcome, isVisibleTo, type Outcome, type PendingPayment } from './values/payment.js';
import { type NamedPayment, referenceIn } from './values/reference.js';

/** A part of a payment that is to be given back, under a name that the caller chose. */
export interface RequestedRefund extends Money {
  readonly name: string;
  readonly reason?: string | undefined;
}

export type RefundAnswer =
  /** An answer about the row of the refund, with the keys of the refund and of its payment. */
  | ({ readonly key: string; readonly payment: string } & RefundState)
  /** Nothing was written. */
  | NoRefund;

type RefundState =
  /** The refund ended by this request, or by an earlier one if `isRepeat`. */
  | { readonly state: 'final'; readonly outcome: Outcome; readonly isRepeat: boolean }
  /** `untilMs`: when the processor expects its end; milliseconds since the epoch. */
  | { readonly state: 'pending'; readonly untilMs: number; readonly retryAfterSeconds: number }
  | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
  /** The name was used for another amount of this payment. */
  | { readonly state: 'other amount' }
  | { readonly state: 'unknown' }
  /** Nothing was sent to the processor; the refund is claimed, and will be sent. */
  | { readonly state: 'not sent' };

type NoRefund =
  /** `mayBeLost`: rows were lost, and the payment's may be one of them. */
  | { readonly state: 'no payment'; readonly mayBeLost: boolean }
  | { readonly state: 'not completed'; readonly payment: PaymentRecord }
  | { readonly state: 'other currency'; readonly currency: string }
  /** `left`: the part of the payment that was not given back, in its currency. */
  | { readonly state: 'too much'; readonly left: string; readonly currency: string }
  /** This instance has another processor, or another account there. */
  | { readonly state: 'other processor'; readonly processor: string }
  /** The payment is removed within an hour. */
  | { readonly state: 'too old' }
  /** The adapter does not know refunds. */
  | { readonly state: 'not supported' }
  /** The processor does not say whether it knows refunds. */
  | { readonly state: 'processor down' }
  | { readonly state: 'busy'; readonly retryAfterSeconds: number };

/**
 * Gives back a part of a COMPLETED payment, once for each name (rule P26).
 *
 * Dies before the claim: nothing happened. Dies after it: the row is there, and recovery looks for the refund at the processor, then sends it.
 * Dies after the send: the same finds it. Run twice: the second finds the row, by its primary key if it came at the same moment.
 */
export type RefundPayment = (named: NamedPayment, requested: RequestedRefund) => Promise<RefundAnswer>;

export function createRefundPayment(
  context: Pick<
    PaymentContext,
    | 'ledger'
    | 'refunds'
    | 'history'
    | 'processor'
    | 'rules'
    | 'clock'
    | 'computeKey'
    | 'computeRefundKey'
    | 'newOwner'
    | 'newTransactionId'
    | 'events'
    | 'counts'
  > & {
    answers: Pick<Answers, 'retryAfterSeconds'>;
    carryOut: CarryOut;
    pendingLooks: Pick<PendingLooks, 'ask' | 'answer'>;
    placesInFlight: PlacesInFlight;
  },
): RefundPayment {
  const { ledger, refunds, history, processor, clock, newOwner, newTransactionId, events } = context;
  const { computeKey, computeRefundKey } = context;
  const { answers, carryOut, pendingLooks, counts } = context;
  const places = context.placesInFlight.refundsAndEndings;
  const { leaseMs } = context.rules;
  const { ofProcessor } = claimTermsOf(context);
  const names = namesOf(processor.traits);
  const lateMs = lateMsOf(context.rules);

  return async function refundPayment(named, requested) {
    const payment = await paymentOf(named);
    if (!payment) return { state: 'no payment', mayBeLost: await ledger.mayBeLost(named.key) };
    if (named.reference && (await isPaidOneLost(payment))) return { state: 'no payment', mayBeLost: true };
    const key = computeRefundKey(payment.key, requested.name);
    const found = await refunds.findRefund(key);
    if (found.state !== 'absent')
      return { key, payment: payment.key, ...(await ofRow(key, found, named.client, requested)) };
    return begin(key, payment, named, requested);
  };

  /** A reference stands for its attempt that was paid: an attempt only follows a decline, so that is the newest one. */
  async function paymentOf({ key, client, reference }: NamedPayment): Promise<PaymentRecord | undefined> {
    const payment = reference ? await history.newestAttempt(reference.text, reference.client) : await history.find(key);
    return payment && !payment.refund && isVisibleTo(client, payment.client) ? payment : undefined;
  }

  /** Only a decline is followed by another attempt. If rows were lost, the row of the attempt that was paid may be one of them. */
  async function isPaidOneLost(payment: PaymentRecord): Promise<boolean> {
    const reference = referenceIn(payment);
    if (payment.state !== 'DECLINED' || !reference) return false;
    return ledger.mayBeLost(computeKey({ ...reference, attempt: reference.attempt + 1 }));
  }

  async function begin(
    key: string,
    payment: PaymentRecord,
    { client, by }: NamedPayment,
    requested: RequestedRefund,
  ): Promise<RefundAnswer> {
    if (payment.state !== 'COMPLETED') return { state: 'not completed', payment };
    if (payment.currency !== requested.currency) return { state: 'other currency', currency: payment.currency };
    if (!names.includes(payment.processor)) return { state: 'other processor', processor: payment.processor };
    const obstacle = processor.contract < CONTRACT_OF_ENDINGS ? await obstacleOfContract(payment) : undefined;
    if (obstacle) return obstacle;
    if (!places.take(client)) return { state: 'busy', retryAfterSeconds: 1 };
    return inPlace(places, client, counts, claimAndGiveBack(key, payment, { client, by }, requested));
  }

  /** The adapter is asked about the charge, and the contract of that reply decides: nothing was written yet. */
  async function obstacleOfContract({ key, amount, currency }: ClaimedPayment): Promise<NoRefund | undefined> {
    const { state } = await processor.lookUp(key, { amount, currency });
    if (processor.contract >= CONTRACT_OF_ENDINGS) return undefined;
    return { state: state === 'unknown' ? 'processor down' : 'not supported' };
  }

  async function claimAndGiveBack(
    key: string,
    payment: ClaimedPayment,
    { client, by }: Pick<NamedPayment, 'client' | 'by'>,
    requested: RequestedRefund,
  ): Promise<RefundAnswer> {
    const { amount, currency, name, reason } = requested;
    const askedAt = clock.monotonic();
    const claimed = await refunds.claimRefund({
      key,
      refund: { payment: payment.key, name, reason, chargeId: payment.processorId },
      owner: newOwner(by),
      transactionId: newTransactionId(),
      amount,
      currency,
      units: unitsOf(requested),
      fingerprint: fingerprintOf(requested),
      charged: { amount: payment.amount, currency: payment.currency },
      chargedUnits: unitsOf(payment),
      leaseMs,
      lateMs,
      claimBy: askedAt + leaseMs,
      ...ofProcessor,
    });
    switch (claimed.state) {
      case 'claimed': {
        // If rows were lost, an earlier row of this refund may be one of them: then the processor is asked before anything is sent.
        const origin = claimed.claim.mayBeLost ? 'repeat' : 'first claim';
        const result = await carryOut(claimed.claim, askedAt, origin);
        return { key, payment: payment.key, ...ofExecution(claimed.claim, result, requested) };
      }
      case 'too much':
        return ofTooMuch(key, payment, claimed.leftUnits, requested);
      case 'too old':
        return claimed;
      case 'not refundable':
        return { state: 'no payment', mayBeLost: await ledger.mayBeLost(payment.key) };
      case 'too late':
        throw new StoreUnavailable('unchanged', 'the refund was claimed after its lease');
      default:
        return { key, payment: payment.key, ...(await ofRow(key, claimed, client, requested)) };
    }
  }

  /**
   * If rows were lost, the refund may have been made, and another one may have taken the part of the sum that the lost row had. Then it is not
   * said that nothing was given back.
   */
  async function ofTooMuch(
    key: string,
    payment: ClaimedPayment,
    leftUnits: number,
    requested: RequestedRefund,
  ): Promise<RefundAnswer> {
    const left = amountOfUnits(Math.max(0, leftUnits), payment.currency);
    const answer = { state: 'too much', left, currency: payment.currency } as const;
    if (!(await ledger.mayBeLost(key))) return answer;
    const refund = { payment: payment.key, name: requested.name };
    const found = await lookUp(processor, { key, refund, ...requested }, false);
    if (found.state === 'no record' || found.state === 'declined') return answer;
    const given = found.state === 'succeeded' ? found.charged : undefined;
    const isOfOther = given && fingerprintOf(given) !== fingerprintOf(requested);
    return { key, payment: payment.key, state: isOfOther ? 'other amount' : 'unknown' };
  }

  /** A refund takes about as long as a payment, because the same processor answers. Its lease is all that tells of its beginning. */
  function retryAfterSeconds(remainingMs: number): number {
    return answers.retryAfterSeconds({ heldMs: leaseMs - remainingMs, remainingMs });
  }

  /** A refund that was claimed before. */
  async function ofRow(
    key: string,
    found: Exclude<FindResult, { state: 'absent' }>,
    client: string | undefined,
    requested: RequestedRefund,
  ): Promise<RefundState> {
    switch (found.state) {
      case 'final':
        return ofFinal(found.final, requested, true);
      case 'under way':
        // After a loss the row may have another amount than the refund that was made, which its execution finds out.
        if (isOther(found, requested) && !(await ledger.mayBeLost(key))) return { state: 'other amount' };
        return { state: 'in progress', retryAfterSeconds: retryAfterSeconds(found.remainingMs) };
      case 'pending':
        return ofPending(found.payment, client, requested);
      case 'abandoned':
        return takeOver(key, client, requested);
      case 'cancelled':
      case 'expired':
        throw new Error('a refund is never cancelled, and never expires');
    }
  }

  /** Nothing is written before the processor tells an outcome. */
  async function ofPending(
    pending: PendingPayment,
    client: string | undefined,
    requested: RequestedRefund,
  ): Promise<RefundState> {
    if (isOther(pending, requested) && !pending.claimedAfterLoss) return { state: 'other amount' };
    if (pending.remainingMs > 0 || !names.includes(pending.processor)) return stillPending(pending, requested);
    if (!places.take(client)) return stillPending(pending, requested);
    return inPlace(places, client, counts, askAbout(pending, client, requested));
  }

  async function askAbout(
    pending: PendingPayment,
    client: string | undefined,
    requested: RequestedRefund,
  ): Promise<RefundState> {
    const said = await pendingLooks.ask(pending);
    switch (said.state) {
      case 'succeeded':
      case 'declined':
        return takeOverRow(pending.key, client, requested, { pending, said });
      case 'pending':
        return stillPending({ ...pending, untilMs: said.untilMs }, requested);
      case 'no record':
      case 'unknown':
        return stillPending(pending, requested);
    }
  }

  async function takeOver(key: string, client: string | undefined, requested: RequestedRefund): Promise<RefundState> {
    return places.take(client) ? inPlace(places, client, counts, takeOverRow(key, client, requested)) : SOON;
  }

  async function takeOverRow(
    key: string,
    client: string | undefined,
    requested: RequestedRefund,
    known?: { readonly pending: PendingPayment; readonly said: KnownOutcome },
  ): Promise<RefundState> {
    const askedAt = clock.monotonic();
    const isPending = known !== undefined;
    const claim = await ledger.takeOver({ key, owner: newOwner(), leaseMs, isPending, ...ofProcessor });
    if (claim) return ofExecution(claim, await carryOut(claim, askedAt, 'repeat', known?.said), requested);
    // Another request, recovery or an operator was faster.
    const found = await refunds.findRefund(key, client);
    if (known) compareWithKept(events, known.pending, known.said, keptIn(found));
    return found.state === 'final' ? ofFinal(found.final, requested, true) : SOON;
  }

  function ofExecution(claim: Claim, result: ExecutionResult, requested: RequestedRefund): RefundState {
    switch (result.state) {
      case 'settled':
        return ofFinal(result.final, requested, false);
      case 'finished elsewhere':
        return ofFinal(result.final, requested, true);
      case 'pending':
        return stillPending(result.payment, requested);
      case 'unknown':
      case 'not sent':
        events.unknown(claim, result.cause);
        return { state: result.state };
      case 'superseded':
      case 'cancelled':
      case 'cannot be ended':
        throw new Error(`a refund cannot be "${result.state}"`);
    }
  }

  /** After a loss the row may have another amount than the refund that waits. */
  function stillPending(pending: PendingPayment, requested: Money): RefundState {
    if (isOther(pending, requested)) return { state: pending.claimedAfterLoss ? 'unknown' : 'other amount' };
    const { payment, retryAfterSeconds } = pendingLooks.answer(pending);
    return { state: 'pending', untilMs: payment.untilMs, retryAfterSeconds };
  }
}

function ofFinal(final: FinalOutcome, requested: Money, isRepeat: boolean): RefundState {
  if (isOther(final, requested)) return { state: 'other amount' };
  return { state: 'final', outcome: final.outcome, isRepeat };
}

function isOther({ fingerprint }: { readonly fingerprint: string }, requested: Money): boolean {
  return fingerprint !== fingerprintOf(requested);
}
