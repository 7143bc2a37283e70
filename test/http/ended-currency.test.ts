import { afterAll, beforeAll, expect, it } from 'vitest';
import { readMoney } from '#idempay/payments/values/money.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import { expectCompleted, expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { listPayments, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { givenClaim, givenSettled, LONG_MS, newKey } from '../../testkit/protocol/payment-attempts.js';
import { openPortsOn } from '../../testkit/protocol/stored-rows.js';
import { until } from '../../testkit/time/until.js';

const LEVA = { amount: '100.5', currency: 'BGN' };
const REFUSAL = "'currency' BGN ended in 2026, and EUR replaced it. Convert the amount, and pay in EUR.";
const RECOVERED_DEADLINE_MS = 20_000;

/**
 * Bug: payments in BGN were begun although Bulgaria had left it with 2026. Cause: the table of currencies was older than ISO 4217. Fix: a
 * currency that has ended is refused for new payments only, so that no payment that was made in it loses its repeats or its decimals.
 */
describeDeployments('a currency that has ended', (deployment) => {
  const [paid, abandoned] = [newKey(), newKey()];
  let transactionId: string;
  let stores: Stores;
  let url: string;

  beforeAll(async () => {
    stores = await deployment.open();
    const ports = await openPortsOn(stores);
    const attempt = { amount: '100.50', currency: 'BGN', processor: 'simulated' };
    for (const key of [paid, abandoned]) await ports.keys.issue(key, LONG_MS);
    const claim = await givenClaim(ports.ledger, { ...attempt, key: paid });
    await givenSettled(ports.ledger, claim);
    ({ transactionId } = claim);
    await ports.ledger.abandon(await givenClaim(ports.ledger, { ...attempt, key: abandoned }), 0);
    await ports.close();
    ({ url } = await stores.serve({ PAYLOAD_MISMATCH: 'reject' }));
  });
  afterAll(() => stores?.close());

  it('begins no payment, says what replaced it, and leaves the key as it was', async () => {
    const key = await generateKey(url);
    for (const currency of ['BGN', 'bgn']) {
      expectError(await pay(url, key, { ...LEVA, currency }), 400, REFUSAL);
    }
    expect((await shownPaymentOf(url, key)).state).toBe('PENDING');
    expectFirst(await pay(url, key, { amount: '51.38', currency: 'EUR' }));
  });

  it('is compared in a repeat of a payment that was made before, which gets its outcome', async () => {
    for (let repeat = 0; repeat < 2; repeat += 1) expectReplay(await pay(url, paid, LEVA), transactionId);
    expectError(await pay(url, paid, { ...LEVA, amount: '100.51' }), 422);
    expectError(await pay(url, paid, { ...LEVA, currency: 'EUR' }), 422);
    expectCompleted(await paymentStatus(url, paid), transactionId);
  });

  it('keeps its decimals in recovery, records, lists and exports', async () => {
    const isFinished = async () => (await shownPaymentOf(url, abandoned)).state === 'COMPLETED';
    await until('recovery of the payment', RECOVERED_DEADLINE_MS, isFinished);
    const { payments } = await listPayments(url);
    const leva = payments.filter(({ currency }) => currency === 'BGN');
    expect(leva.map(({ amount }) => amount)).toEqual(['100.50', '100.50']);
    const day = new Date().toISOString().slice(0, 10);
    const sums = (await ask(`${url}/api/payments/export?day=${day}`)).text.trimEnd().split('\n').at(-1) as string;
    expect(JSON.parse(sums)).toMatchObject({ sums: { BGN: '201.00' } });
  });

  it('is in no description of a payment that can be sent', async () => {
    const description = (await ask(`${url}/openapi.json`)).json<{
      components: { schemas: { Currency: { enum: string[] } } };
    }>();
    const { enum: codes } = description.components.schemas.Currency;
    expect(codes).toContain('EUR');
    expect(codes.filter((code) => 'problem' in readMoney('1', code))).toEqual([]);
  });
});
