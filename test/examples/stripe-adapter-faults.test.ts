import { Idempay, UnknownOutcomeError } from '@idempay/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { inParallel } from '../../testkit/concurrency.js';
import { openStripeEnvironment, type StripeEnvironment } from '../../testkit/deployments/stripe-environment.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

/** STRIPE_PAYMENTS=1000 for a long run. */
const PAYMENTS = Number(process.env.STRIPE_PAYMENTS ?? 200);
const AT_ONCE = 16;
const KILLS = 6;
/** Half of them are cancelled at a moment that chance chooses. */
const ORDERS = Number(process.env.STRIPE_ORDERS ?? 80);
const CONFIRMED = 'pm_card_threeDSecure2Required';
/** An adapter says 404 only for what it has missed for a second: one that lives less long finishes nothing. */
const KILL_EVERY_MS = 4_000;

describe('the Stripe adapter under faults', WITHOUT_LIMIT, () => {
  let environment: StripeEnvironment;
  const random = seededRandom(seedFrom('STRIPE_SEED'));

  beforeAll(async () => {
    environment = await openStripeEnvironment(() => random.fraction());
  });
  afterAll(() => environment?.close());

  test('replies lost, rate limits, kept 500s, a search that lags, and the adapter killed: one charge for each key', async () => {
    const { stripe, url } = environment;
    stripe.meet({
      lostReplyRate: 0.1,
      rateLimitRate: 0.1,
      chargedAndFailedRate: 0.1,
      latencyMs: 50,
      searchLagMs: 3_000,
    });
    const idempay = new Idempay({ baseUrl: url, deadlineMs: 30_000 });
    const paid = new Map<string, string>();
    const killing = killRepeatedly();

    const payOne = async (number: number) => {
      const payment = { amount: `${100 + number}.50`, currency: 'USD' };
      paid.set(await payWhateverHappens(idempay, payment), payment.amount);
    };

    await inParallel(PAYMENTS, AT_ONCE, payOne).finally(() => killing);
    const charged = stripe.charges().map(({ metadata, amount }) => [metadata.idempay_reference, amount]);
    const expected = [...paid].map(([key, amount]) => [key, Number(amount.replace('.', ''))]);
    expect(charged.toSorted()).toEqual(expected.toSorted());
    expect(paid.size).toBe(PAYMENTS);
    console.log(`${PAYMENTS} payments, ${KILLS} kills of the adapter, ${stripe.requests.length} requests to Stripe`);
  });

  async function killRepeatedly(): Promise<void> {
    for (let kill = 0; kill < KILLS; kill += 1) {
      await pause(KILL_EVERY_MS);
      await environment.restartAdapter();
    }
  }

  test('payers who confirm, refuse and come back while orders are cancelled: no charge after a cancellation', async () => {
    const { stripe } = environment;
    stripe.meet({
      lostReplyRate: 0.1,
      rateLimitRate: 0.1,
      chargedAndFailedRate: 0.05,
      latencyMs: 30,
      searchLagMs: 3_000,
      processingMs: 2_000,
    });
    const killing = killRepeatedly();
    const played = new Map<string, Awaited<ReturnType<typeof playOrder>>>();
    const playOne = async (number: number) => {
      const order = `played-order-${number}`;
      played.set(order, await playOrder(order));
    };
    await inParallel(ORDERS, AT_ONCE, playOne).finally(() => killing);

    stripe.meet({});
    // Each payer comes back once more, to each page of a bank that was ever shown.
    for (const { banks } of played.values()) for (const bank of banks) await answerAtBank(bank, 'confirm');
    const counts = { paid: 0, declined: 0, cancelled: 0 };
    for (const [order, { end }] of played) {
      const charged = stripe.charges().filter(({ metadata }) => metadata.idempay_order === order);
      expect([order, end, charged.length]).toEqual([order, end, end === 'paid' ? 1 : 0]);
      counts[end] += 1;
    }
    console.log(`${ORDERS} orders: ${JSON.stringify(counts)}`);
    for (const count of Object.values(counts)) expect(count).toBeGreaterThan(0);
  });

  const answerAtBank = (url: string, answer: 'confirm' | 'refuse') =>
    ask(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: `answer=${answer}`,
    });

  /** Asks until an end is acknowledged. */
  async function playOrder(order: string) {
    const isCancelled = random.fraction() < 0.5;
    const source = random.fraction() < 0.2 ? 'pm_processing' : CONFIRMED;
    const banks = new Set<string>();
    for (;;) {
      const end = (isCancelled && (await perhapsCancel(order))) || (await payOnce(order, source, banks));
      if (end) return { end, banks };
      await pause(random.fraction() * 1_000);
    }
  }

  async function perhapsCancel(order: string) {
    if (random.fraction() > 0.3) return undefined;
    const cancellation = `${environment.url}/api/payment-cancellation?reference=${order}`;
    const { status } = await ask(cancellation, { method: 'POST' });
    return status === 200 ? ('cancelled' as const) : undefined;
  }

  async function payOnce(order: string, source: string, banks: Set<string>) {
    const body = { amount: '100.50', currency: 'USD', source, returnUrl: 'https://shop.example/back' };
    const answer = await sendJson(`${environment.url}/api/payment?reference=${order}`, 'POST', body);
    if (answer.status === 200) return 'paid' as const;
    if (answer.status === 402) return 'declined' as const;
    const bank = answer.status === 202 && answer.json<Pending>().pending.action?.url;
    if (!bank) return undefined;
    banks.add(bank);
    if (random.fraction() < 0.3) await answerAtBank(bank, random.fraction() < 0.5 ? 'confirm' : 'refuse');
    return undefined;
  }
});

interface Pending {
  readonly pending: { readonly action?: { readonly url: string } };
}

/** Returns the key. */
async function payWhateverHappens(idempay: Idempay, payment: { amount: string; currency: string }): Promise<string> {
  let key: string | undefined;
  const keep = (given: string) => {
    key = given;
  };
  for (;;) {
    try {
      const paying = key ? idempay.payments.resume(key, payment) : idempay.payments.pay(payment, { onKey: keep });
      return (await paying).key;
    } catch (fault) {
      if (!(fault instanceof UnknownOutcomeError)) throw fault;
    }
  }
}
