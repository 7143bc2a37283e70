import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createListener } from '#idempay/http/connections/listener.js';
import { createServer, type Features } from '#idempay/http/server.js';
import { decorated } from '#idempay/platform/decorated.js';
import { inState } from '../../testkit/protocol/payment-attempts.js';
import { MONEY, orderOf, shareProtocol } from '../../testkit/protocol/payment-composition.js';
import { ACTION } from '../../testkit/protocol/recording-processor.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** The answer to a request whose payment is pending, and its record, which is read after it (rules P17 and P24). */

const SECOND_MS = 1_000;

const { compose } = await shareProtocol();

/** A pending order, and the route in this process: `meanwhile` happens between the answer of the payments and its record. */
async function givenPending() {
  const clock = new HandClock(Date.now());
  const process = compose({ clock });
  const order = orderOf();
  await process.pendingPayment(order);
  let meanwhile = async () => {};
  const payments = decorated(process.payments, {
    pay:
      (next) =>
      async (...asked) => {
        const answer = await next(...asked);
        const happens = meanwhile;
        meanwhile = async () => {};
        await happens();
        return answer;
      },
  });
  const silent = pino({ level: 'silent' });
  const rules = { access: undefined, loopbackOnly: false, trustedNetworks: undefined };
  const features = { payments, paymentRecords: process.records, readiness: { isDraining: false } } as Features;
  const server = createServer(createListener(silent), features, rules, silent, () => {});
  return {
    ...process,
    clock,
    order,
    before: (happens: () => Promise<void>) => {
      meanwhile = happens;
    },
    async pay() {
      const { statusCode, body } = await server.inject({
        method: 'POST',
        url: `/api/payment?reference=${order.reference.text}`,
        payload: { ...MONEY, returnUrl: 'https://shop.example/back' },
      });
      return { status: statusCode, body: JSON.parse(body) };
    },
  };
}

/** Bug: the answer to this request was a 202 or a 409, and another request had been told the outcome before. */
test('a payment that ends before its record is read is answered with its outcome', async () => {
  const { payments, processor, clock, order, before, pay } = await givenPending();
  before(async () => {
    processor.decide(order.key, { state: 'succeeded', charged: MONEY });
    clock.advance(SECOND_MS);
    inState(await payments.pay(order, MONEY), 'processed');
  });
  expect(await pay()).toEqual({ status: 200, body: expect.stringMatching(/^Transaction ID: TXN\d+$/) });
});

test('a record has the end that the processor expects now, and not the one in the row', async () => {
  const { processor, clock, pay } = await givenPending();
  const untilMs = clock.now() + 86_400_000;
  clock.advance(SECOND_MS);
  processor.planLookUp({ state: 'pending', untilMs, action: ACTION });
  const pending = { until: new Date(untilMs).toISOString(), action: ACTION };
  expect(await pay()).toMatchObject({ status: 202, body: { pending } });
});
