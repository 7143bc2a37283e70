import { headerIn, type Outcome, stringIn } from './call.js';
import type { PaymentName } from './steps.js';

/** The two sentences of the service for a completed payment. A gateway may answer 200 too. */
const PAID = /^(?:Payment processed successfully with )?Transaction ID: TXN\d+$/;

export const NOTE_OF_KEY =
  'The client must store this key before it pays: only with the same key it can send the same payment again after a crash. An unpaid key expires.';

/** Says in words what a client must do after this answer to a payment, as the table in `docs/reference/api.md` does. */
export function noteOfPayment(outcome: Outcome, name: PaymentName): string {
  const isOrder = 'reference' in name;
  if (isPaid(outcome)) {
    if (isReplay(outcome)) {
      return 'Nothing was charged now: this is the stored result. A client that got no clear answer does the same, and sends this request again.';
    }
    return `${isOrder ? 'The order' : 'The payment'} is charged, and the client is done. Send the same again: the answer is the stored result.`;
  }
  if (!isClear(outcome)) {
    return `The outcome is not known yet. The client must send the same request again${afterOf(outcome)}, until an answer is clear. All of them together charge once.`;
  }
  switch (outcome.status) {
    case 402:
      return `The payment was declined, and a repeat says so again. If the payer wants to try again, the client ${anotherTry(name)}.`;
    case 410:
      return 'The payment was cancelled, so no charge is sent for it. A repeat says so again.';
    case 422:
      return `Nothing was charged now, because this ${isOrder ? 'order has a payment of another amount or a later attempt, or it is not the turn of this attempt' : 'key belongs to a payment of another content'}. The client asks what was paid, and takes no other ${isOrder ? 'reference' : 'key'} for the same purchase.`;
    default:
      return isOrder
        ? 'The request was refused, and nothing was begun for it. The client must correct it.'
        : 'The request was refused, and nothing was begun for it. The client must correct it, and keep the key. If the key has expired, the client first looks up whether it was paid.';
  }
}

/** Says in words what a client must do after this answer to a question for the status. */
export function noteOfStatus(outcome: Outcome, name: PaymentName): string {
  if (isPaid(outcome)) return 'The payment is completed, and this is its transaction id. A question charges nothing.';
  if (!isClear(outcome))
    return `This is no clear answer. The client asks again${afterOf(outcome)}. A question charges nothing.`;
  if (outcome.status !== 404) return 'The question was refused. The client must correct it.';
  return `No payment ${
    'reference' in name ? 'of this order' : 'with this key'
  } is completed, but one may be under way. The client that wants it paid sends the payment again, which never charges twice.`;
}

/** Says what happened to two payments at once. The second one may come too late to get 409, and then the note says so. */
export function noteOfTwo(outcomes: readonly Outcome[], duplicateWaits: boolean, slowDown: string): string {
  if (!outcomes.some(isPaid)) {
    return 'Neither answer names a transaction, so it is not known here whether the order was paid. Send the same request again.';
  }
  if (outcomes.some((outcome) => !('problem' in outcome) && outcome.status === 409 && outcome.isOwn)) {
    return 'One request pays; the other one is told 409, because the payment is under way. Its client must send the same again, and then gets the stored result.';
  }
  if (outcomes.every(isPaid)) {
    const replayed = outcomes.filter(isReplay).length;
    const both = `Both were answered 200, and one payment was made: ${replayed === 1 ? 'one answer is a replay' : 'both answers name the same transaction'}.`;
    if (duplicateWaits) return `${both} The duplicate may wait, so it is not told 409.`;
    return `${both} No 409 this time: the payment had ended before the second request was looked at. ${slowDown}`;
  }
  return 'One request was answered with the transaction. The client of the other one must send the same again.';
}

function anotherTry(name: PaymentName): string {
  if ('key' in name) return 'pays with a new key';
  return `sends the next attempt (attempt=${Number(name.attempt ?? 1) + 1})`;
}

const isPaid = (outcome: Outcome) =>
  !('problem' in outcome) && outcome.status === 200 && PAID.test(stringIn(outcome) ?? '');

const isReplay = (outcome: Outcome) => headerIn(outcome, 'idempotent-replayed') !== undefined;

/** The refusal is final for its request: the service itself gave it, and not only because of this moment. */
function isClear(outcome: Outcome): outcome is Exclude<Outcome, { problem: string }> {
  if ('problem' in outcome || !outcome.isOwn) return false;
  const { status } = outcome;
  return status >= 400 && status < 500 && ![408, 409, 429].includes(status);
}

function afterOf(outcome: Outcome): string {
  const seconds = headerIn(outcome, 'retry-after');
  return seconds === undefined ? '' : ` after ${seconds} ${seconds === '1' ? 'second' : 'seconds'}`;
}
