import { randomUUID } from 'node:crypto';
import { expect, it, onTestFinished } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { todayUtc } from '#idempay/statements/days.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, type Ask, ask, generateKey, sendJson } from '../../testkit/client/http-client.js';
import { exportLines, resolvePayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openProcessedService, shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { storedText } from '../../testkit/protocol/stored-text.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const PRESENT = { ...MONEY, returnUrl: 'https://shop.example/orders/17/paid' };
const ASYNC = { Prefer: 'respond-async' };
const DEADLINE_MS = 20_000;
const SETTINGS = { LOG_LEVEL: 'trace', PROCESSOR_TIMEOUT_MS: '8000' };
const PROBLEM = { Accept: 'application/problem+json' };

interface Pending {
  readonly idempotencyKey: string;
  readonly pending: { readonly until: string; readonly action?: { readonly url: string } };
}

/** Rule P24. */
describeDeployments('a payment that waits for its payer', (deployment) => {
  const shared = shareProcessedService(deployment, { ...USUAL_BEHAVIOUR, pendingRate: 1 }, SETTINGS);
  const newOrder = () => `reference=order-${randomUUID()}`;
  const pay = (order: string, body: object = PRESENT, headers: Ask['headers'] = {}) =>
    sendJson(`${shared().url}/api/payment?${order}`, 'POST', body, headers);
  const read = (path: string) => ask(`${shared().url}${path}`);
  const keyOf = (answer: Answer) => String(answer.headers['idempotency-key']);
  const decide = (key: string, decision: 'confirm' | 'refuse') =>
    ask(`${shared().processor.url}/pending/${key}/${decision}`, { method: 'POST' });
  const untilStatus = (order: string, status: number) =>
    until(`${order} to be answered ${status}`, DEADLINE_MS, async () => (await pay(order)).status === status);

  /** The whole answer without the parts that belong to its own request. */
  const bytesOf = ({ status, headers, text }: Answer) => {
    const { date: _date, 'x-request-id': _id, 'idempotency-key': _key, ...rest } = headers;
    return { status, headers: rest, text };
  };

  it('is answered with 202, its record and what the payer can do, and again by its repeats', async () => {
    const order = newOrder();
    const first = await pay(order);
    expect(first.status, first.text).toBe(202);
    const { pending, ...record } = first.json<Pending>();
    const { pending: kept, ...shown } = await shownPaymentOf(shared().url, keyOf(first));
    expect(record).toEqual(shown);
    expect(kept).toEqual({ until: pending.until });
    expect(record).toMatchObject({ ...MONEY, state: 'PROCESSING', settledAt: null, executions: 1 });
    expect(record).toHaveProperty('processorId');
    expect(pending).toEqual({ until: expect.any(String), action: { url: expect.stringContaining('/pages/') } });
    expect(first.headers).toMatchObject({ 'cache-control': 'no-store', 'retry-after': '5', idempay: '1' });
    expect(first.headers).not.toHaveProperty('preference-applied');
    const repeat = await pay(order);
    expect([repeat.status, repeat.json()]).toEqual([202, first.json()]);
  });

  it('is paid once its payer has confirmed, and declined if the payer refused', async () => {
    const [one, other] = [newOrder(), newOrder()];
    const keys = [keyOf(await pay(one)), keyOf(await pay(other))] as const;
    await Promise.all([decide(keys[0], 'confirm'), decide(keys[1], 'refuse')]);
    await untilStatus(one, 200);
    await untilStatus(other, 402);
    const paid = await shownPaymentOf(shared().url, keys[0]);
    expect(paid).toMatchObject({ state: 'COMPLETED', processorId: expect.any(String) });
    expect(paid).not.toHaveProperty('pending');
    expect((await pay(`${other}&attempt=2`)).status).toBe(202);
    const succeeded = (await shared().processor.chargesOf(keys[0])).filter(({ status }) => status === 'succeeded');
    expect(succeeded).toHaveLength(1);
  });

  it('is word for word an unknown outcome for every other caller, whatever it prefers or waits for', async () => {
    const order = newOrder();
    const pending = await pay(order);
    const unknown = newOrder();
    await shared().processor.behave({ failRate: 1 });
    const expected = [await pay(unknown, MONEY), await pay(unknown, MONEY, PROBLEM)].map(bytesOf);
    await shared().processor.behave({ failRate: 0 });
    const actual = [await pay(order, MONEY), await pay(order, MONEY, PROBLEM)].map(bytesOf);
    expect(actual).toEqual(expected);
    expect(actual[0]?.status).toBe(504);
    const others = [
      await pay(order, MONEY, { Prefer: 'wait=1' }),
      await pay(order, MONEY, { Prefer: 'return=representation' }),
      await pay(order, MONEY, { Prefer: 'respond-asynchronously' }),
      await pay(order, { ...MONEY, description: 'one book' }),
      await sendJson(`${shared().url}/api/payment`, 'POST', MONEY, { 'Idempotency-Key': keyOf(pending) }),
    ];
    for (const { status } of others) expect(status).toBe(504);
    expectError(await read(`/api/payment-status?${order}`), 404);
  });

  it('may be asked for with Prefer: respond-async, which the answer then names', async () => {
    const order = newOrder();
    await pay(order);
    const answer = await pay(order, MONEY, { Prefer: 'wait=1, respond-async' });
    expect(answer.status).toBe(202);
    expect(answer.headers['preference-applied']).toBe('respond-async');
    expect((await pay(order, { ...MONEY, amount: '1.00' }, ASYNC)).status).toBe(422);
  });

  it('without a payer is never one that waits', async () => {
    expect((await pay(newOrder(), MONEY, ASYNC)).status).toBe(200);
  });

  it('by a key of its own names no key in the answer, and is repeated with it', async () => {
    const key = await generateKey(shared().url);
    const send = () => sendJson(`${shared().url}/api/payment`, 'POST', PRESENT, { 'Idempotency-Key': key });
    const first = await send();
    expect([first.status, first.json<Pending>().idempotencyKey]).toEqual([202, key]);
    expect(first.headers).not.toHaveProperty('idempotency-key');
    expect((await send()).status).toBe(202);
  });

  it('ends the wait of a request for another attempt as soon as it is pending', async () => {
    const order = newOrder();
    await shared().processor.behave({ latencyMs: 1_000 });
    const [first, second] = await Promise.all([
      pay(order),
      (async () => {
        await new Promise((resolve) => setTimeout(resolve, 300));
        return pay(order, PRESENT, { Prefer: 'wait=30' });
      })(),
    ]);
    await shared().processor.behave({ latencyMs: 0 });
    expect([first.status, second.status]).toEqual([202, 202]);
  });

  it('is answered with 503 of its own while the processor says nothing, and to the others with 504', async () => {
    const order = newOrder();
    await pay(order);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await shared().processor.behave({ refuseWith: 503 });
    const answers = [await pay(order, PRESENT, PROBLEM), await pay(order, MONEY)];
    await shared().processor.behave({ refuseWith: null });
    expect(answers[0]?.json()).toMatchObject({ type: '/problems#pending-unanswered', status: 503, charge: 'unknown' });
    expect(answers[0]?.headers['retry-after']).toBe('5');
    expect(answers[1]?.status).toBe(504);
  });

  it('keeps the next attempt from being made', async () => {
    const order = newOrder();
    const key = keyOf(await pay(order));
    const next = await pay(`${order}&attempt=2`, PRESENT, PROBLEM);
    expect(next.json()).toMatchObject({ type: '/problems#attempt-before-pending', status: 409 });
    expect(next.headers['idempay-attempt-state']).toBe('previous-pending');
    const issued = await ask(`${shared().url}/api/server-generated/generate-key?${order}&attempt=2`);
    expectError(issued, 409);
    expect(await shownPaymentOf(shared().url, key)).toMatchObject({ executions: 1 });
  });

  it('is in the list of pending payments, in the one of payments under way, and in the metrics', async () => {
    const order = newOrder();
    const key = keyOf(await pay(order));
    const listed = async (query: string) => (await read(`/api/payments?${query}`)).json<{ idempotencyKey: string }[]>();
    for (const query of ['pending=true', 'state=PROCESSING', 'pending=true&state=processing', order])
      expect(
        (await listed(query)).map(({ idempotencyKey }) => idempotencyKey),
        query,
      ).toContain(key);
    expect(await listed('pending=true&state=DECLINED')).toEqual([]);
    for (const wrong of ['false', '1', 'TRUE']) expectError(await read(`/api/payments?pending=${wrong}`), 400);
    const { text } = await read('/metrics');
    expect(text).toMatch(/^idempay_payments_total\{outcome="pending"\} [1-9]/m);
    await until('the gauge of pending payments', DEADLINE_MS, async () =>
      /^idempay_payments_pending [1-9]/m.test((await read('/metrics')).text),
    );
  });

  it('says in its timeline until when it waits, and writes nothing there for its polls', async () => {
    const order = newOrder();
    const key = keyOf(await pay(order));
    const timeline = async () => (await read(`/api/payments/${key}/timeline`)).json<{ events: object[] }>();
    const before = await timeline();
    expect(before).toMatchObject({
      events: [{ event: 'claimed' }, { event: 'pending', execution: 1, detail: expect.stringMatching(/^until 20/) }],
      next: { what: 'pending', text: expect.stringContaining('its end is expected by') },
    });
    for (let poll = 0; poll < 5; poll += 1) await pay(order);
    expect((await timeline()).events).toEqual(before.events);
  });

  it('may not be resolved before its time, and says why', async () => {
    const key = keyOf(await pay(newOrder()));
    const early = await resolvePayment(shared().url, key, { outcome: 'declined', reason: 'not there' });
    expectError(early, 409);
    expect(early.text).toContain('which is pending at the processor');
    expect(Number(early.headers['retry-after'])).toBeGreaterThan(3_600);
  });

  it.each([
    ['no text', 17],
    ['empty', ''],
    ['of another scheme', 'javascript:alert(1)'],
    ['over http to another machine', 'http://shop.example/'],
    ['with a blank', 'https://shop.example/a b'],
    ['without a host', 'https://'],
    ['in a lenient form', 'https:shop.example'],
    ['too long', `https://shop.example/${'a'.repeat(980)}`],
  ])('needs a return address that is an address: one that is %s is refused', async (_what, returnUrl) => {
    const answer = await pay(newOrder(), { ...MONEY, returnUrl });
    expectError(answer, 400);
    expect(answer.text).toContain("'returnUrl'");
  });

  it.each(['http://localhost:8080/back', 'http://127.0.0.1/back', `https://shop.example/${'a'.repeat(979)}`])(
    'may come back to %s',
    async (returnUrl) => {
      expect((await pay(newOrder(), { ...MONEY, returnUrl })).status).toBe(202);
    },
  );

  it('leaves its return address, its source and its action nowhere once it is final', async () => {
    const own = await openProcessedService(deployment, { ...USUAL_BEHAVIOUR, pendingRate: 1 }, SETTINGS);
    onTestFinished(own.close);
    const { service, stores, url, processor } = own;
    const pay = (order: string, body: object) => sendJson(`${url}/api/payment?${order}`, 'POST', body);
    const read = (path: string) => ask(`${url}${path}`);
    const order = newOrder();
    const secret = randomUUID();
    const body = { ...PRESENT, source: `tok_${secret}`, returnUrl: `https://shop.example/${secret}` };
    const first = await pay(order, body);
    const key = keyOf(first);
    const page = new URL(first.json<Pending>().pending.action?.url ?? '').pathname.split('/').at(-1) ?? '';
    expect(page).toMatch(/^[0-9a-f-]{36}$/);
    const paths = [key, `${key}/timeline`, `${key}/processor-answer`].map((path) => `/api/payments/${path}`);
    const shown = async () =>
      Promise.all([...paths, '/api/payments', '/api/payments?pending=true', '/metrics', '/api/live'].map(read));
    const pending = (await shown()).map(({ text }) => text).join('\n');
    await ask(`${processor.url}/pending/${key}/confirm`, { method: 'POST' });
    await until('the payment to be paid', DEADLINE_MS, async () => (await pay(order, body)).status === 200);
    const said = [pending, ...(await shown()).map(({ text }) => text), ...(await exportLines(url, todayUtc()))];
    // The embedded store writes its log into the file at the end.
    await service.stop();
    const { record, keyValueStore } = await storedText(stores);
    const everywhere = [record, keyValueStore, JSON.stringify(service.logs), ...said].join('\n');
    expect(everywhere).toContain(key);
    for (const text of [secret, page]) expect(everywhere.includes(text), text).toBe(false);
  });
});
