import { isStillAtWork } from '../../payments/processors/messages.js';
import { broken, faultOfOutcome, type Judgement, kept, nameless, said, UNKNOWN_FOR_HOURS } from './judgement.js';
import { type Answer, type CheckedPayment, isNameless, type Probe } from './probe.js';

/** Cannot be reached: no byte of the first question has left. */
export class UnreachableProcessorError extends Error {
  override readonly name = 'UnreachableProcessorError';
}

/** The first charge: what is asked about afterwards. */
export interface First {
  readonly payment: CheckedPayment;
}

const NEVER_CAME = 'The look-up of a reference that never came';

/** Ends the run if a charge would be made for nothing. Throws UnreachableProcessorError. */
export async function lookUpBefore(probe: Probe, neverSent: CheckedPayment): Promise<Judgement> {
  const answer = await probe.outcomeOf(neverSent);
  const { result, reply } = answer;
  if (!reply.complete && !reply.sent)
    throw new UnreachableProcessorError(
      `The processor cannot be reached, and nothing was charged: ${reply.cause}. Is it running, and is the URL right?`,
    );
  if (result.state === 'unknown' && !isStillAtWork(reply)) {
    return {
      ...broken(`${NEVER_CAME} is not clear: ${said(answer)}. After a lost reply ${UNKNOWN_FOR_HOURS}.`),
      isEnd: true,
    };
  }
  return ofUnknownReference(answer);
}

/** The same reference once more, now that others were charged. */
export async function unknownReference(probe: Probe, neverSent: CheckedPayment): Promise<Judgement> {
  return ofUnknownReference(await probe.outcomeOf(neverSent));
}

function ofUnknownReference(answer: Answer): Judgement {
  switch (answer.result.state) {
    case 'no record':
      return kept('A reference that never came has no record.');
    case 'succeeded':
    case 'declined':
      return broken(
        `${NEVER_CAME} says ${said(answer)}. A payment whose charge never arrived would be recorded with the outcome of another one: goods would leave unpaid.`,
      );
    default:
      return broken(
        `${NEVER_CAME} is not clear, also after the deadline: ${said(answer)}. A charge that was lost on its way is not sent again then: ${UNKNOWN_FOR_HOURS}.`,
      );
  }
}

/** Ends the run if it does not succeed: everything else would be charged for nothing. */
export async function firstCharge(probe: Probe, { payment }: First): Promise<Judgement> {
  const answer = await probe.charge(payment);
  if (answer.contradiction !== undefined) {
    return broken(`The reply names another charge than the one that was asked for: ${answer.contradiction}.`);
  }
  if (answer.result.state === 'succeeded') return kept(`Charged in ${Math.ceil(probe.chargeMs)} ms.`);
  if (answer.result.state === 'declined') {
    const reason = `The first charge was declined (${answer.result.reason}), so nothing more can be checked. Give a --source, or an --amount and --currency, that the processor charges.`;
    return { verdict: 'skipped', sentence: reason, isEnd: true };
  }
  const later = await probe.outcomeOf(payment);
  if (isStillAtWork(answer.reply) && later.result.state === 'succeeded') {
    return kept('Charged; the reply said that it was at work, and a look-up had the outcome.');
  }
  return { ...broken(unclearCharge(answer, later)), isEnd: true };
}

function unclearCharge(answer: Answer, later: Answer): string {
  const found = `The charge is not clear: ${said(answer)}.`;
  switch (later.result.state) {
    case 'succeeded':
      return `${found} The look-up says that it succeeded, so each payer would be told to try again although the money has moved.`;
    case 'declined':
      return `${found} The look-up says ${said(later)}, so each payer whose charge is declined would be told to try again.`;
    case 'no record':
      return `${found} The look-up has no record of it, so Idempay would send it again. If money has moved, the payer is charged twice, and nobody can find the first charge: look for it at the processor.`;
    default:
      return `${found} The look-up is not clear either: ${said(later)}. Look at the processor whether money has moved; ${UNKNOWN_FOR_HOURS}.`;
  }
}

export async function lookUpAfter(probe: Probe, { payment }: First): Promise<Judgement> {
  const answer = await probe.outcomeOf(payment);
  const fault = faultOfOutcome('The look-up after the charge', answer);
  if (fault) return fault;
  const { result } = answer;
  return result.state === 'succeeded' && !('charged' in result && result.charged)
    ? kept(
        'The look-up has the outcome of the charge, without amount and currency: after a failover or a restore that loses rows, each such payment waits for an operator.',
      )
    : kept('The look-up has the outcome of the charge.');
}

export async function repeat(probe: Probe, { payment }: First): Promise<Judgement> {
  const fault = await faultOfRepeat(probe, payment);
  if (fault) return fault;
  return isNameless(payment)
    ? nameless('The charge and its repeat succeeded')
    : kept('A repeat got the outcome of the first charge.');
}

/** Sends a charge again that has succeeded. Undefined if the answer was the same as before. */
export async function faultOfRepeat(probe: Probe, payment: CheckedPayment): Promise<Judgement | undefined> {
  const answer = await probe.charge(payment);
  const { result, contradiction } = answer;
  if (contradiction !== undefined) {
    return broken(
      `A repeat with the same reference names another charge: ${contradiction}. Either the payer is charged twice, or nobody finds the charge by what a reply says.`,
    );
  }
  if (result.state === 'succeeded') return undefined;
  if (result.state === 'declined') {
    return broken(
      `A repeat of a charge that succeeded is declined (${result.reason}). The payer has paid, and would be told no.`,
    );
  }
  return broken(
    `A repeat of a charge that succeeded did not get its outcome: ${said(answer)}. After a lost reply a payment depends on the look-up alone.`,
  );
}

/** Idempay never sends this. It shows whether the processor knows what it charged under a reference. */
export async function anotherAmount(probe: Probe, { payment }: First, amount: string): Promise<Judgement> {
  const { currency } = payment;
  const answer = await probe.charge(payment, { amount });
  const { result, reply } = answer;
  const asked = `${amount} ${currency} under a reference that was charged ${payment.amount} ${currency}`;
  if (result.state === 'succeeded') {
    return broken(
      `${asked} was answered as succeeded. Either it was charged again, so that a repeat is charged twice, or the amount was ignored, and a payment could be recorded with an amount that nobody paid. Look for the reference at the processor.`,
    );
  }
  if (result.state === 'declined') {
    return broken(`${asked} was declined (${result.reason}). The payer has paid, and would be told no. Answer 422.`);
  }
  const refused = reply.complete && reply.status >= 400 && reply.status <= 499;
  if (!refused) {
    return broken(
      `${asked} was not refused: ${said(answer)}. Nobody is alarmed, and ${UNKNOWN_FOR_HOURS}. Answer 422.`,
    );
  }
  const later = await probe.outcomeOf(payment);
  return (
    faultOfOutcome('The look-up after another amount', later) ??
    kept(`Another amount was refused with ${reply.status}, and the first charge is as it was.`)
  );
}
