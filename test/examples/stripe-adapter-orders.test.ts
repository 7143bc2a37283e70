import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { openStripeEnvironment, type StripeEnvironment } from '../../testkit/deployments/stripe-environment.js';
import { pause, until } from '../../testkit/time/until.js';

const USD = { amount: '100.50', currency: 'USD' };
const RETURN_URL = 'https://shop.example/orders/17';
const CONFIRMED = 'pm_card_threeDSecure2Required';
const FINAL_MS = 30_000;

interface Pending {
  readonly processorId?: string;
  readonly pending: { readonly until: string; readonly action?: { readonly url: string } };
}

/** The whole way from the shop's request to the charge at Stripe, through Idempay and the adapter. */
describe('an order with a card that its holder must confirm, at Stripe', () => {
  let environment: StripeEnvironment;
  let order: string;
  let orders = 0;

  beforeAll(async () => {
    environment = await openStripeEnvironment();
  });
  afterAll(() => environment?.close());
  beforeEach(() => {
    environment.stripe.meet({});
    orders += 1;
    order = `confirmed-order-${orders}`;
  });

  const intents = () => environment.stripe.intentsOf(order);
  const statuses = () => intents().map(({ status }) => status);
  const pay = (more: object = {}, attempt = 1) =>
    sendJson(`${environment.url}/api/payment?reference=${order}&attempt=${attempt}`, 'POST', {
      ...USD,
      source: CONFIRMED,
      returnUrl: RETURN_URL,
      ...more,
    });
  const cancel = (query = '') =>
    ask(`${environment.url}/api/payment-cancellation?reference=${order}${query}`, { method: 'POST' });
  const bankOf = (answer: Answer) => `${answer.json<Pending>().pending.action?.url}`;
  const answerAtBank = (url: string, answer: 'confirm' | 'refuse') =>
    ask(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: `answer=${answer}`,
    });
  const recordOf = async (answer: Answer) =>
    (await ask(`${environment.url}/api/payments/${answer.headers['idempotency-key']}`)).json<{
      readonly state: string;
      readonly processorId?: string;
    }>();

  test('is pending with the address of the bank, and paid after it was confirmed there', async () => {
    const first = await pay();
    expect(first.status).toBe(202);
    expect(intents()).toMatchObject([
      { status: 'requires_action', next_action: { redirect_to_url: { return_url: RETURN_URL } } },
    ]);
    const again = await pay();
    expect([again.status, bankOf(again)]).toEqual([202, bankOf(first)]);
    await answerAtBank(bankOf(first), 'confirm');
    const paid = await until('the payment', FINAL_MS, async () => {
      const answer = await pay();
      return answer.status === 200 && answer;
    });
    expect(paid.status).toBe(200);
    expect(statuses()).toEqual(['succeeded']);
    expect(await recordOf(first)).toMatchObject({ state: 'COMPLETED', processorId: intents()[0]?.id });
  });

  test('is declined after a refusal, and its next attempt is paid with another card', async () => {
    const first = await pay();
    await answerAtBank(bankOf(first), 'refuse');
    const declined = await until('the decline', FINAL_MS, async () => {
      const answer = await pay();
      return answer.status === 402 && answer;
    });
    expect(declined.text).toContain('We are unable to authenticate your payment method');
    expect((await pay({ source: 'pm_card_visa' }, 2)).status).toBe(200);
    await answerAtBank(bankOf(first), 'confirm');
    expect(statuses()).toEqual(['canceled', 'succeeded']);
  });

  test('is finished without another request, by recovery', async () => {
    const first = await pay();
    await answerAtBank(bankOf(first), 'confirm');
    await until('the end', FINAL_MS, async () => (await recordOf(first)).state === 'COMPLETED');
    expect(statuses()).toEqual(['succeeded']);
  });

  test('is declined without a return address, as it always was', async () => {
    expect((await pay({ returnUrl: undefined })).status).toBe(402);
  });

  test('is cancelled while it waits, and the bank can confirm nothing any more', async () => {
    const first = await pay();
    const cancelled = await cancel();
    expect([cancelled.status, cancelled.json()]).toEqual([200, 'Payment cancelled.']);
    expect((await answerAtBank(bankOf(first), 'confirm')).status).toBe(410);
    expect(statuses()).toEqual(['canceled']);
    expect((await pay({ source: 'pm_card_visa' }, 2)).status).not.toBe(200);
    expect(statuses()).toEqual(['canceled']);
  });

  test('takes another card after only the attempt was cancelled', async () => {
    const first = await pay();
    expect((await pay({ source: 'pm_card_visa' }, 2)).status).toBe(409);
    expect((await cancel('&only=attempt')).status).toBe(200);
    expect((await pay({ source: 'pm_card_visa' }, 2)).status).toBe(200);
    await answerAtBank(bankOf(first), 'confirm');
    expect(statuses()).toEqual(['canceled', 'succeeded']);
  });

  test('cannot be cancelled after it was confirmed, also before Idempay has asked', async () => {
    const first = await pay();
    await answerAtBank(bankOf(first), 'confirm');
    expect((await cancel()).status).toBe(422);
    expect(statuses()).toEqual(['succeeded']);
  });

  test('is paid, and not cancelled, if its charge had reached Stripe and only the reply was lost', async () => {
    environment.stripe.meet({ lostReplyRate: 1 });
    expect((await pay({ source: 'pm_card_visa' })).status).toBe(504);
    environment.stripe.meet({});
    const refused = await until('the refusal', FINAL_MS, async () => {
      const answer = await cancel();
      return answer.status !== 409 && answer.status !== 504 && answer;
    });
    expect(refused.status).toBe(422);
    expect(statuses()).toEqual(['succeeded']);
  });

  test('waits while the adapter is killed, and while Stripe does not answer', async () => {
    const first = await pay();
    await environment.restartAdapter();
    environment.stripe.meet({ latencyMs: 5_000 });
    await answerAtBank(bankOf(first), 'confirm');
    await pause(500);
    environment.stripe.meet({});
    await until('the end', FINAL_MS, async () => (await pay()).status === 200);
    expect(statuses()).toEqual(['succeeded']);
  });

  test('is declined when its time is over', async () => {
    const first = await pay();
    await environment.restartAdapter({ PENDING_SECONDS: '0' });
    const declined = await until('the decline', FINAL_MS, async () => {
      const answer = await pay();
      return answer.status === 402 && answer;
    });
    expect(declined.text).toContain('the payment was not confirmed in time');
    expect((await answerAtBank(bankOf(first), 'confirm')).status).toBe(410);
    await environment.restartAdapter();
  });
});
