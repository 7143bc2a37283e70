import {
  DeclinedError,
  type Idempay,
  IdempayError,
  MismatchError,
  NotFoundError,
  NotRefundedError,
  UnavailableError,
  UnknownOutcomeError,
} from '@idempay/client';
import { type Order, referenceOf } from '../shop/orders.ts';
import type { Return } from './returns.ts';

/** A shopkeeper waits for this long, and is then told that it is not known yet. */
const DEADLINE_MS = 15_000;

export type RefundStanding = Pick<Return, 'state' | 'text'>;

/** For a click, its repeats, a crash and the look: the line is given back once, because the order and the number of the line name it. */
export async function giveBack(
  idempay: Idempay,
  order: Pick<Order, 'id' | 'lines'>,
  line: number,
  deadlineMs = DEADLINE_MS,
): Promise<RefundStanding> {
  const price = order.lines[line - 1]?.price;
  if (!price) throw new RangeError(`The order ${order.id} has no line ${line}.`);
  const { amount, currency } = price;
  try {
    const refund = { reference: referenceOf(order), name: `line-${line}`, amount, currency, reason: 'returned' };
    const result = await idempay.payments.refund(refund, { deadlineMs });
    if (result.state === 'pending') return underWay('The bank takes its time.');
    return { state: 'given back', text: `Given back: ${result.transactionId}` };
  } catch (error) {
    if (error instanceof DeclinedError) return { state: 'declined', text: `Declined: ${error.reason}` };
    // The same again: whatever happened, the line is given back once.
    if (error instanceof UnknownOutcomeError || error instanceof UnavailableError) return underWay('Not known yet.');
    // Nothing was given back, and the sentence says why.
    const refusals = [NotRefundedError, NotFoundError, MismatchError];
    if (refusals.some((type) => error instanceof type)) return { state: 'refused', text: (error as Error).message };
    // Such as a key without the scope refunds:write. It may be the answer to a repeat, so it is no outcome.
    if (error instanceof IdempayError) return underWay(error.message);
    throw error;
  }
}

/** Never "failed": the shopkeeper would give the money back in another way, and so twice. */
const underWay = (why: string): RefundStanding => ({
  state: 'under way',
  text: `${why} The shop asks again by itself: the money is given back only once.`,
});
