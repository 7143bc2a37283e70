import { setTimeout as delay } from 'node:timers/promises';
import { isStillAtWork } from '../../payments/processors/messages.js';
import type { Answer, CheckedPayment } from './probe.js';
import { broken, type Judgement, kept, type Row, type Run, rowOfContract3, said, skipped } from './run-checks.js';

/**
 * The rows about charges that are pending or ended (contract 3). The rows ask an adapter of an earlier contract for none of this. Some
 * promises are about the act of a payer or about a crash, so they need a command that plays it.
 */
export const OPEN_CHARGES: readonly Row[] = [
  row('ending before a charge', endingBefore),
  row('ending during a charge', endingDuring),
  row('ending after a charge', endingAfter),
  row('pending charge', pendingCharge),
  row('restart', afterRestart),
  row('ending a pending charge', endingPending),
  row('payer confirms', payerConfirms),
  row('payer refuses', payerRefuses),
  row('without a payer', withoutPayer),
];

/** No request goes there, because the check follows no redirect. */
const RETURN_URL = 'https://shop.example/back';
/** The ending is sent after these parts of the time that a charge takes. */
const ENDED_AFTER = [0, 0.5, 1];

const STAYS_OPEN = 'Such a payment stays open until an operator resolves it.';
const CHARGED_ANYWAY = 'The order was cancelled, or paid with another card since, and the payer is charged for it.';
const GIVE_PAYER = 'give a --payer-command that confirms or refuses as its payer does';
const NOTHING_PENDING = 'Not checked: no charge of this run is pending.';

function row(check: string, judge: (run: Run) => Promise<Judgement>): Row {
  return rowOfContract3(check, 'charges are pending and ended', judge);
}

async function endingBefore(run: Run): Promise<Judgement> {
  const { probe } = run;
  const payment = probe.newPayment('ending before a charge');
  const what = 'The ending of a reference that never came';
  const ended = await probe.end(payment);
  if (ended.result.state === 'cannot be ended') {
    return skipped(
      `${what} is answered with 409. So an order that is given up while its charge is on the way is charged.`,
    );
  }
  if (ended.result.state === 'succeeded') {
    return broken(
      `${what} says succeeded. An order would be taken for paid that nobody has paid: goods would leave unpaid.`,
    );
  }
  if (ended.result.state !== 'declined') return unclear(what, ended);
  run.ended = payment;
  const late = await probe.charge(payment);
  const cost = costOfCharge('A charge that came after its ending', late);
  if (cost !== undefined) return cost;
  const found = await probe.watchEnded(payment);
  if (!['declined', 'no record'].includes(found.result.state)) {
    return chargedLater(found, 'The look-up of a charge that came after its ending');
  }
  const again = await probe.end(payment);
  if (again.result.state !== 'declined') return unclear('A second ending of the same reference', again);
  return kept('A reference that never came is ended, and its charge that comes later is not made.');
}

/** The charge and its ending arrive at nearly the same time, in both orders. */
async function endingDuring(run: Run): Promise<Judgement> {
  const judged = await Promise.all(ENDED_AFTER.map((part) => endWhileCharging(run, part)));
  const worst = judged.find(({ verdict }) => verdict === 'broken');
  return (
    worst ??
    kept(`Charges that were ended while they were at work: ${judged.map(({ sentence }) => sentence).join(', ')}.`)
  );
}

async function endWhileCharging({ probe }: Run, part: number): Promise<Judgement> {
  const payment = probe.newPayment('ending during a charge');
  await probe.announced(payment);
  const charging = probe.charge(payment);
  await delay(probe.chargeMs * part);
  const ended = await probe.end(payment);
  const charged = await charging;
  switch (ended.result.state) {
    case 'declined': {
      const cost = costOfCharge('A charge whose ending was answered with declined', charged);
      if (cost !== undefined) return cost;
      const found = await probe.watchEnded(payment);
      if (found.result.state === 'declined') return kept('ended');
      return chargedLater(found, 'The look-up of a charge whose ending was answered with declined');
    }
    case 'succeeded':
    case 'cannot be ended': {
      const found = await probe.outcomeOf(payment);
      const isSame = found.result.state === 'succeeded' && charged.result.state !== 'declined';
      if (isSame && found.contradiction === undefined) return kept('had been charged');
      if (ended.result.state === 'cannot be ended' && isOutcome(found)) return kept('could not be ended');
      return broken(
        `An ending during a charge says ${said(ended)}, but the charge says ${said(charged)}, and the look-up ${said(found)}. One of them is wrong, and the order is closed, or shipped, by it.`,
      );
    }
    default:
      return unclear('An ending during a charge', ended);
  }
}

async function endingAfter({ probe, first }: Run): Promise<Judgement> {
  const what = 'The ending of a charge that succeeded';
  const ended = await probe.end(first);
  if (ended.contradiction !== undefined) return broken(`${what} names another charge: ${ended.contradiction}.`);
  if (ended.result.state === 'declined') {
    return broken(`${what} says ${said(ended)}. The payer has paid, and the order would be closed.`);
  }
  if (ended.result.state !== 'succeeded') {
    return broken(
      `${what} did not get its outcome: ${said(ended)}. Answer 200 with succeeded: the money has moved, and is not taken back.`,
    );
  }
  const found = await probe.outcomeOf(first);
  if (found.result.state === 'succeeded')
    return kept('The ending of a charge that succeeded has its outcome, and changes nothing.');
  return broken(`After the ending of a charge that succeeded, the look-up says ${said(found)}. An outcome is final.`);
}

async function pendingCharge(run: Run): Promise<Judgement> {
  const { probe } = run;
  const payment = newPending(run, 'pending charge');
  const answer = await probe.charge(payment);
  const { result } = answer;
  if (result.state !== 'pending') return notPending(run, answer);
  if (result.untilMs <= Date.now()) {
    return broken(
      'The until of a new pending charge is over already. The payer has no time to confirm, and the payment counts as late at once.',
    );
  }
  const found = await probe.outcomeOf(payment);
  const fault = faultOfPending(found, 'The look-up of a pending charge');
  if (fault !== undefined) return fault;
  if (found.result.state !== 'pending')
    return skipped(`The pending charge was ${said(found)} before its payer did anything.`);
  if (!('charged' in found.result) || found.result.charged === undefined) {
    return broken(
      'The look-up of a pending charge does not name amount and currency. After a failover that lost rows, the payment cannot be ended.',
    );
  }
  const { id } = payment;
  const repeated = await probe.charge(payment);
  if (payment.id !== id)
    return broken(`A repeat of a pending charge names another one. The payer may confirm both, and is charged twice.`);
  if (repeated.result.state === 'declined') {
    return broken(`A repeat of a pending charge says ${said(repeated)}. The payer may still confirm the first one.`);
  }
  run.waiting = payment;
  const members = Object.keys(result.action ?? {}).join(', ');
  const given = members === '' ? 'without an action' : `with an action (${members})`;
  return kept(`Pending until ${new Date(result.untilMs).toISOString()}, ${given}; the look-up says so too.`);
}

function notPending({ probe }: Run, answer: Answer): Judgement {
  const { confirmingSource } = probe.settings;
  const { state } = answer.result;
  if (state === 'declined' && confirmingSource !== undefined) {
    return broken(
      `The charge with the confirming source and a returnUrl was ${said(answer)}. Each payer whose bank asks for a confirmation would be told no.`,
    );
  }
  if (state === 'succeeded' || state === 'declined') {
    return skipped(
      `Not checked: the charge with a returnUrl ${state === 'succeeded' ? 'succeeded' : `was ${said(answer)}`}, so nobody had to confirm it. Give a --confirming-source whose payer must.`,
    );
  }
  return unclear('The charge with a returnUrl', answer);
}

/** The fault in a look-up of a pending charge; undefined if the charge is pending, or has an outcome. */
function faultOfPending(found: Answer, what: string): Judgement | undefined {
  if (found.result.state === 'no record') {
    return broken(`${what} has no record of it. The payer may still confirm it, and nobody would find out.`);
  }
  return found.result.state === 'pending' || isOutcome(found) ? undefined : unclear(what, found);
}

async function afterRestart(run: Run): Promise<Judgement> {
  const { probe, waiting, ended } = run;
  const { restart } = probe.settings;
  if (restart === undefined) {
    return skipped('Not checked: give a --restart-command that kills the adapter and starts it again.');
  }
  if (waiting === undefined && ended === undefined)
    return skipped('Not checked: nothing is pending, and nothing was ended.');
  const problem = await restart();
  if (problem !== undefined) return skipped(`Not checked: the --restart-command ${problem}.`);
  if (waiting !== undefined) {
    const { id } = waiting;
    const fault = faultOfPending(await probe.reached(waiting), 'The look-up of a pending charge after a restart');
    if (fault !== undefined) return fault;
    if (waiting.id !== id)
      return broken('After a restart a pending charge has another id. The payer may confirm both.');
  }
  if (ended !== undefined) {
    await probe.reached(ended);
    const cost = costOfCharge('A charge that came after its ending and a restart', await probe.charge(ended));
    if (cost !== undefined) return cost;
  }
  const what = [...(waiting ? ['the pending charge is known'] : []), ...(ended ? ['the ending holds'] : [])];
  return kept(`After a restart ${what.join(', and ')}.`);
}

async function endingPending(run: Run): Promise<Judgement> {
  return run.waiting === undefined ? skipped(NOTHING_PENDING) : endOpen(run, run.waiting);
}

/** The payer confirms a charge that was ended, as a payer may who comes back to the bank's page. */
async function endOpen({ probe }: Run, payment: CheckedPayment): Promise<Judgement> {
  const { payer } = probe.settings;
  const what = 'The ending of a pending charge';
  const ended = await probe.end(payment);
  if (ended.result.state === 'cannot be ended')
    return kept('The pending charge cannot be ended (409): its outcome will come.');
  if (ended.result.state === 'succeeded') {
    return broken(`${what} says succeeded, although no payer has confirmed it. Goods would leave unpaid.`);
  }
  if (ended.result.state !== 'declined') return unclear(what, ended);
  await payer?.('confirm', payment.action);
  const found = await probe.watchEnded(payment);
  if (found.result.state !== 'declined') return chargedLater(found, 'The look-up of a pending charge that was ended');
  const cost = costOfCharge('A repeat of a pending charge that was ended', await probe.charge(payment));
  if (cost !== undefined) return cost;
  if (payer !== undefined)
    return kept('A pending charge is ended, and a payer who confirms it afterwards is not charged.');
  return kept(`A pending charge is ended. To see that its payer cannot confirm it any more, ${GIVE_PAYER}.`);
}

async function payerConfirms(run: Run): Promise<Judgement> {
  const { probe } = run;
  const begun = await beginAsPayer(run, 'payer confirms', 'confirm');
  if ('verdict' in begun) return begun;
  const found = await probe.decided(begun);
  if (found.result.state !== 'succeeded') {
    return broken(
      `The payer has confirmed a charge, and the look-up says ${said(found)}, also after the deadline. ${
        found.result.state === 'declined' ? 'The payer would be told no.' : STAYS_OPEN
      }`,
    );
  }
  const repeated = await probe.charge(begun);
  if (repeated.contradiction !== undefined) {
    return broken(
      `A repeat of a charge that its payer has confirmed names another one: ${repeated.contradiction}. The payer may be charged twice.`,
    );
  }
  const ended = await probe.end(begun);
  if (ended.result.state !== 'succeeded') {
    return broken(
      `The ending of a charge that its payer has confirmed says ${said(ended)}. The payer has paid, and the order would be closed.`,
    );
  }
  return kept('A charge that its payer confirms succeeds, once.');
}

async function payerRefuses(run: Run): Promise<Judgement> {
  const { probe } = run;
  const begun = await beginAsPayer(run, 'payer refuses', 'refuse');
  if ('verdict' in begun) return begun;
  const found = await probe.decided(begun, probe.settings.leastWatchMs);
  if (found.result.state === 'pending') {
    const judged = await endOpen(run, begun);
    return judged.verdict === 'broken'
      ? judged
      : kept('A charge that its payer refuses stays pending, and can be ended.');
  }
  if (found.result.state !== 'declined') {
    return broken(`The payer has refused a charge, and the look-up says ${said(found)}.`);
  }
  await probe.settings.payer?.('confirm', begun.action);
  const later = await probe.watchEnded(begun);
  if (later.result.state === 'declined')
    return kept('A charge that its payer refuses is declined, and cannot be confirmed any more.');
  return chargedLater(later, 'The look-up of a pending charge that was declined');
}

/** A new pending charge whose payer has acted, or the reason why there is none. */
async function beginAsPayer(
  run: Run,
  purpose: string,
  does: 'confirm' | 'refuse',
): Promise<CheckedPayment | Judgement> {
  const { probe, waiting } = run;
  const { payer } = probe.settings;
  if (waiting === undefined) return skipped(NOTHING_PENDING);
  if (payer === undefined) return skipped(`Not checked: ${GIVE_PAYER}.`);
  const payment = newPending(run, purpose);
  const answer = await probe.charge(payment);
  if (answer.result.state !== 'pending') return notPending(run, answer);
  const problem = await payer(does, payment.action);
  return problem === undefined ? payment : skipped(`Not checked: the --payer-command ${problem}.`);
}

async function withoutPayer({ probe }: Run): Promise<Judgement> {
  const { confirmingSource } = probe.settings;
  if (confirmingSource === undefined)
    return skipped('Not checked: give a --confirming-source whose payer must confirm.');
  const answer = await probe.charge(probe.newPayment('without a payer', confirmingSource));
  const { result } = answer;
  if (result.state === 'pending' && result.action !== undefined) {
    return broken(
      'A charge without a returnUrl is pending with an action, which nobody would follow. Decline it: no payer is present.',
    );
  }
  if (result.state !== 'pending' && !isOutcome(answer))
    return unclear('A charge without a returnUrl that its payer must confirm', answer);
  return kept(`A charge that its payer must confirm is ${result.state} if no payer is present.`);
}

function newPending({ probe }: Run, purpose: string): CheckedPayment {
  const { confirmingSource, source } = probe.settings;
  return probe.newPayment(purpose, confirmingSource ?? source, undefined, RETURN_URL);
}

const isOutcome = ({ result }: Answer): boolean => result.state === 'succeeded' || result.state === 'declined';

/** The cost of a charge of an ended reference; undefined if the charge was not made. Then 409 and 422 are as good as 402. */
function costOfCharge(what: string, answer: Answer): Judgement | undefined {
  const { state } = answer.result;
  if (state === 'succeeded') return broken(`${what} was answered as succeeded. ${CHARGED_ANYWAY}`);
  if (state === 'pending') return broken(`${what} is pending, so its payer can confirm it. ${CHARGED_ANYWAY}`);
  const isRefused = answer.reply.complete && answer.reply.status >= 400 && answer.reply.status <= 499;
  return state === 'declined' || isStillAtWork(answer.reply) || isRefused ? undefined : unclear(what, answer);
}

/** The look-up contradicts the earlier decline of a charge that was ended, or that had been pending. */
function chargedLater(found: Answer, what: string): Judgement {
  if (found.result.state === 'succeeded') {
    return broken(
      `${what} says succeeded. ${CHARGED_ANYWAY} Answer declined only when nothing that the payer was given can charge any more.`,
    );
  }
  if (found.result.state === 'pending')
    return broken(`${what} says pending, so its payer can confirm it. ${CHARGED_ANYWAY}`);
  if (found.result.state === 'no record') return broken(`${what} has no record of it. ${STAYS_OPEN}`);
  return unclear(what, found);
}

function unclear(what: string, answer: Answer): Judgement {
  return broken(`${what} is not clear: ${said(answer)}. ${STAYS_OPEN}`);
}
