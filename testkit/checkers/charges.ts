import { expect } from 'vitest';
import { type Answer, transactionIdOf } from '../client/http-client.js';
import { type PayersView, type ShownPayment, shownPayment } from '../client/processor-payer.js';
import type { ChargeLine, ReferenceProcessor } from '../processes/reference-processor.js';

/**
 * The last word of every test with a real processor: what its charge log says, against what payers were told and what the
 * service shows.
 *
 * - At most one charge per key, of the amount of its first request.
 * - Every 2xx has its charge, and names the transaction id that was charged.
 * - A succeeded charge belongs to a payment that is COMPLETED with that id, and a COMPLETED payment has one.
 * - A DECLINED payment has no succeeded charge.
 *
 * `unresolved` names the keys whose payments the test leaves PROCESSING; any other that is still so is a failure.
 */
export async function judgeCharges(evidence: {
  readonly processor: Pick<ReferenceProcessor, 'charges'>;
  readonly payments: readonly PayersView[];
  readonly url: string;
  readonly unresolved?: readonly string[];
}): Promise<void> {
  const { processor, payments, url, unresolved = [] } = evidence;
  const shown = await Promise.all(payments.map(({ key }) => shownPayment(url, key)));
  const log = await processor.charges();

  const twice = log.filter(({ reference }, index) => log.findIndex((line) => line.reference === reference) < index);
  expect(twice, 'second charges of a key').toEqual([]);
  expect(new Set(log.map(({ transactionId }) => transactionId)).size, 'transaction ids in the log').toBe(log.length);

  for (const [index, payment] of payments.entries()) {
    const charge = log.find(({ reference }) => reference === payment.key);
    judgePayment(payment, charge, shown[index], unresolved.includes(payment.key));
  }
}

function judgePayment(
  { key, money, answers }: PayersView,
  charge: ChargeLine | undefined,
  shown: ShownPayment | undefined,
  mayBeUnresolved: boolean,
): void {
  const story = `${key}, told ${answers.map(({ status }) => status).join(' ')}`;
  if (charge) expect(charge, story).toMatchObject(money);
  if (shown?.state === 'PROCESSING' && mayBeUnresolved) {
    expect(answers.filter(isFinal), story).toEqual([]);
    return;
  }
  expect(shown?.state, `left without an outcome: ${story}`).not.toBe('PROCESSING');
  const simulated = shown?.processor === 'simulated';
  const completed = shown?.state === 'COMPLETED';
  expect(charge?.status === 'succeeded', `charged, when it is ${shown?.state}: ${story}`).toBe(completed && !simulated);
  if (completed) {
    if (charge) expect(shown.transactionId, story).toBe(charge.transactionId);
    expect(shown, story).toMatchObject(money);
  }

  const paid = answers.filter(({ status }) => status >= 200 && status <= 299);
  if (paid.length > 0) expect(shown?.state, `2xx without a payment: ${story}`).toBe('COMPLETED');
  for (const answer of paid) expect(transactionIdOf(answer), story).toBe(shown?.transactionId);
  const firsts = paid.filter(({ text }) => text.includes('processed successfully'));
  expect(firsts.length, `first texts: ${story}`).toBeLessThanOrEqual(1);

  const declined = answers.filter(({ status }) => status === 402);
  if (declined.length > 0) expect(shown?.state, `402 without a decline: ${story}`).toBe('DECLINED');
}

function isFinal({ status }: Answer): boolean {
  return status === 402 || (status >= 200 && status <= 299);
}
