import { isStillAtWork } from '../../payments/processors/messages.js';
import { broken, faultOfOutcome, type Judgement, kept, nameless, said, skipped } from './judgement.js';
import { faultOfRepeat } from './outcomes.js';
import { type Answer, AT_ONCE, isNameless, type Probe } from './probe.js';

/** After a time limit the service sends a reference again, and the first charge may still be on its way. */
const OVERLAP = 'Where a repeat overlaps with a charge that is late, the payer is charged twice.';

/** Twenty charges at once with one reference: one of them charges, the others get its outcome or 409. */
export async function atOnce(probe: Probe): Promise<Judgement> {
  const payment = probe.newPayment('twenty at once');
  const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => probe.charge(payment)));
  const different = answers.find(({ contradiction }) => contradiction !== undefined);
  if (different) {
    return broken(
      `Of ${AT_ONCE} charges at once with one reference, two name different charges: ${different.contradiction}. ${OVERLAP}`,
    );
  }
  const declined = answers.find(({ result }) => result.state === 'declined');
  if (declined) {
    return broken(
      `Of ${AT_ONCE} charges at once with one reference, one was ${said(declined)}. A decline is final, and the payer may have paid.`,
    );
  }
  const refused = answers.find(isRefusal);
  if (refused) {
    return broken(
      `Of ${AT_ONCE} charges at once with one reference, one was refused: ${said(refused)}. An operator would be alarmed where two attempts overlap. Answer 409.`,
    );
  }
  const later = await probe.outcomeOf(payment);
  const fault =
    faultOfOutcome(`The look-up after ${AT_ONCE} charges at once`, later) ?? (await faultOfRepeat(probe, payment));
  if (fault) return fault;
  const count = countOf(answers);
  return isNameless(payment)
    ? nameless(`${count === AT_ONCE ? 'All' : count} of ${AT_ONCE} charges at once succeeded`)
    : kept(`${count} of ${AT_ONCE} charges at once got the outcome, none got another one, and a look-up has it.`);
}

/** Shows a second charge of the other amount also if replies do not name their charges. */
export async function twoAmountsAtOnce(probe: Probe, amount: string, areAmountsCompared: boolean): Promise<Judgement> {
  if (!areAmountsCompared) return skipped('Not checked: it needs a processor that refuses another amount.');
  const payment = probe.newPayment('two amounts at once');
  const half = AT_ONCE / 2;
  const send = (other: string) =>
    Promise.all(Array.from({ length: half }, () => probe.charge(payment, { amount: other })));
  const answers = await Promise.all([send(payment.amount), send(amount)]);
  if (answers.every((some) => countOf(some) > 0)) {
    return broken(
      `${payment.amount} and ${amount} ${payment.currency} at once with one reference were both answered as succeeded: both were charged. ${OVERLAP}`,
    );
  }
  const different = answers.flat().find(({ contradiction }) => contradiction !== undefined);
  if (different) {
    return broken(
      `Of two amounts at once with one reference, one was charged twice: ${different.contradiction}. ${OVERLAP}`,
    );
  }
  const fault = faultOfOutcome('The look-up after two amounts at once', await probe.outcomeOf(payment));
  if (fault) return fault;
  return isNameless(payment)
    ? nameless('Of two amounts at once with one reference only one succeeded')
    : kept('Of two amounts at once with one reference one was charged.');
}

const countOf = (answers: readonly Answer[]) => answers.filter(({ result }) => result.state === 'succeeded').length;

/** 408 and 429 say that nothing was done yet. */
function isRefusal({ reply, result }: Answer): boolean {
  const { status = 0 } = reply;
  return (
    result.state === 'unknown' &&
    status >= 400 &&
    status <= 499 &&
    ![408, 429].includes(status) &&
    !isStillAtWork(reply)
  );
}
