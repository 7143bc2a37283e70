import { CHECK_ORDER } from '#idempay/statements/ids.js';
import { CONTRACT_OF_ENDINGS } from '../../payments/ports/processor.js';
import type { Question } from '../../payments/processors/exchange.js';
import { chargeQuestion, chargeResultOf, isStillAtWork, readsContent } from '../../payments/processors/messages.js';
import { OPEN_CHARGES } from './open-charges.js';
import { type Answer, AT_ONCE, type CheckedContent, type CheckedPayment, isNameless, type LostReply } from './probe.js';
import { REFUNDS } from './refunds.js';
import { formProblemOf, hasErrorBody, saysNoMoney } from './replies.js';
import {
  broken,
  type Cost,
  ending,
  type Heard,
  type Judgement,
  kept,
  type Row,
  type Run,
  type Step,
  said,
  skipped,
  takeSteps,
} from './run-checks.js';

/**
 * The contract of docs/reference/processor.md: each check with what is sent, which answers are expected, and what every other answer would
 * cost. The messages and steps that several checks share follow below the table.
 */
export const CONTRACT: readonly Row[] = [
  {
    check: 'look-up before a charge',
    about: ({ neverSent }) => neverSent,
    steps: [
      {
        ...unknownReference(),
        sends: firstLookUp,
        // Ends the run, because a charge would be made for nothing.
        faults: {
          unclear: (answer) =>
            ending(broken(`${NEVER_CAME} is not clear: ${said(answer)}. After a lost reply ${UNKNOWN_FOR_HOURS}.`)),
          ...unknownReference().faults,
        },
      },
    ],
    kept: 'A reference that never came has no record.',
  },
  { check: 'charge', judge: firstCharge },
  {
    check: 'look-up after a charge',
    about: ({ first }) => first,
    steps: [outcome('The look-up after the charge')],
    kept: ({ first: { result } }) =>
      'charged' in result && result.charged
        ? 'The look-up has the outcome of the charge.'
        : 'The look-up has the outcome of the charge, without amount and currency: after a failover or a restore that loses rows, each such payment waits for an operator.',
  },
  {
    check: 'repeat',
    about: ({ first }) => first,
    steps: [repeat()],
    kept: ({ payment }) =>
      isNameless(payment)
        ? nameless('The charge and its repeat succeeded')
        : 'A repeat got the outcome of the first charge.',
  },
  {
    // The same reference once more, now that others were charged.
    check: 'unknown reference',
    about: ({ neverSent }) => neverSent,
    steps: [unknownReference()],
    kept: 'A reference that never came has no record.',
  },
  {
    // Idempay sends this only after rows were lost. It shows whether the processor knows what it charged under a reference.
    check: 'another amount',
    about: ({ first }) => first,
    steps: [
      {
        sends: ({ run, payment }) => run.probe.charge(payment, { amount: run.otherAmount }),
        expects: ['refused'],
        faults: {
          succeeded: (_, heard) =>
            `${otherAmountOf(heard)} was answered as succeeded. Either it was charged again, so that a repeat is charged twice, or the amount was ignored, and a payment could be recorded with an amount that nobody paid. Look for the reference at the processor.`,
          declined: (answer, heard) =>
            `${otherAmountOf(heard)} was ${said(answer)}. The payer has paid, and would be told no. Answer 422.`,
        },
        otherwise: (answer, heard) =>
          `${otherAmountOf(heard)} was not refused: ${said(answer)}. A payment that is answered so would stay unknown for hours, and then wait for an operator. Answer 422.`,
      },
      outcome('The look-up after another amount'),
    ],
    kept: ({ first }) => `Another amount was refused with ${first.reply.status}, and the first charge is as it was.`,
  },
  {
    // A charge with content, and then other content under its reference, which Idempay never sends: it must not charge again.
    check: 'content',
    about: ({ probe }) => probe.newPayment('content', probe.settings.source, CONTENT),
    steps: [
      // The charge is judged together with its look-up.
      { sends: charge },
      {
        ...outcome('The look-up after a charge with content'),
        faults: {
          'not charged at first': (_, { first }) =>
            `A charge with an order, a description and metadata did not succeed, although one without them did: ${said(first)}. ${
              first.result.state === 'declined'
                ? 'The payer would be told no because of what the payment is about.'
                : `A payment that says what it is about is not charged, and ${UNKNOWN_FOR_HOURS}.`
            } Pass over members that you do not read.`,
          ...outcome('The look-up after a charge with content').faults,
        },
      },
      {
        sends: ({ run, payment, first }) => {
          run.isContentRead = readsContent(first.reply);
          return run.probe.charge(payment, { content: OTHER_CONTENT });
        },
        expects: ['succeeded', 'refused', 'at work'],
        faults: {
          'another charge': ({ contradiction }) =>
            `${OTHER_CONTENT_SENT} was charged again: ${contradiction}. The reference alone decides whether a charge is new; with anything else a payer may be charged twice.`,
          declined: (answer) => `${OTHER_CONTENT_SENT} was ${said(answer)}. The payer has paid, and would be told no.`,
        },
        otherwise: (answer) =>
          `${OTHER_CONTENT_SENT} is not clear: ${said(answer)}. Answer with the first outcome, or with 422.`,
      },
      outcome('The look-up after other content'),
      repeat(),
    ],
    kept: ({ answers: [, , other] }) =>
      `A charge with an order, a description and metadata is charged, and other content under its reference ${
        other && other.result.state !== 'succeeded'
          ? `is not charged (${other.reply.status})`
          : 'gets the first outcome'
      }.`,
  },
  { check: 'content is read', judge: contentIsRead },
  {
    // One of them charges, the others get its outcome or 409.
    check: 'twenty at once',
    about: ({ probe }) => probe.newPayment('twenty at once'),
    steps: [
      {
        sends: ({ run, payment }) => Promise.all(Array.from({ length: AT_ONCE }, () => run.probe.charge(payment))),
        faults: {
          'another charge': ({ contradiction }) =>
            `${ALL_AT_ONCE}, two name different charges: ${contradiction}. ${OVERLAP}`,
          declined: (answer) =>
            `${ALL_AT_ONCE}, one was ${said(answer)}. A decline is final, and the payer may have paid.`,
          'refused for good': (answer) =>
            `${ALL_AT_ONCE}, one was refused: ${said(answer)}. An operator would be alarmed where two attempts overlap. Answer 409.`,
        },
      },
      outcome(`The look-up after ${AT_ONCE} charges at once`),
      repeat(),
    ],
    kept: ({ payment, answers }) => {
      const count = answers.slice(0, AT_ONCE).filter(({ result }) => result.state === 'succeeded').length;
      return isNameless(payment)
        ? nameless(`${count === AT_ONCE ? 'All' : count} of ${AT_ONCE} charges at once succeeded`)
        : `${count} of ${AT_ONCE} charges at once got the outcome, none got another one, and a look-up has it.`;
    },
  },
  {
    // Shows a second charge of the other amount also if replies do not name their charges.
    check: 'two amounts at once',
    skips: ({ verdicts }) =>
      verdicts.get('another amount') === 'kept'
        ? undefined
        : 'Not checked: it needs a processor that refuses another amount.',
    about: ({ probe }) => probe.newPayment('two amounts at once'),
    steps: [
      {
        sends: ({ run, payment }) =>
          Promise.all(
            Array.from({ length: AT_ONCE }, (_, index) =>
              run.probe.charge(payment, { amount: index < AT_ONCE / 2 ? payment.amount : run.otherAmount }),
            ),
          ),
        faults: {
          'both amounts': (_, { run, payment }) =>
            `${payment.amount} and ${run.otherAmount} ${payment.currency} at once with one reference were both answered as succeeded: both were charged. ${OVERLAP}`,
          'another charge': ({ contradiction }) =>
            `Of two amounts at once with one reference, one was charged twice: ${contradiction}. ${OVERLAP}`,
        },
      },
      outcome('The look-up after two amounts at once'),
    ],
    kept: ({ payment }) =>
      isNameless(payment)
        ? nameless('Of two amounts at once with one reference only one succeeded')
        : 'Of two amounts at once with one reference one was charged.',
  },
  { check: 'cut connection', judge: cutConnection },
  { check: 'time limit', judge: timeLimit },
  {
    check: 'decline',
    skips: ({ probe }) =>
      probe.settings.decliningSource === undefined
        ? 'Not checked: give a --declining-source that the processor declines.'
        : undefined,
    about: ({ probe }) => probe.newPayment('decline', probe.settings.decliningSource),
    steps: [
      {
        sends: charge,
        expects: ['declined'],
        faults: {
          succeeded: () =>
            'The charge with the declining source was answered as succeeded. Either the source is not passed on, and another payer is charged, or a decline is taken for a success, and goods leave unpaid.',
        },
        otherwise: (answer) =>
          `The charge with the declining source was not declined: ${said(answer)}. The payer would be told to try again, and ${UNKNOWN_FOR_HOURS}.`,
      },
      {
        sends: charge,
        expects: ['declined'],
        otherwise: (answer) =>
          `A repeat of a declined charge got another answer: ${said(answer)}. A decline is final: the payer was told no, and may be charged afterwards.`,
      },
      {
        sends: lookUp,
        expects: ['declined', 'no record'],
        otherwise: (answer) =>
          `The look-up of a declined charge does not say so: ${said(answer)}. After a lost reply ${
            answer.result.state === 'succeeded' ? 'the decline would be taken for a success' : UNKNOWN_FOR_HOURS
          }.`,
      },
    ],
    kept: ({ first }) => `${said(first).replace(/^d/, 'D')}; a repeat and the look-up agree.`,
  },
  ...OPEN_CHARGES,
  ...REFUNDS,
  { check: 'wrong requests', judge: wrongRequests },
  { check: 'reference in replies', judge: references, isAlwaysRun: true },
  { check: 'contract in replies', judge: contracts, isAlwaysRun: true },
  { check: 'media types', judge: mediaTypes, isAlwaysRun: true },
];

// Messages of several checks.

function charge({ run, payment }: Heard): Promise<Answer> {
  return run.probe.charge(payment);
}

/** Asks until the charge is no longer at work, or the deadline is over. */
function lookUp({ run, payment }: Heard): Promise<Answer> {
  return run.probe.outcomeOf(payment);
}

/** The first message of a run. */
async function firstLookUp(heard: Heard): Promise<Answer> {
  const answer = await lookUp(heard);
  const { reply } = answer;
  if (reply.complete || reply.sent) return answer;
  throw new UnreachableProcessorError(
    `The processor cannot be reached, and nothing was charged: ${reply.cause}. Is it running, and is the URL right?`,
  );
}

/** Cannot be reached: no byte of the first question has left. */
export class UnreachableProcessorError extends Error {
  override readonly name = 'UnreachableProcessorError';
}

// Steps of several checks.

/** A charge that was finished must have succeeded once. */
function outcome(what: string) {
  return {
    sends: lookUp,
    expects: ['succeeded'],
    faults: {
      'another charge': ({ contradiction }) =>
        `${what} names another charge: ${contradiction}. The payer may be charged twice.`,
      'no record': () =>
        `${what} says that there is no record of a charge that was made. Idempay would send it again: where the processor does not remember it either, the payer is charged twice.`,
      declined: (answer) =>
        `${what} says ${said(answer)}, of a charge that succeeded. The payer has paid, and would be told no.`,
    },
    otherwise: (answer) => `${what} is not clear: ${said(answer)}. After a lost reply ${UNKNOWN_FOR_HOURS}.`,
  } satisfies Step;
}

/** A charge that has succeeded is sent again, and must be answered as it was before. */
function repeat(): Step {
  return {
    sends: charge,
    expects: ['succeeded'],
    faults: {
      'another charge': ({ contradiction }) =>
        `A repeat with the same reference names another charge: ${contradiction}. Either the payer is charged twice, or nobody finds the charge by what a reply says.`,
      declined: (answer) =>
        `A repeat of a charge that succeeded is ${said(answer)}. The payer has paid, and would be told no.`,
    },
    otherwise: (answer) =>
      `A repeat of a charge that succeeded did not get its outcome: ${said(answer)}. After a lost reply a payment depends on the look-up alone.`,
  };
}

function unknownReference() {
  const wrongOutcome: Cost = (answer) =>
    `${NEVER_CAME} says ${said(answer)}. A payment whose charge never arrived would be recorded with the outcome of another one: goods would leave unpaid.`;
  return {
    sends: lookUp,
    expects: ['no record'],
    faults: { succeeded: wrongOutcome, declined: wrongOutcome },
    otherwise: (answer) =>
      `${NEVER_CAME} is not clear, also after the deadline: ${said(answer)}. A charge that was lost on its way is not sent again then: ${UNKNOWN_FOR_HOURS}.`,
  } satisfies Step;
}

// Content, and parts of sentences.

const CONTENT: CheckedContent = {
  order: CHECK_ORDER,
  description: 'Check of the contract \u2013 \u00e9, \u{1f45f}',
  metadata: { check: 'content', 'first name': '' },
};
const OTHER_CONTENT: CheckedContent = { ...CONTENT, description: 'Other content', metadata: { check: 'other' } };

const NEVER_CAME = 'The look-up of a reference that never came';
const OTHER_CONTENT_SENT = 'Other content under a reference that was charged';
const ALL_AT_ONCE = `Of ${AT_ONCE} charges at once with one reference`;
/** After a time limit the service sends a reference again, and the first charge may still be on its way. */
const OVERLAP = 'Where a repeat overlaps with a charge that is late, the payer is charged twice.';
const UNKNOWN_FOR_HOURS = 'such a payment would stay unknown for hours, and then wait for an operator';

function otherAmountOf({ run, payment: { amount, currency } }: Heard): string {
  return `${run.otherAmount} ${currency} under a reference that was charged ${amount} ${currency}`;
}

/** Skips a check whose replies would be the same if the reference had been charged several times. */
function nameless(found: string): Judgement {
  return skipped(
    `${found}; the replies name no charge, so several charges cannot be told from one: look at the processor.`,
  );
}

// Rows that are a function.

/** Ends the run if it does not succeed: everything else would be charged for nothing. */
async function firstCharge({ probe, first }: Run): Promise<Judgement> {
  const answer = await probe.charge(first);
  if (answer.contradiction !== undefined) {
    return broken(`The reply names another charge than the one that was asked for: ${answer.contradiction}.`);
  }
  if (answer.result.state === 'succeeded') return kept(`Charged in ${Math.ceil(probe.chargeMs)} ms.`);
  if (answer.result.state === 'declined') {
    return ending(
      skipped(
        `The first charge was ${said(answer)}, so nothing more can be checked. Give a --source, or an --amount and --currency, that the processor charges.`,
      ),
    );
  }
  const later = await probe.outcomeOf(first);
  if (isStillAtWork(answer.reply) && later.result.state === 'succeeded') {
    return kept('Charged; the reply said that it was at work, and a look-up had the outcome.');
  }
  return ending(broken(`The charge is not clear: ${said(answer)}. ${costOfUnclearCharge(later)}`));
}

function costOfUnclearCharge(later: Answer): string {
  switch (later.result.state) {
    case 'succeeded':
      return 'The look-up says that it succeeded, so each payer would be told to try again although the money has moved.';
    case 'declined':
      return `The look-up says ${said(later)}, so each payer whose charge is declined would be told to try again.`;
    case 'no record':
      return 'The look-up has no record of it, so Idempay would send it again. If money has moved, the payer is charged twice, and nobody can find the first charge: look for it at the processor.';
    default:
      return `The look-up is not clear either: ${said(later)}. Look at the processor whether money has moved; ${UNKNOWN_FOR_HOURS}.`;
  }
}

/** An adapter of the first contract keeps its contract, so this is a note, unless payments with a source are to be made through it. */
function contentIsRead({ probe, isContentRead }: Run): Judgement {
  if (isContentRead === undefined) return skipped('Not checked: the charge with content has no outcome.');
  if (isContentRead) return kept('The adapter says that it reads content (Idempay-Contract: 2 or more).');
  const found = 'The adapter does not say that it reads content: its replies have no Idempay-Contract: 2.';
  return probe.settings.source === undefined
    ? skipped(`${found} Then who pays (source), order, description and metadata do not arrive at the processor.`)
    : broken(
        `${found} The payer's token (--source) would not arrive at the processor, so another means of payment would be charged, or none.`,
      );
}

/**
 * An adapter that was cut off before it had read the charge has begun nothing, and rightly has no record; on a busy machine that happens.
 * The contract counts as broken only when this number of references in a row have none.
 */
const CUTS = 3;

async function cutConnection(run: Run): Promise<Judgement> {
  for (let cut = 1; ; cut += 1) {
    const payment = run.probe.newPayment('cut connection');
    const lost = await run.probe.chargeAndCut(payment);
    const judged = await afterLostReply(run, payment, lost, 'The connection of a charge was cut');
    if (judged !== 'no record') return judged;
    if (!lost.isAnswered && cut < CUTS) continue;
    const evidence = lost.isAnswered
      ? 'after the reply had begun'
      : `before the reply, ${CUTS} times, while a charge is usually at work`;
    return forgotten(payment, `The connection of a charge was cut ${evidence}`);
  }
}

async function timeLimit(run: Run): Promise<Judgement> {
  const payment = run.probe.newPayment('time limit');
  const lost = await run.probe.chargeAndWait(payment);
  const judged = await afterLostReply(run, payment, lost, 'The time limit of a charge passed');
  return judged === 'no record' ? forgotten(payment, 'The time limit of a charge passed without its reply') : judged;
}

async function afterLostReply(
  run: Run,
  payment: CheckedPayment,
  lost: LostReply,
  what: string,
): Promise<Judgement | 'no record'> {
  if (!lost.isSent) return broken(`${what} before it could be sent: the processor took no connection.`);
  const first = await run.probe.outcomeOf(payment);
  if (first.result.state === 'no record') {
    const later = await run.probe.watch(payment);
    if (later.result.state === 'no record') return 'no record';
    return broken(
      `${what}, and the look-up said that there is no record of it while it was still at work: later it said ${said(later)}. Idempay sends it again after such an answer: the payer may be charged twice. Answer 409 until it is certain.`,
    );
  }
  if (first.result.state === 'declined') {
    return broken(`${what}, and the look-up says ${said(first)}, although such a charge succeeded before.`);
  }
  const steps: Step[] = [{ ...outcome('The look-up after a lost reply'), sends: async () => first }, repeat()];
  return takeSteps(
    { about: () => payment, steps, kept: `${what}; the look-up had its outcome, and a repeat got it too.` },
    run,
  );
}

/** It is not sent again here: if money has moved, that would be the second charge. */
function forgotten({ reference }: CheckedPayment, what: string): Judgement {
  return broken(
    `${what}, and the look-up has no record of it. Idempay sends it again after such an answer: if money has moved, the payer is charged twice. Look for ${reference} at the processor. A charge must go on when its connection is lost.`,
  );
}

/** Charges that must be refused: a client of the contract sends none of them. */
const WRONG_CHARGES: readonly (readonly [what: string, questionFor: (payment: CheckedPayment) => Question])[] = [
  [
    'A charge without a reference',
    (payment) => ({ ...rightCharge(payment), headers: { 'content-type': 'application/json' } }),
  ],
  [
    'A charge without an amount',
    ({ reference, transactionId, currency }) => chargeQuestion(reference, { transactionId, currency }),
  ],
  ['A charge that is no JSON', (payment) => ({ ...rightCharge(payment), body: '{"amount":' })],
  [
    'A charge that is text',
    (payment) => {
      const right = rightCharge(payment);
      return { ...right, headers: { ...right.headers, 'content-type': 'text/plain' }, body: 'no charge' };
    },
  ],
];

function rightCharge({ reference, transactionId, amount, currency }: CheckedPayment): Question {
  return chargeQuestion(reference, { transactionId, amount, currency });
}

async function wrongRequests({ probe }: Run): Promise<Judgement> {
  for (const [what, questionFor] of WRONG_CHARGES) {
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
function references({ probe: { namings } }: Run): Judgement {
  const withoutName = [...namings].flatMap(([kind, isNamed]) => (isNamed ? [] : [kind]));
  if (namings.size === 0) return skipped('Not checked: no reply came whole.');
  if (withoutName.length === 0) return kept('Every reply names the reference that it is about.');
  return skipped(
    `These replies do not name the reference that they are about: ${withoutName.join(', ')}. Then a late copy of another reply, or the page of a gateway, can be taken for their outcome. Answer with the member reference.`,
  );
}

/** An adapter of an earlier contract keeps its own. One that names the third contract in some replies only keeps none. */
function contracts({ probe }: Run): Judgement {
  if (probe.namings.size === 0) return skipped('Not checked: no reply came whole.');
  if (probe.contract < CONTRACT_OF_ENDINGS) {
    return skipped(
      `The adapter names ${probe.contract === 0 ? 'no contract' : `contract ${probe.contract}`}. So no payment waits for a payer who must confirm, and none that is under way can be cancelled.`,
    );
  }
  const withoutContract = [...probe.contracts].flatMap(([kind, least]) => (least < CONTRACT_OF_ENDINGS ? [kind] : []));
  if (withoutContract.length === 0) return kept(`Every reply names the contract (${probe.contract}).`);
  return broken(
    `These replies do not name Idempay-Contract: ${CONTRACT_OF_ENDINGS}, although others do: ${withoutContract.join(', ')}. None of them counts for a charge that is pending or ended, so its payment stays open.`,
  );
}

/** Questions that the service sends, too. */
const OF_CONTRACT: readonly string[] = ['a charge', 'a look-up', 'an ending', 'a refund', 'a look-up of a refund'];

/** Checks the form of every reply that came: the service reads only JSON in UTF-8, and a gateway's page is something else. */
function mediaTypes({ probe }: Run): Judgement {
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
