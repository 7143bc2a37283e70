import {
  CancelledError,
  DeadKeyError,
  DeclinedError,
  type Idempay,
  LAST_ATTEMPT,
  NotCancelledError,
  NotFoundError,
  OutOfTurnError,
  UnavailableError,
  UnknownChangeError,
  UnknownOutcomeError,
} from '@idempay/client';
import { articlesOf, type Order, referenceOf } from './orders.ts';

/**
 * The state of an order: the text for the payer, and the attempt that a click makes or ends. Without an attempt there is nothing to click.
 */
export interface Standing {
  readonly status: number;
  /** It does not change by itself. */
  readonly isKnown: boolean;
  readonly text: string;
  readonly button?: string;
  readonly attempt?: number | undefined;
  /** The payer may end the attempt, and take another card. */
  readonly mayEnd?: true;
  /** The attempt waits for its payer, or for the bank. Only the browser that ordered is told the address of the bank's page. */
  readonly isWaiting?: true;
  readonly bankUrl?: string | undefined;
  /** The end of the order, after which nothing follows. */
  readonly end?: 'paid' | 'closed';
}

/** A payer waits for this long, and is then told that it is not known yet. */
const DEADLINE_MS = 15_000;
const PAGE_DEADLINE_MS = 3_000;

/** The fields that the payer's browser sends. A second click may have another source: the order is charged with the first one. */
export interface Click {
  readonly attempt: number;
  readonly source?: string;
}

/** For a click, its repeats, a reload, and clicks at other servers: the order is charged once, and nothing is kept here. */
export async function payOrder(
  idempay: Idempay,
  order: Order,
  { attempt, source }: Click,
  deadlineMs = DEADLINE_MS,
): Promise<Standing> {
  // What the shop wrote down counts: rows of Idempay may be lost, and the order must not be paid a second time then.
  if (order.end) return standingOf(idempay, order);
  const reference = referenceOf(order);
  const { price, url } = order;
  const articles = articlesOf(order);
  const content = { description: `A ${articles.join(' and a ')}`, metadata: { articles: articles.join(', ') } };
  const payment = { ...price, ...content, source, returnUrl: url };
  try {
    const result = await idempay.payments.pay(payment, { reference, attempt, deadlineMs });
    return result.state === 'pending' ? waiting(attempt, result.action?.url) : paidWith(result.transactionId);
  } catch (error) {
    if (error instanceof DeclinedError) return declined(error.reason, attempt);
    // It is an UnknownOutcomeError too, and another click does not help: the order was closed and charged all the same.
    if (error instanceof DeadKeyError) {
      console.error(`${order.id}: refund this charge at the processor, key ${error.key}: ${error.message}`);
      return standingOf(idempay, order);
    }
    // The same button again: whatever happened, the order is charged once.
    if (error instanceof UnknownOutcomeError || error instanceof UnavailableError) return unknown(attempt);
    // The button of an old page.
    if (error instanceof OutOfTurnError || error instanceof CancelledError) return standingOf(idempay, order);
    throw error;
  }
}

/** The state of the order at Idempay, for a page that was opened or reloaded, and for a payer who comes back from the bank. */
export async function standingOf(idempay: Idempay, order: Order): Promise<Standing> {
  try {
    const deadlineMs = PAGE_DEADLINE_MS;
    const payment = await idempay.payments.status({ reference: referenceOf(order) }, { deadlineMs });
    const attempt = payment.attempt ?? 1;
    if (payment.state === 'COMPLETED') return paidWith(payment.transactionId);
    if (order.end) return ENDED[order.end];
    if (payment.state === 'CANCELLED') return CLOSED;
    if (payment.state === 'DECLINED') return declined(payment.reason ?? '', attempt);
    // A repeat asks the processor, and never charges what is pending already.
    if (payment.pending) return await payOrder(idempay, order, { attempt }, deadlineMs);
    return unknown(attempt);
  } catch (error) {
    if (error instanceof NotFoundError) return order.end ? ENDED[order.end] : NOT_PAID;
    if (error instanceof UnavailableError)
      return { status: 503, isKnown: false, text: 'Payments do not answer now. Reload.' };
    throw error;
  }
}

/**
 * Ends a payment, so that nothing that the payer was given charges the order. With `only: 'attempt'` the next attempt may, and otherwise
 * none.
 */
export async function endPayment(
  idempay: Idempay,
  order: Order,
  named: { readonly attempt: number; readonly only?: 'attempt' },
): Promise<Standing> {
  if (order.end) return standingOf(idempay, order);
  try {
    await idempay.payments.cancel({ reference: referenceOf(order), ...named }, { deadlineMs: DEADLINE_MS });
  } catch (error) {
    // The payment was paid meanwhile, cannot be ended, or its outcome is not known yet, so the page shows the state at Idempay.
    const errors = [NotCancelledError, OutOfTurnError, UnknownChangeError, UnavailableError];
    if (!errors.some((type) => error instanceof type)) throw error;
  }
  return standingOf(idempay, order);
}

const NOT_PAID: Standing = { status: 200, isKnown: true, text: 'Not paid.', button: 'Pay', attempt: 1 };
const CLOSED: Standing = { status: 410, isKnown: true, text: 'The order is closed.', end: 'closed' };
/** The standing of an order that has ended, if Idempay does not have its payment any more. */
const ENDED: Readonly<Record<'paid' | 'closed', Standing>> = {
  paid: { status: 200, isKnown: true, text: 'Paid.', end: 'paid' },
  closed: CLOSED,
};

const paidWith = (transactionId: string | null): Standing => ({
  status: 200,
  isKnown: true,
  text: `Paid: ${transactionId}`,
  end: 'paid',
});

/** Only a payer tries again, so only the button has the next attempt. After the last one nothing can pay the order. */
function declined(reason: string, attempt: number): Standing {
  const standing = { status: 402, isKnown: true, text: `Declined: ${reason}` };
  if (attempt >= LAST_ATTEMPT) return { ...standing, end: 'closed' };
  return { ...standing, button: 'Try again', attempt: attempt + 1 };
}

/** If there is no address, the payer has nothing to do, because the bank takes time. */
const waiting = (attempt: number, bankUrl: string | undefined): Standing => ({
  status: 202,
  isKnown: false,
  text: bankUrl ? 'Not paid yet: confirm the payment at your bank.' : 'Not paid yet: the bank takes its time.',
  attempt,
  mayEnd: true,
  isWaiting: true,
  bankUrl,
});

/** Never "failed": the payer would pay elsewhere, and pay twice. Another card is taken only after the attempt has ended at the processor. */
const unknown = (attempt: number): Standing => ({
  status: 202,
  isKnown: false,
  text: 'Not known yet. Click again: you pay only once.',
  button: 'Pay',
  attempt,
  mayEnd: true,
});
