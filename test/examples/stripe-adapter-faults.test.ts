import { Idempay, UnknownOutcomeError } from '@idempay/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inParallel } from '../../testkit/concurrency.js';
import { openStripeEnvironment, type StripeEnvironment } from '../../testkit/deployments/stripe-environment.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';
import { pause } from '../../testkit/time/until.js';

/** STRIPE_PAYMENTS=1000 for a long run. */
const PAYMENTS = Number(process.env.STRIPE_PAYMENTS ?? 200);
const AT_ONCE = 16;
const KILLS = 6;
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
    const killing = (async () => {
      for (let kill = 0; kill < KILLS; kill += 1) {
        await pause(KILL_EVERY_MS);
        await environment.restartAdapter();
      }
    })();

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
});

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
