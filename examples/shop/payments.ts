import {
  CancelledError,
  DeclinedError,
  type Idempay,
  NotFoundError,
  OutOfTurnError,
  UnavailableError,
  UnknownOutcomeError,
} from '@idempay/client';
import type { Order } from './orders.ts';

/** The state of an order: the text for the payer, and the attempt that a click makes. Without an attempt there is nothing to click. */
export interface Standing {
  readonly status: number;
  /** It does not change by itself. */
  readonly isKnown: boolean;
  readonly text: string;
  readonly button?: string;
  readonly attempt?: number | undefined;
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
export async function payOrder(idempay: Idempay, order: Order, { attempt, source }: Click): Promise<Standing> {
  const reference = `order-${order.id}`;
  const { article, price } = order;
  const payment = { ...price, source, description: `A ${article}`, metadata: { article } };
  try {
    const paid = await idempay.payments.pay(payment, { reference, attempt, deadlineMs: DEADLINE_MS });
    return paidWith(paid.transactionId);
  } catch (error) {
    if (error instanceof DeclinedError) return declined(error.reason, error.nextAttempt);
    // The same button again: whatever happened, the order is charged once.
    if (error instanceof UnknownOutcomeError || error instanceof UnavailableError) return unknown(attempt);
    // The button of an old page.
    if (error instanceof OutOfTurnError || error instanceof CancelledError) return standingOf(idempay, order);
    throw error;
  }
}

/** For a page that was opened, or reloaded: Idempay knows it. */
export async function standingOf(idempay: Idempay, order: Order): Promise<Standing> {
  try {
    const deadlineMs = PAGE_DEADLINE_MS;
    const payment = await idempay.payments.status({ reference: `order-${order.id}` }, { deadlineMs });
    const attempt = payment.attempt ?? 1;
    if (payment.state === 'COMPLETED') return paidWith(payment.transactionId);
    if (payment.state === 'CANCELLED') return { status: 410, isKnown: true, text: 'The order is closed.' };
    if (payment.state === 'DECLINED') return declined(payment.reason ?? '', attempt + 1);
    return unknown(attempt);
  } catch (error) {
    if (error instanceof NotFoundError)
      return { status: 200, isKnown: true, text: 'Not paid.', button: 'Pay', attempt: 1 };
    if (error instanceof UnavailableError)
      return { status: 503, isKnown: false, text: 'Payments do not answer now. Reload.' };
    throw error;
  }
}

const paidWith = (transactionId: string | null): Standing => ({
  status: 200,
  isKnown: true,
  text: `Paid: ${transactionId}`,
});

/** Only a payer tries again, so only the button has the next attempt. */
const declined = (reason: string, next: number | undefined): Standing => ({
  status: 402,
  isKnown: true,
  text: `Declined: ${reason}`,
  button: 'Try again',
  attempt: next,
});

/** Never "failed": the payer would pay elsewhere, and pay twice. */
const unknown = (attempt: number): Standing => ({
  status: 202,
  isKnown: false,
  text: 'Not known yet. Click again: you pay only once.',
  button: 'Pay',
  attempt,
});
