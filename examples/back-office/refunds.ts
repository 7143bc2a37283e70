import {
  DeclinedError,
  type Idempay,
  IdempayError,
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

/**
 * For a click, its repeats, a crash and the look: the line is given back once, because the order and the number of the line name it.
 * `mayBeRepeat`: an earlier request may have given the line back, and a refusal says nothing of that, because its row may be lost.
 */
export async function giveBack(
  idempay: Idempay,
  order: Pick<Order, 'id' | 'lines'>,
  line: number,
  { mayBeRepeat = false, deadlineMs = DEADLINE_MS } = {},
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
    return standingAfter(error, mayBeRepeat);
  }
}

function standingAfter(error: unknown, mayBeRepeat: boolean): RefundStanding {
  if (error instanceof DeclinedError) return { state: 'declined', text: `Declined: ${error.reason}` };
  // The same again: whatever happened, the line is given back once.
  if (error instanceof UnknownOutcomeError || error instanceof UnavailableError) return underWay('Not known yet.');
  if (error instanceof NotRefundedError || error instanceof NotFoundError) {
    // Nothing was given back, and the sentence says why.
    if (!mayBeRepeat) return { state: 'refused', text: error.message };
    return underWay(`It may have been given back: look for the refund at the processor first. ${error.message}`);
  }
  // Such as a key without the scope refunds:write. It may be the answer to a repeat, so it is no outcome.
  if (error instanceof IdempayError) return underWay(error.message);
  throw error;
}

/** Never "failed": the shopkeeper would give the money back in another way, and so twice. */
const underWay = (why: string): RefundStanding => ({
  state: 'under way',
  text: `${why} The shop asks again by itself: the money is given back only once.`,
});
