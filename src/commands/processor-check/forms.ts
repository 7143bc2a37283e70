import type { Question } from '../../payments/processors/exchange.js';
import { chargeQuestion, chargeResultOf } from '../../payments/processors/messages.js';
import { broken, type Judgement, kept, skipped, UNKNOWN_FOR_HOURS } from './judgement.js';
import type { CheckedPayment, Probe } from './probe.js';
import { formProblemOf, hasErrorBody, saysNoMoney } from './replies.js';

/** Questions that the service sends, too. */
const OF_CONTRACT: readonly string[] = ['a charge', 'a look-up'];

interface WrongCharge {
  readonly what: string;
  readonly questionFor: (payment: CheckedPayment) => Question;
}

const rightCharge = ({ reference, transactionId, amount, currency }: CheckedPayment) =>
  chargeQuestion(reference, { transactionId, amount, currency });

/** Charges that must be refused: a client of the contract sends none of them. */
const WRONG_CHARGES: readonly WrongCharge[] = [
  {
    what: 'A charge without a reference',
    questionFor: (payment) => ({ ...rightCharge(payment), headers: { 'content-type': 'application/json' } }),
  },
  {
    what: 'A charge without an amount',
    questionFor: ({ reference, transactionId, currency }) => chargeQuestion(reference, { transactionId, currency }),
  },
  { what: 'A charge that is no JSON', questionFor: (payment) => ({ ...rightCharge(payment), body: '{"amount":' }) },
  {
    what: 'A charge that is text',
    questionFor: (payment) => {
      const right = rightCharge(payment);
      return { ...right, headers: { ...right.headers, 'content-type': 'text/plain' }, body: 'no charge' };
    },
  },
];

export async function wrongRequests(probe: Probe): Promise<Judgement> {
  for (const { what, questionFor } of WRONG_CHARGES) {
    const payment = probe.newPayment('wrong requests');
    const reply = await probe.ask(what, questionFor(payment));
    const { state } = chargeResultOf(reply, undefined);
    if (state === 'succeeded') {
      await probe.announced(payment);
      payment.state = 'charged';
      return broken(
        `${what} was answered as succeeded. Nobody can look such a charge up, and each repeat is charged again.`,
      );
    }
    if (state === 'declined') return broken(`${what} was declined. A payer would be told no because of a fault.`);
    const { status } = reply;
    if (status === undefined) {
      return broken(`${what} got no whole reply. A fault would look like an outage, and ${UNKNOWN_FOR_HOURS}.`);
    }
    if (status < 400 || status > 499) {
      return broken(`${what} was answered with ${status}, not 4xx. Nobody is alarmed, and ${UNKNOWN_FOR_HOURS}.`);
    }
    if (!hasErrorBody(reply)) {
      return broken(`${what} was refused with ${status}, without a JSON body that says what is wrong.`);
    }
  }
  return kept('Wrong requests are refused with 4xx and a body that says what is wrong.');
}

/** A note: the contract allows an adapter to name the reference in no reply. One that leaves it out of its 404 alone was found before. */
export function references({ namings }: Probe): Judgement {
  const nameless = [...namings].flatMap(([kind, isNamed]) => (isNamed ? [] : [kind]));
  if (namings.size === 0) return skipped('Not checked: no reply came whole.');
  if (nameless.length === 0) return kept('Every reply names the reference that it is about.');
  return skipped(
    `These replies do not name the reference that they are about: ${nameless.join(', ')}. Then a late copy of another reply, or the page of a gateway, can be taken for their outcome. Answer with the member reference.`,
  );
}

/** Checks the form of every reply that came: the service reads only JSON in UTF-8, and a gateway's page is something else. */
export async function mediaTypes(probe: Probe): Promise<Judgement> {
  for (const { asked, reply } of probe.replies) {
    const problem = formProblemOf(reply);
    if (problem === undefined) continue;
    return broken(
      `The reply to ${asked.replace(/^A/, 'a')} (${reply.status}) is not application/json in UTF-8: ${problem}. What cannot be read leaves a payment unknown, and cannot be told from the page of a gateway.`,
    );
  }
  if (!probe.replies.some(({ reply }) => reply.complete)) return skipped('Not checked: no reply came whole.');
  const replies = probe.replies.filter(({ asked, reply }) => reply.complete && OF_CONTRACT.includes(asked));
  const withoutMoney = replies.filter(({ reply }) => saysNoMoney(reply)).length;
  if (withoutMoney > 0 && withoutMoney < replies.length) {
    return broken(
      'Some replies have Moves-Money: no, and some have not. The last reply counts, so the console would offer to try payments that move money, or would not.',
    );
  }
  return kept(`Every reply is JSON in UTF-8${withoutMoney > 0 ? ', and says that no money moves' : ''}.`);
}
