import { CHECK_ORDER } from '#idempay/statements/ids.js';
import { isStillAtWork, readsContent } from '../../payments/processors/messages.js';
import { broken, faultOfOutcome, type Judgement, kept, said, skipped, UNKNOWN_FOR_HOURS } from './judgement.js';
import { faultOfRepeat } from './outcomes.js';
import type { Answer, CheckedContent, Probe } from './probe.js';

const CONTENT: CheckedContent = {
  order: CHECK_ORDER,
  description: 'Check of the contract \u2013 \u00e9, \u{1f45f}',
  metadata: { check: 'content', 'first name': '' },
};
const OTHER_CONTENT: CheckedContent = { ...CONTENT, description: 'Other content', metadata: { check: 'other' } };

export interface ContentResult {
  readonly judgement: Judgement;
  /** True if the reply to the charge said that the adapter reads content. Undefined if the charge has no outcome. */
  readonly isRead?: boolean;
}

/** A charge with content, and then other content under its reference, which Idempay never sends: it must not charge again. */
export async function content(probe: Probe): Promise<ContentResult> {
  const payment = probe.newPayment('content', probe.settings.source, CONTENT);
  const first = await probe.charge(payment);
  const fault = faultOfFirst(first, await probe.outcomeOf(payment));
  if (fault) return { judgement: fault };
  const other = await probe.charge(payment, { content: OTHER_CONTENT });
  const judgement =
    faultOfOther(other) ??
    faultOfOutcome('The look-up after other content', await probe.outcomeOf(payment)) ??
    (await faultOfRepeat(probe, payment)) ??
    kept(
      `A charge with an order, a description and metadata is charged, and other content under its reference ${
        other.result.state === 'succeeded' ? 'gets the first outcome' : `is not charged (${other.reply.status})`
      }.`,
    );
  return { judgement, isRead: readsContent(first.reply) };
}

/** An adapter of the first contract keeps its contract, so this is a note, unless payments with a source are to be made through it. */
export function contentIsRead(isRead: boolean | undefined, source: string | undefined): Judgement {
  if (isRead === undefined) return skipped('Not checked: the charge with content has no outcome.');
  if (isRead) return kept('The adapter says that it reads content (Idempay-Contract: 2).');
  const found = 'The adapter does not say that it reads content: its replies have no Idempay-Contract: 2.';
  return source === undefined
    ? skipped(`${found} Then who pays (source), order, description and metadata do not arrive at the processor.`)
    : broken(
        `${found} The payer's token (--source) would not arrive at the processor, so another means of payment would be charged, or none.`,
      );
}

function faultOfFirst(answer: Answer, later: Answer): Judgement | undefined {
  const isCharged = answer.result.state === 'succeeded' || isStillAtWork(answer.reply);
  if (isCharged) return faultOfOutcome('The look-up after a charge with content', later);
  const cost =
    answer.result.state === 'declined'
      ? 'The payer would be told no because of what the payment is about.'
      : `A payment that says what it is about is not charged, and ${UNKNOWN_FOR_HOURS}.`;
  return broken(
    `A charge with an order, a description and metadata did not succeed, although one without them did: ${said(answer)}. ${cost} Pass over members that you do not read.`,
  );
}

function faultOfOther(answer: Answer): Judgement | undefined {
  const { result, reply, contradiction } = answer;
  const what = 'Other content under a reference that was charged';
  if (contradiction !== undefined) {
    return broken(
      `${what} was charged again: ${contradiction}. The reference alone decides whether a charge is new; with anything else a payer may be charged twice.`,
    );
  }
  if (result.state === 'declined') {
    return broken(`${what} was declined (${result.reason}). The payer has paid, and would be told no.`);
  }
  const isRefused = reply.complete && reply.status >= 400 && reply.status <= 499;
  if (result.state === 'succeeded' || isRefused || isStillAtWork(reply)) return undefined;
  return broken(`${what} is not clear: ${said(answer)}. Answer with the first outcome, or with 422.`);
}
