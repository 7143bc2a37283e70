import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { readNamedMoney } from '#idempay/payments/values/money.js';
import type { StripeRefund } from '../../examples/stripe-stand-in/stand-in.js';
import { openStripeEnvironment, type StripeEnvironment } from '../../testkit/deployments/stripe-environment.js';
import { lookUpRefund, sendRefund } from '../../testkit/processes/reference-processor.js';
import { processorAt } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

const USD = { amount: '100.50', currency: 'USD' };
const PART = { amount: '40.25', currency: 'USD' };
const FINAL_MS = 20_000;

describe('a refund through the Stripe adapter of examples/', () => {
  let environment: StripeEnvironment;
  /** Charged before each test. */
  let charge: string;
  let reference: string;
  let processor: ProcessorClient;

  beforeAll(async () => {
    // No test here is about a time limit, and the first requests of a process take their time.
    environment = await openStripeEnvironment(undefined, { STRIPE_TIMEOUT_MS: '20000' });
  });
  afterAll(() => environment?.close());
  beforeEach(async () => {
    environment.stripe.meet({});
    [charge, reference] = [randomUUID(), randomUUID()];
    await makeCharge(charge, USD);
    processor = processorAt({ port: Number(new URL(environment.adapterUrl).port) });
  });

  const intentId = () => environment.stripe.intentsOf(charge)[0]?.id as string;
  const made = (of = reference) =>
    environment.stripe.refunds().filter(({ metadata }) => metadata.idempay_reference === of);
  const makeCharge = (of: string, money: typeof USD) =>
    until('the charge is made', FINAL_MS, async () => (await environment.charge(of, money)).status === 200);
  const refundOnce = (more: object = {}, of = reference) =>
    processor.refund({ key: of, transactionId: 'TXN1', payment: charge, ...PART, ...more });
  const lookUpOnce = (id?: string, of = reference) => processor.lookUpRefund(of, charge, PART, { id });
  /**
   * On a busy machine a connection between two processes may end as it is used again, which is an unknown outcome and no fault. As Idempay
   * does, a test asks again then, which gives nothing back twice.
   */
  const known = <R extends { readonly state: string }>(ask: () => Promise<R>) =>
    until('an outcome that is known', FINAL_MS, async () => {
      const result = await ask();
      return result.state !== 'unknown' && result;
    });
  const refund = (...asked: Parameters<typeof refundOnce>) => known(() => refundOnce(...asked));
  const lookUp = (...asked: Parameters<typeof lookUpOnce>) => known(() => lookUpOnce(...asked));

  test('is given back once, with the reference, the transaction and the reason in its metadata', async () => {
    const result = await refund({ reason: 'a shoe came back', chargeId: intentId() });
    const [{ id }] = made() as [StripeRefund];
    expect(result).toEqual({ state: 'succeeded', id });
    expect(await refund({ reason: 'a shoe came back' })).toEqual(result);
    expect(await lookUp()).toEqual({ ...result, charged: PART });
    expect(await lookUp(id)).toEqual({ ...result, charged: PART });
    const names = { idempay_reference: reference, idempay_transaction: 'TXN1', idempay_reason: 'a shoe came back' };
    expect(made()).toMatchObject([{ amount: 4_025, currency: 'usd', payment_intent: intentId(), metadata: names }]);
    const raw = await sendRefund(environment.adapterUrl, reference, { charge, transactionId: 'TXN1', ...PART });
    expect([raw.status, raw.headers['idempay-contract']]).toEqual([200, '3']);
    expect(raw.json()).toEqual({ status: 'succeeded', id, reference, charge, amount: '40.25', currency: 'usd' });
  });

  test('is given back once also when Stripe has forgotten its key, and after a restart of the adapter', async () => {
    const result = await refund();
    environment.stripe.forgetKeys();
    await environment.restartAdapter();
    expect(await refund()).toEqual(result);
    expect(made()).toHaveLength(1);
  });

  test('is given back once if it is sent to two processes at the same moment', async () => {
    environment.stripe.meet({ latencyMs: 100 });
    const other = await environment.startAnotherAdapter();
    const elsewhere = processorAt({ port: Number(new URL(other.url).port) });
    const sent = { key: reference, transactionId: 'TXN1', payment: charge, ...PART };
    const results = await Promise.all([processor.refund(sent), elsewhere.refund(sent), processor.refund(sent)]);
    await other.kill();
    // A send that comes while another one is at work is unknown.
    for (const { state } of results) expect(['succeeded', 'unknown']).toContain(state);
    expect((await lookUp()).state).toBe('succeeded');
    expect(made()).toHaveLength(1);
  });

  test('whose reply was lost, or is a fault that Stripe keeps, is found by its look-up', async () => {
    environment.stripe.meet({ lostReplyRate: 1 });
    expect((await refundOnce()).state).toBe('unknown');
    environment.stripe.meet({ chargedAndFailedRate: 1 });
    const other = randomUUID();
    expect((await refundOnce({}, other)).state).toBe('unknown');
    environment.stripe.meet({});
    for (const of of [reference, other]) {
      expect((await lookUp(undefined, of)).state).toBe('succeeded');
      expect((await refund({}, of)).state).toBe('succeeded');
      expect(made(of)).toHaveLength(1);
    }
  });

  test('is found among many refunds of its charge', async () => {
    const others = Array.from({ length: 100 }, () => randomUUID());
    const first = await refund({ amount: '0.50' });
    for (const of of others) await refund({ amount: '0.50' }, of);
    environment.stripe.forgetKeys();
    expect(await refund({ amount: '0.50' })).toEqual(first);
    expect(made()).toHaveLength(1);
  });

  test.each([
    ['12.34', 'EUR', '0.05', 5],
    ['500', 'JPY', '1', 1],
    ['5.120', 'KWD', '1.010', 1_010],
    ['7', 'ISK', '2', 200],
    ['100.00', 'MGA', '3.00', 3],
  ])('of %s %s takes %s as %d of its smallest unit', async (whole, currency, amount, units) => {
    const other = randomUUID();
    await makeCharge(other, { amount: whole, currency });
    const answer = await sendRefund(environment.adapterUrl, reference, {
      charge: other,
      transactionId: 'TXN1',
      ...{ amount, currency },
    });
    expect(made()).toMatchObject([{ amount: units, currency: currency.toLowerCase() }]);
    const about = answer.json() as Readonly<Record<string, unknown>>;
    expect(readNamedMoney(about.amount, about.currency)).toEqual({ amount, currency });
  });

  test('is declined if it is more than what is left, in another currency, or of no charge', async () => {
    await refund();
    const before = environment.stripe.refunds().length;
    const declined = (reason: string) => ({ state: 'declined', reason });
    expect(await refund({ amount: '60.26' }, randomUUID())).toEqual(declined('more than is left of the charge'));
    expect(await refund({ currency: 'EUR' }, randomUUID())).toEqual(declined('the charge is in USD'));
    expect(await refund({ payment: randomUUID() }, randomUUID())).toEqual(
      declined('Stripe has no charge with this reference'),
    );
    expect(environment.stripe.refunds()).toHaveLength(before);
    expect((await refund({ amount: '60.25' }, randomUUID())).state).toBe('succeeded');
    expect(await refund({ amount: '0.01' }, randomUUID())).toEqual(declined('more than is left of the charge'));
  });

  test.each(['pending', 'requires_action'] as const)(
    'that is %s at Stripe is pending, and then has its outcome',
    async (status) => {
      environment.stripe.meet({ refundStatus: status });
      const result = await refund();
      const [{ id, created }] = made() as [StripeRefund];
      expect(result).toEqual({ state: 'pending', untilMs: created * 1000 + 14 * 86_400_000, id });
      expect(await lookUp(id)).toEqual({ ...result, charged: PART });
      expect(await refund()).toEqual(result);
      environment.stripe.decideRefund(id, 'failed', 'expired_or_canceled_card');
      expect(await lookUp(id)).toEqual({ state: 'declined', reason: 'expired_or_canceled_card', id });
      expect(await refund()).toEqual({ state: 'declined', reason: 'expired_or_canceled_card', id });
      // The failed part can be given back by another refund.
      environment.stripe.meet({});
      expect((await refund({ amount: '100.50' }, randomUUID())).state).toBe('succeeded');
      environment.stripe.decideRefund(id, 'canceled');
      expect(await lookUp()).toEqual({ state: 'declined', reason: 'the refund was cancelled', id });
      environment.stripe.decideRefund(id, 'succeeded');
      expect(await lookUp(id)).toEqual({ state: 'succeeded', id, charged: PART });
    },
  );

  test('that never came has no record, once no request for it can be under way', async () => {
    const answer = await lookUpRefund(environment.adapterUrl, reference, charge);
    expect([answer.status, answer.json()]).toMatchObject([425, { reference, charge }]);
    await until('no record', FINAL_MS, async () => (await lookUp()).state === 'no record');
    expect((await lookUpOnce('re_0')).state).toBe('unknown');
    expect((await refund()).state).toBe('succeeded');
  });

  test.each<[string, object]>([
    ['of another intent', { chargeId: 'pi_0' }],
    ['with a key that is none of Idempay', { payment: 'order-1' }],
  ])('%s is refused, and nothing is given back', async (_, more) => {
    expect((await refundOnce(more)).state).toBe('unknown');
    expect(made()).toEqual([]);
  });

  test('that Stripe refuses for a reason that a person can mend is no decline', async () => {
    const error = { type: 'invalid_request_error', code: 'balance_insufficient', message: 'Insufficient funds.' };
    environment.stripe.meet({ refusal: { status: 400, error } });
    expect((await refundOnce()).state).toBe('unknown');
    environment.stripe.meet({ refusal: { status: 402, error: { ...error, type: 'card_error' } } });
    expect((await refundOnce()).state).toBe('unknown');
    environment.stripe.meet({});
    expect((await refund()).state).toBe('succeeded');
  });
});
