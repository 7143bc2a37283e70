import { broken, type Judgement, kept, said, skipped, UNKNOWN_FOR_HOURS } from './judgement.js';
import type { Probe } from './probe.js';

export async function decline(probe: Probe): Promise<Judgement> {
  const { decliningSource } = probe.settings;
  if (decliningSource === undefined) {
    return skipped('Not checked: give a --declining-source that the processor declines.');
  }
  const payment = probe.newPayment('decline', decliningSource);
  const first = await probe.charge(payment);
  if (first.result.state === 'succeeded') {
    return broken(
      'The charge with the declining source was answered as succeeded. Either the source is not passed on, and another payer is charged, or a decline is taken for a success, and goods leave unpaid.',
    );
  }
  if (first.result.state !== 'declined') {
    return broken(
      `The charge with the declining source was not declined: ${said(first)}. The payer would be told to try again, and ${UNKNOWN_FOR_HOURS}.`,
    );
  }
  const again = await probe.charge(payment);
  if (again.result.state !== 'declined') {
    return broken(
      `A repeat of a declined charge got another answer: ${said(again)}. A decline is final: the payer was told no, and may be charged afterwards.`,
    );
  }
  const found = await probe.outcomeOf(payment);
  if (found.result.state !== 'declined' && found.result.state !== 'no record') {
    return broken(
      `The look-up of a declined charge does not say so: ${said(found)}. After a lost reply ${found.result.state === 'succeeded' ? 'the decline would be taken for a success' : UNKNOWN_FOR_HOURS}.`,
    );
  }
  return kept(`${said(first).replace(/^d/, 'D')}; a repeat and the look-up agree.`);
}
