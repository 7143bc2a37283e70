import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { openStripeEnvironment, type StripeEnvironment } from '../../testkit/deployments/stripe-environment.js';
import { lookUpCharge, sendCharge } from '../../testkit/processes/reference-processor.js';
import { pause, until } from '../../testkit/time/until.js';

const USD = { amount: '100.50', currency: 'USD' };
const RETURN_URL = 'https://shop.example/orders/17?from=bank';
const CONFIRMED = 'pm_card_threeDSecure2Required';
const CONFIRMED_DECLINED = 'pm_card_threeDSecureRequiredChargeDeclined';
const DEADLINE_MS = 10_000;
const NOT_AUTHENTICATED = /^We are unable to authenticate your payment method/;
/** A question takes up to five requests, on a machine that may be busy. */
const STRIPE_TIMEOUT_MS = '3000';
/** A time that is longer than any test. */
const NEVER_MS = 600_000;

/** The requests go straight to the adapter, because the effect of its replies is tested with Idempay. */
describe('the Stripe adapter, while a payer confirms', () => {
  let environment: StripeEnvironment;
  let key: string;

  beforeAll(async () => {
    environment = await openStripeEnvironment(undefined, { STRIPE_TIMEOUT_MS });
  });
  afterAll(() => environment?.close());
  beforeEach(() => {
    environment.stripe.meet({});
    key = randomUUID();
  });

  const intents = () => environment.stripe.intentsOf(key);
  const statuses = () => intents().map(({ status }) => status);
  const charge = (more: object = {}) =>
    environment.charge(key, { ...USD, source: CONFIRMED, returnUrl: RETURN_URL, ...more });
  const lookUp = (id?: string) =>
    id === undefined
      ? lookUpCharge(environment.adapterUrl, key)
      : ask(`${environment.adapterUrl}/charges/${key}?id=${id}`);
  const end = (id?: string, url = environment.adapterUrl) =>
    ask(`${url}/charges/${key}/ending`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ transactionId: 'TXN1', ...USD, ...(id !== undefined && { id }) }),
    });
  /** The holder's answer on the bank's page: the address to which the browser is sent. */
  const answerAtBank = async (url: string, answer: 'confirm' | 'refuse') => {
    const reply = await ask(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
      body: `answer=${answer}`,
    });
    return { status: reply.status, location: `${reply.headers.location}` };
  };
  const urlIn = (answer: Answer) => answer.json<{ action: { url: string } }>().action.url;
  /** A page that has the client secret, and a card. */
  const confirmByPage = (card: string) => {
    const [intent] = intents();
    return ask(`${environment.stripe.url}/v1/payment_intents/${intent?.id}/confirm`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${environment.stripe.publishableKey}`,
        'Content-Type': 'application/x-www-form-urlencoded',
      },
      body: `${new URLSearchParams({ client_secret: `${intent?.client_secret}`, payment_method: card })}`,
    });
  };

  test('a charge waits with the address of the bank, and succeeds after its holder confirmed there', async () => {
    const charged = await charge();
    const [intent] = intents();
    const about = { id: intent?.id, reference: key, amount: '100.50', currency: 'usd' };
    const until = new Date(((intent?.created ?? 0) + 3600) * 1000).toISOString();
    const url = expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/bank\//);
    expect([charged.status, charged.json()]).toEqual([202, { status: 'pending', until, action: { url }, ...about }]);
    const waiting = await lookUp();
    expect([waiting.status, waiting.json()]).toEqual([200, charged.json()]);

    const page = await ask(urlIn(charged));
    expect(page.text).toMatch(/Confirm<\/button>\s.*Refuse<\/button>/);
    const back = await answerAtBank(urlIn(charged), 'confirm');
    expect(back.status).toBe(303);
    expect(back.location).toContain(`${RETURN_URL}&payment_intent=${intent?.id}&payment_intent_client_secret=`);
    const paid = await lookUp(intent?.id);
    expect([paid.status, paid.json()]).toEqual([200, { status: 'succeeded', ...about }]);
    expect(statuses()).toEqual(['succeeded']);
  });

  test('a charge without a return address is declined at once if its card asks for its holder', async () => {
    const charged = await charge({ returnUrl: undefined });
    expect([charged.status, charged.json()]).toMatchObject([402, { status: 'declined', reason: /authentication/ }]);
    expect((await lookUp()).json()).toMatchObject({ status: 'declined' });
  });

  test('a card that asks for nobody is charged at once, also with a return address', async () => {
    expect((await charge({ source: 'pm_card_visa' })).json()).toMatchObject({ status: 'succeeded' });
    const other = await sendCharge(environment.adapterUrl, randomUUID(), {
      transactionId: 'TXN1',
      ...USD,
      source: 'pm_card_chargeDeclined',
      returnUrl: RETURN_URL,
    });
    expect([other.status, other.json()]).toMatchObject([402, { reason: 'Your card was declined.' }]);
  });

  test('the client secret is the action if the page asks for it', async () => {
    const charged = await charge({ metadata: { idempay_action: 'clientSecret' } });
    const { client_secret: clientSecret } = intents()[0] as { client_secret: string };
    expect(charged.json()).toMatchObject({ status: 'pending', action: { clientSecret } });
    expect((await lookUp()).json()).toMatchObject({ status: 'pending', action: { clientSecret } });
    expect(charged.text).not.toContain('"url"');
    await confirmByPage('pm_card_visa');
    expect((await lookUp()).json()).toMatchObject({ status: 'succeeded' });
  });

  test('a refused confirmation is cancelled before it is declined, so it cannot be confirmed once more', async () => {
    const charged = await charge();
    const back = await answerAtBank(urlIn(charged), 'refuse');
    expect(back.location).toContain('redirect_status=failed');
    expect(statuses()).toEqual(['requires_payment_method']);
    const reason = expect.stringMatching(NOT_AUTHENTICATED);
    for (const found of [await lookUp(), await lookUp(intents()[0]?.id)]) {
      expect([found.status, found.json()]).toMatchObject([200, { status: 'declined', reason }]);
    }
    expect(statuses()).toEqual(['canceled']);
    expect((await ask(urlIn(charged))).status).toBe(410);
    expect((await answerAtBank(urlIn(charged), 'confirm')).status).toBe(410);
    const again = await confirmByPage('pm_card_visa');
    expect([again.status, again.json()]).toMatchObject([400, { error: { code: 'payment_intent_unexpected_state' } }]);
    expect(environment.stripe.charges()).not.toContainEqual(expect.objectContaining({ id: intents()[0]?.id }));
  });

  test('a second confirmation after a refusal, which comes before the look-up, is a success', async () => {
    const charged = await charge();
    await answerAtBank(urlIn(charged), 'refuse');
    await confirmByPage('pm_card_visa');
    expect((await lookUp()).json()).toMatchObject({ status: 'succeeded' });
  });

  test('a second confirmation may ask for the holder again: the payment waits on', async () => {
    const charged = await charge();
    await answerAtBank(urlIn(charged), 'refuse');
    await confirmByPage(CONFIRMED);
    expect((await lookUp()).json()).toMatchObject({ status: 'pending', action: { url: urlIn(charged) } });
    await answerAtBank(urlIn(charged), 'confirm');
    expect((await lookUp()).json()).toMatchObject({ status: 'succeeded' });
  });

  test('a card that is declined after its holder confirmed is cancelled too', async () => {
    const charged = await charge({ source: CONFIRMED_DECLINED });
    await answerAtBank(urlIn(charged), 'confirm');
    expect((await lookUp()).json()).toMatchObject({ status: 'declined', reason: 'Your card was declined.' });
    expect(statuses()).toEqual(['canceled']);
  });

  test('a decline is not reported while the cancellation has no known result', async () => {
    const charged = await charge();
    await answerAtBank(urlIn(charged), 'refuse');
    environment.stripe.meet({ failedRate: 1 });
    expect((await lookUp()).status).toBe(502);
    environment.stripe.meet({ latencyMs: NEVER_MS });
    expect((await lookUp()).status).toBe(504);
    environment.stripe.meet({ lostReplyRate: 1 });
    expect((await lookUp()).status).toBe(504);
    environment.stripe.meet({});
    expect((await lookUp()).json()).toMatchObject({ status: 'declined' });
  });

  test('a payment in processing is pending without an action, with and without a payer', async () => {
    environment.stripe.meet({ processingMs: 1_000 });
    const charged = await charge({ source: 'pm_processing', returnUrl: undefined });
    expect([charged.status, charged.json()]).toMatchObject([202, { status: 'pending' }]);
    expect(charged.json()).not.toHaveProperty('action');
    const ending = await end();
    expect([ending.status, ending.json()]).toMatchObject([409, { status: 'processing', reference: key }]);
    const final = await until('the end of processing', DEADLINE_MS, async () => {
      const { status } = (await lookUp()).json<{ status: string }>();
      return status !== 'pending' && status;
    });
    expect(final).toBe('succeeded');
  });

  test('a repeat of a charge gets its state of now, not the reply that Stripe kept', async () => {
    const charged = await charge();
    expect((await charge()).json()).toEqual(charged.json());
    await answerAtBank(urlIn(charged), 'confirm');
    const again = await charge();
    expect([again.status, again.json()]).toMatchObject([200, { status: 'succeeded' }]);
    expect(intents()).toHaveLength(1);
  });

  test('a payment waits through a restart of the adapter, and a look-up after its time ends it', async () => {
    environment.stripe.meet({ searchLagMs: NEVER_MS });
    const charged = await charge();
    await environment.restartAdapter();
    expect((await lookUp()).json()).toEqual(charged.json());
    expect(statuses()).toEqual(['requires_action']);
    await environment.restartAdapter({ PENDING_SECONDS: '0' });
    const reason = 'the payment was not confirmed in time';
    expect((await lookUp()).json()).toMatchObject({ status: 'declined', reason });
    expect((await charge()).json()).toMatchObject({ status: 'declined', reason });
    expect(intents()).toMatchObject([{ status: 'canceled', cancellation_reason: 'abandoned' }]);
    await environment.restartAdapter();
  });

  test('a look-up by a name that is not of this payment is an alarm', async () => {
    await charge();
    const other = await sendCharge(environment.adapterUrl, randomUUID(), { transactionId: 'TXN1', ...USD });
    const { id } = other.json<{ id: string }>();
    for (const name of [id, 'pi_ofAnotherAccount']) {
      expect((await lookUp(name)).status).toBe(422);
      expect((await end(name)).status).toBe(422);
    }
    expect(statuses()).toEqual(['requires_action']);
    expect((await lookUp('ch_of-another-adapter')).json()).toMatchObject({ status: 'pending' });
  });

  test('a look-up by its name asks Stripe once', async () => {
    await charge();
    const [intent] = intents();
    const before = environment.stripe.requests.length;
    await lookUp(intent?.id);
    expect(environment.stripe.requests.slice(before)).toEqual([
      { method: 'GET', path: `/v1/payment_intents/${intent?.id}` },
    ]);
  });

  test('has neither the return address, nor the source, nor the action in its log', async () => {
    const message = `Not a valid URL: ${RETURN_URL} for ${CONFIRMED}`;
    environment.stripe.meet({ refusal: { status: 400, error: { type: 'invalid_request_error', message } } });
    const refused = await charge();
    expect([refused.status, refused.text]).toEqual([422, expect.stringContaining('(the return address)')]);
    environment.stripe.meet({});
    key = randomUUID();
    const charged = await charge();
    environment.stripe.meet({ failedRate: 1 });
    expect((await end()).status).toBe(425);
    await until('the lines in the log', DEADLINE_MS, () =>
      environment.adapterLogs().some(({ path }) => `${path}`.includes(key)),
    );
    const logged = JSON.stringify(environment.adapterLogs());
    for (const secret of [RETURN_URL, CONFIRMED, urlIn(charged), `${intents()[0]?.client_secret}`]) {
      expect(logged).not.toContain(secret);
    }
  });

  describe('an ending', () => {
    const DECLINED = { status: 'declined', reason: 'the payment was cancelled' };

    test('cancels a payment that waits, and the bank can confirm nothing any more', async () => {
      const charged = await charge();
      const [intent] = intents();
      const ending = await end(intent?.id);
      const about = { id: intent?.id, reference: key, amount: '100.50', currency: 'usd' };
      expect([ending.status, ending.json()]).toEqual([200, { ...DECLINED, ...about }]);
      expect(ending.headers['idempay-contract']).toBe('3');
      expect((await answerAtBank(urlIn(charged), 'confirm')).status).toBe(410);
      expect((await end()).json()).toMatchObject(DECLINED);
      expect((await lookUp()).json()).toMatchObject(DECLINED);
      expect((await charge()).json()).toMatchObject(DECLINED);
      expect(intents()).toMatchObject([{ status: 'canceled', cancellation_reason: 'requested_by_customer' }]);
    });

    test('of a payment that has succeeded says so', async () => {
      const charged = await charge();
      await answerAtBank(urlIn(charged), 'confirm');
      const ending = await end();
      expect([ending.status, ending.json()]).toMatchObject([200, { status: 'succeeded', amount: '100.50' }]);
    });

    test('that meets a confirmation on its way reports what Stripe says', async () => {
      const charged = await charge();
      environment.stripe.meet({ latencyMs: 300 });
      const ending = end(intents()[0]?.id);
      await pause(100);
      await answerAtBank(urlIn(charged), 'confirm');
      expect((await ending).json()).toMatchObject({ status: 'succeeded' });
    });

    test.each([
      ['at the same adapter', false],
      ['at another adapter', true],
    ])('holds against a charge that arrives later %s', async (_, isElsewhere) => {
      const ending = await end();
      expect([ending.status, ending.json()]).toMatchObject([200, DECLINED]);
      const other = isElsewhere ? await environment.startAnotherAdapter() : undefined;
      if (!other) await environment.restartAdapter();
      environment.stripe.meet({ searchLagMs: NEVER_MS });
      const body = { transactionId: 'TXN1', ...USD, source: 'pm_card_visa' };
      const charged = await sendCharge(other?.url ?? environment.adapterUrl, key, body);
      expect([charged.status, charged.json()]).toMatchObject([402, DECLINED]);
      expect((await lookUp()).json()).toMatchObject(DECLINED);
      expect(statuses()).toEqual(['canceled']);
      await other?.kill();
    });

    test('during a charge at Stripe is unknown, and then says that the charge has succeeded', async () => {
      environment.stripe.meet({ latencyMs: 400 });
      const charging = charge({ source: 'pm_card_visa' });
      await pause(150);
      expect((await end()).status).toBe(425);
      expect((await charging).json()).toMatchObject({ status: 'succeeded' });
      environment.stripe.meet({});
      expect((await end()).json()).toMatchObject({ status: 'succeeded' });
      expect(intents()).toHaveLength(1);
    });

    test('that came to the first of its two requests is finished by a look-up, by a charge, or by itself', async () => {
      const finishes = [lookUp, () => charge({ source: 'pm_card_visa' }), () => end()];
      for (const finish of finishes) {
        key = randomUUID();
        environment.stripe.meet({ lostReplyRate: 1 });
        expect((await end()).status).toBe(425);
        await environment.restartAdapter();
        expect(statuses()).toEqual(['requires_payment_method']);
        environment.stripe.meet({});
        expect((await finish()).json()).toMatchObject(DECLINED);
        expect(statuses()).toEqual(['canceled']);
      }
    });

    test.each([
      ['a lost reply', { lostReplyRate: 1 }],
      ['a fault', { failedRate: 1 }],
      ['a rate limit', { rateLimitRate: 1 }],
      ['no answer in time', { latencyMs: NEVER_MS }],
    ])('of which Stripe gives %s is unknown, and asked for again', async (_, conditions) => {
      await charge();
      environment.stripe.meet(conditions);
      const ending = await end(intents()[0]?.id);
      expect(ending.status).toBe(425);
      environment.stripe.meet({});
      expect((await end()).json()).toMatchObject(DECLINED);
    });

    test('is an alarm if the key of Stripe may not cancel', async () => {
      await charge();
      const error = { type: 'invalid_request_error', message: 'The key does not have the required permissions.' };
      environment.stripe.meet({ refusal: { status: 403, error } });
      expect((await end()).status).toBe(422);
      key = randomUUID();
      expect((await end()).status).toBe(422);
    });

    test.each([
      ['5.124', 'KWD'],
      ['0.20', 'USD'],
    ])('of %s %s, which Stripe never takes, is declined', async (amount, currency) => {
      const ending = await ask(`${environment.adapterUrl}/charges/${key}/ending`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ transactionId: 'TXN1', amount, currency }),
      });
      expect([ending.status, ending.json()]).toMatchObject([200, { status: 'declined' }]);
      expect(intents()).toEqual([]);
    });

    test.each([
      ['no JSON', 'x'],
      ['no amount', JSON.stringify({ transactionId: 'TXN1', currency: 'USD' })],
    ])('with %s is refused', async (_, body) => {
      const headers = { 'Content-Type': 'application/json' };
      const url = `${environment.adapterUrl}/charges/${key}/ending`;
      expect((await ask(url, { method: 'POST', headers, body })).status).toBe(400);
    });

    test('and a charge that race at two adapters leave one PaymentIntent, of which both say the same', async () => {
      const other = await environment.startAnotherAdapter();
      for (let round = 0; round < 20; round += 1) {
        key = randomUUID();
        const charging = charge({ source: 'pm_card_visa' });
        await pause(round);
        const ending = end(undefined, other.url);
        const answers = await Promise.all([charging, ending]);
        const final = await until('the ending', DEADLINE_MS, async () => {
          const again = await end(undefined, other.url);
          return again.status === 200 && again.json<{ status: string }>().status;
        });
        expect(statuses()).toEqual([final === 'succeeded' ? 'succeeded' : 'canceled']);
        const outcomes = answers.filter(({ status }) => status === 200 || status === 402);
        for (const answer of outcomes) expect(answer.json()).toMatchObject({ status: final });
      }
      await other.kill();
    });
  });

  /** A look-up that read lists until its time was over was never answered at a busy account, and neither was an ending. */
  test('is ended, or looked for by the search alone, if the lists take longer than there is time', async () => {
    environment.stripe.meet({ listLatencyMs: NEVER_MS });
    expect((await lookUp()).status).toBe(425);
    expect((await end()).json()).toMatchObject({ status: 'declined' });
    const charged = await until('the search to show the ending', DEADLINE_MS, async () => {
      const { status } = await charge();
      return status !== 504 && status;
    });
    expect(charged).toBe(402);
    expect(statuses()).toEqual(['canceled']);
  });
});
