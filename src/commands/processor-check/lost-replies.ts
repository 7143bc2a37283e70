import { broken, faultOfOutcome, type Judgement, kept, said } from './judgement.js';
import type { LostReply } from './lost-reply.js';
import { faultOfRepeat } from './outcomes.js';
import type { CheckedPayment, Probe } from './probe.js';

/**
 * An adapter that was cut off before it had read the charge has begun nothing, and rightly has no record; on a busy machine that happens.
 * The contract counts as broken only when this number of references in a row have none.
 */
const CUTS = 3;

export async function cutConnection(probe: Probe): Promise<Judgement> {
  for (let cut = 1; ; cut += 1) {
    const payment = probe.newPayment('cut connection');
    const lost = await probe.chargeAndCut(payment);
    const judged = await judge(probe, payment, lost, 'The connection of a charge was cut');
    if (judged !== 'no record') return judged;
    if (!lost.isAnswered && cut < CUTS) continue;
    const evidence = lost.isAnswered
      ? 'after the reply had begun'
      : `before the reply, ${CUTS} times, while a charge is usually at work`;
    return forgotten(payment, `The connection of a charge was cut ${evidence}`);
  }
}

export async function timeLimit(probe: Probe): Promise<Judgement> {
  const payment = probe.newPayment('time limit');
  const lost = await probe.chargeAndWait(payment);
  const judged = await judge(probe, payment, lost, 'The time limit of a charge passed');
  return judged === 'no record' ? forgotten(payment, 'The time limit of a charge passed without its reply') : judged;
}

async function judge(
  probe: Probe,
  payment: CheckedPayment,
  lost: LostReply,
  what: string,
): Promise<Judgement | 'no record'> {
  if (!lost.isSent) return broken(`${what} before it could be sent: the processor took no connection.`);
  const first = await probe.outcomeOf(payment);
  if (first.result.state === 'no record') {
    const later = await probe.watch(payment);
    if (later.result.state === 'no record') return 'no record';
    return broken(
      `${what}, and the look-up said that there is no record of it while it was still at work: later it said ${said(later)}. Idempay sends it again after such an answer: the payer may be charged twice. Answer 409 until it is certain.`,
    );
  }
  if (first.result.state === 'declined') {
    return broken(`${what}, and the look-up says ${said(first)}, although such a charge succeeded before.`);
  }
  return (
    faultOfOutcome('The look-up after a lost reply', first) ??
    (await faultOfRepeat(probe, payment)) ??
    kept(`${what}; the look-up had its outcome, and a repeat got it too.`)
  );
}

/** It is not sent again here: if money has moved, that would be the second charge. */
function forgotten({ reference }: CheckedPayment, what: string): Judgement {
  return broken(
    `${what}, and the look-up has no record of it. Idempay sends it again after such an answer: if money has moved, the payer is charged twice. Look for ${reference} at the processor. A charge must go on when its connection is lost.`,
  );
}
