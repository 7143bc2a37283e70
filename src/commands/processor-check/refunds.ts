import { isStillAtWork } from '../../payments/processors/messages.js';
import type { Answer, CheckedPayment, CheckedRefund } from './probe.js';
import { broken, type Judgement, kept, type Row, type Run, rowOfContract3, said, skipped } from './run-checks.js';

/**
 * The rows about refunds (contract 3). They give back what the run has charged before. An adapter of an earlier contract, and one that has
 * no refunds, is asked for none of it.
 */
export const REFUNDS: readonly Row[] = [
  row('refund', refundOnce),
  row('refund with a lost reply', refundLost),
  row('refund after a restart', refundAfterRestart),
  row('two refunds of a charge', twoRefunds),
  row('more than was charged', moreThanCharged),
  row('refund of no charge', refundOfNone),
];

/** An adapter answers so that does not know the path, or the method. */
const NO_PATH = [404, 405, 501];

const STAYS_OPEN = 'Such a refund stays open until an operator resolves it.';
const GIVEN_TWICE = 'The payer gets the money back twice.';
const NO_REFUND = 'Not checked: no refund of this run was made.';

function row(check: string, judge: (run: Run) => Promise<Judgement>): Row {
  return rowOfContract3(check, 'there are refunds', judge);
}

async function refundOnce(run: Run): Promise<Judgement> {
  const { probe, first } = run;
  const refund = probe.newRefund('refund', first, halvesOf(first.amount)[0]);
  const made = await probe.refund(refund);
  const { status = 0 } = made.reply;
  if (made.reply.complete && NO_PATH.includes(status)) {
    refund.state = 'not made';
    return skipped(
      `Not checked: the adapter has no refunds, as it answered ${status} to one. Each refund would stay open until an operator resolves it. If nothing can be given back, answer 402 with a reason.`,
    );
  }
  if (made.result.state === 'declined') {
    return skipped(`Not checked: the refund of a part of the first charge was ${said(made)}.`);
  }
  if (!isMade(made) && !isStillAtWork(made.reply)) return unclear('The refund of a part of the first charge', made);
  return (await faultOfMade(run, refund)) ?? nameless(refund, 'A refund and its repeat') ?? keptRefund(run, refund);
}

function keptRefund(run: Run, refund: CheckedRefund): Judgement {
  run.refunded = refund;
  const state = refund.state === 'pending' ? 'is pending' : 'is given back';
  const unless = refund.isAmountTold
    ? '.'
    : ', without amount and currency: after a failover or a restore that loses rows, each such refund waits for an operator.';
  return kept(`A part of a charge ${state}; a repeat got the same refund, and the look-up has it${unless}`);
}

/** A refund that was made is looked up, sent again, and looked up once more. */
async function faultOfMade({ probe }: Run, refund: CheckedRefund): Promise<Judgement | undefined> {
  const steps = [
    ['The look-up of a refund', () => probe.refundOutcome(refund)],
    ['A repeat of a refund', () => probe.refund(refund)],
    ['The look-up of a refund that was sent again', () => probe.refundOutcome(refund)],
  ] as const;
  for (const [what, send] of steps) {
    const fault = faultIn(await send(), what);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** Undefined if the answer says that the refund was made, or is at work. */
function faultIn(answer: Answer, what: string): Judgement | undefined {
  if (answer.contradiction !== undefined) {
    return broken(
      `${what} names another refund: ${answer.contradiction}. ${GIVEN_TWICE} Search the refunds of the charge by the reference before you make one.`,
    );
  }
  switch (answer.result.state) {
    case 'succeeded':
    case 'pending':
      return undefined;
    case 'declined':
      return broken(
        `${what} says ${said(answer)}, of a refund that was made. The shop would give the money back once more, in another way.`,
      );
    case 'no record':
      return broken(
        `${what} has no record of a refund that was made. Idempay would send it again: if the processor does not remember it either, ${lower(GIVEN_TWICE)}`,
      );
    default:
      return isStillAtWork(answer.reply) && what.startsWith('A repeat') ? undefined : unclear(what, answer);
  }
}

/** The reply is never taken; then it is looked up, and sent again. */
async function refundLost(run: Run): Promise<Judgement> {
  const { probe, refunded, first } = run;
  if (refunded === undefined) return skipped(NO_REFUND);
  const payment = probe.payments.find((each) => each.state === 'charged' && each !== first && each.amounts.size < 2);
  if (payment === undefined) return skipped('Not checked: there is no second charge that could be given back.');
  const refund = probe.newRefund('refund with a lost reply', payment, payment.amount);
  const what = 'The reply to a refund was lost';
  const lost = await probe.refundAndWait(refund);
  if (!lost.isSent) return broken(`${what} before it could be sent: the processor took no connection.`);
  const found = await probe.refundOutcome(refund);
  if (found.result.state === 'no record') {
    return broken(
      `${what}, and the look-up has no record of it. Idempay sends it again after such an answer: if money was given back, ${lower(GIVEN_TWICE)} A refund must go on when its connection is lost.`,
    );
  }
  if (found.result.state === 'declined') {
    return broken(`${what}, and the look-up says ${said(found)}, although such a refund was made before.`);
  }
  const fault = faultIn(found, `${what}, and the look-up`) ?? (await faultOfMade(run, refund));
  return fault ?? kept(`${what}; the look-up had its outcome, and a repeat got it too.`);
}

async function refundAfterRestart(run: Run): Promise<Judgement> {
  const { probe, refunded } = run;
  const { restart } = probe.settings;
  if (refunded === undefined) return skipped(NO_REFUND);
  if (restart === undefined) {
    return skipped('Not checked: give a --restart-command that kills the adapter and starts it again.');
  }
  const problem = await restart();
  if (problem !== undefined) return skipped(`Not checked: the --restart-command ${problem}.`);
  const found = faultIn(await probe.refundReached(refunded), 'The look-up of a refund after a restart');
  if (found !== undefined) return found;
  const repeated = faultIn(await probe.refund(refunded), 'A repeat of a refund after a restart');
  return repeated ?? kept('After a restart a refund that is sent again is not made again.');
}

/** The rest of the charge, under another reference: a second return of the same order. */
async function twoRefunds(run: Run): Promise<Judgement> {
  const { probe, first, refunded } = run;
  if (refunded === undefined) return skipped(NO_REFUND);
  const [, rest] = halvesOf(first.amount);
  if (rest === undefined) return skipped('Not checked: the amount cannot be divided. Give a larger --amount.');
  const refund = probe.newRefund('two refunds of a charge', first, rest);
  const made = await probe.refund(refund);
  if (refund.id !== undefined && refund.id === refunded.id) {
    return broken(
      `A second refund of a charge, under another reference, names the first one (${refund.id}). The payer would never get the second part back.`,
    );
  }
  if (made.result.state === 'declined') {
    return broken(
      `The rest of a charge, under another reference, was ${said(made)}. Either a part of it was given back twice, or only one refund of a charge is made: then say so in your documents, and give back the whole amount only.`,
    );
  }
  if (!isMade(made) && !isStillAtWork(made.reply)) return unclear('A second refund of a charge', made);
  const fault = faultIn(await probe.refundOutcome(refund), 'The look-up of a second refund of a charge');
  return fault ?? kept('Two refunds of a charge, under two references, are two refunds.');
}

async function moreThanCharged({ probe, first, refunded }: Run): Promise<Judgement> {
  if (refunded === undefined) return skipped(NO_REFUND);
  const refund = probe.newRefund('more than was charged', first, first.amount);
  const what = `A refund of ${first.amount} ${first.currency}, of a charge that was given back before,`;
  const fault = faultOfDecline(await probe.refund(refund), what, 'More is given back than was charged.');
  return fault ?? kept('A refund of more than is left of its charge is declined.');
}

async function refundOfNone({ probe, neverSent, refunded }: Run): Promise<Judgement> {
  if (refunded === undefined) return skipped(NO_REFUND);
  const refund = probe.newRefund('refund of no charge', neverSent, neverSent.amount);
  const unmade = await probe.refundOutcome(refund);
  if (unmade.result.state !== 'no record') {
    return broken(
      `The look-up of a refund that never came says ${said(unmade)}. A refund that never arrived would be recorded with the outcome of another one, and the payer would wait for the money.`,
    );
  }
  const what = 'A refund of a reference that was never charged';
  const fault = faultOfDecline(await probe.refund(refund), what, 'Money that was never taken is given away.');
  return (
    fault ?? kept('A refund that never came has no record, and one of a reference that was never charged is declined.')
  );
}

/** Undefined if it was declined. */
function faultOfDecline(answer: Answer, what: string, cost: string): Judgement | undefined {
  if (answer.result.state === 'declined') return undefined;
  if (isMade(answer)) return broken(`${what} was answered as ${answer.result.state}. ${cost}`);
  return broken(`${what} was not declined: ${said(answer)}. ${STAYS_OPEN} Answer 402 with a reason.`);
}

const isMade = ({ result }: Answer): boolean => result.state === 'succeeded' || result.state === 'pending';

function unclear(what: string, answer: Answer): Judgement {
  return broken(`${what} is not clear: ${said(answer)}. ${STAYS_OPEN}`);
}

/** Skips a check whose replies would be the same if the refund had been made several times. */
function nameless(refund: CheckedRefund, what: string): Judgement | undefined {
  if (refund.id !== undefined) return undefined;
  return skipped(
    `${what} succeeded; the replies name no refund, so several cannot be told from one: look at the processor, and answer with its id.`,
  );
}

const lower = (sentence: string): string => sentence.charAt(0).toLowerCase() + sentence.slice(1);

/** The amount in two parts. One that cannot be divided is one part. */
function halvesOf(amount: CheckedPayment['amount']): readonly [part: string, rest?: string] {
  const decimals = amount.split('.')[1]?.length ?? 0;
  const units = BigInt(amount.replace('.', ''));
  const textOf = (part: bigint) => {
    const digits = `${part}`.padStart(decimals + 1, '0');
    return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
  };
  const half = units / 2n;
  return half === 0n ? [amount] : [textOf(half), textOf(units - half)];
}
