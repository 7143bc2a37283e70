import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { USUAL_BEHAVIOUR } from '#idempay/reference-processor/behaviour.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const LINE = { amount: '12.50', currency: 'USD', reason: 'returned' };
const FIRST = /^"Refund processed successfully with Transaction ID: TXN\d+"$/;

/** Rule P26. */
describeDeployments('a refund over HTTP', (deployment) => {
  const shared = shareProcessedService(deployment, USUAL_BEHAVIOUR);
  const refund = (query: string, body: object | undefined = LINE, headers: Record<string, string> = {}) =>
    sendJson(`${shared().url}/api/refund?${query}`, 'POST', body, headers);
  const refundKeyOf = (answer: Answer) => String(answer.headers['idempay-refund-key']);
  const refundsOf = async (key: string) =>
    (await ask(`${shared().url}/api/payments/${key}/refunds`)).json<Record<string, unknown>[]>();
  const behave = (patch: object) => shared().processor.behave(patch);

  async function givenPaid() {
    const order = `order-${randomUUID()}`;
    const answer = await sendJson(`${shared().url}/api/payment?reference=${order}`, 'POST', MONEY);
    expect(answer.status, answer.text).toBe(200);
    return { order, key: String(answer.headers['idempotency-key']) };
  }

  it('is made once for each name, by the order or by the key', async () => {
    const { order, key } = await givenPaid();
    const first = await refund(`reference=${order}&refund=line-2`);
    expect([first.status, first.text]).toEqual([200, expect.stringMatching(FIRST)]);
    expect(first.headers).toMatchObject({ 'idempotency-key': key, 'cache-control': 'no-store' });
    const transactionId = /TXN\d+/.exec(first.text)?.[0];
    for (const query of [`reference=${order}&refund=line-2`, 'refund=line-2']) {
      const repeat = await refund(query, LINE, query.startsWith('refund') ? { 'Idempotency-Key': key } : {});
      expect([repeat.status, repeat.text]).toEqual([200, `"Transaction ID: ${transactionId}"`]);
      expect(repeat.headers['idempotent-replayed']).toBe('true');
      expect(refundKeyOf(repeat)).toBe(refundKeyOf(first));
    }
    expect(await shared().processor.refundsOf(key)).toMatchObject([
      { reference: refundKeyOf(first), charge: key, amount: '12.50', currency: 'USD', status: 'succeeded' },
    ]);
  });

  it('is shown: in the payment, in its refunds, in lists by kind, and with its own timeline', async () => {
    const { order, key } = await givenPaid();
    expect(await shownPaymentOf(shared().url, key)).not.toHaveProperty('refunded');
    const refundKey = refundKeyOf(await refund(`reference=${order}&refund=line-2`));
    expect(await shownPaymentOf(shared().url, key)).toMatchObject({ state: 'COMPLETED', refunded: '12.50' });
    const record = {
      ...{ idempotencyKey: refundKey, state: 'COMPLETED', amount: '12.50', currency: 'USD' },
      refund: { payment: key, name: 'line-2', reason: 'returned' },
    };
    expect(await refundsOf(key)).toMatchObject([record]);
    const listed = async (kind: string) =>
      (await ask(`${shared().url}/api/payments?find=${refundKey}${kind}`)).json<unknown[]>();
    expect(await listed('')).toEqual([]);
    expect(await listed('&kind=payment')).toEqual([]);
    for (const kind of ['refund', 'all']) expect(await listed(`&kind=${kind}`)).toMatchObject([record]);
    const timeline = await ask(`${shared().url}/api/payments/${refundKey}/timeline`);
    expect(timeline.json()).toMatchObject({ state: 'COMPLETED', next: { what: 'replayed' } });
    expect(timeline.text).toContain('"event":"refunded"');
  });

  it('is listed by the reference of its order if the kind is named, page by page', async () => {
    const { order, key } = await givenPaid();
    const keys = [key];
    for (const name of ['line-1', 'line-2']) keys.push(refundKeyOf(await refund(`reference=${order}&refund=${name}`)));
    await refund(`reference=${(await givenPaid()).order}&refund=line-1`);
    const listed = async (query: string) => {
      const answer = await ask(`${shared().url}${query}`);
      expect(answer.status, answer.text).toBe(200);
      const next = /<([^>]+)>; rel="next"/.exec(`${answer.headers.link}`)?.[1];
      return { keys: answer.json<{ idempotencyKey: string }[]>().map((each) => each.idempotencyKey), next };
    };
    const newestFirst = keys.toReversed();
    const ofOrder = `/api/payments?reference=${order}`;
    for (const kind of ['', '&kind=payment']) expect((await listed(ofOrder + kind)).keys).toEqual([key]);
    expect((await listed(`${ofOrder}&kind=refund`)).keys).toEqual(newestFirst.slice(0, 2));
    expect((await listed(`${ofOrder}&kind=all`)).keys).toEqual(newestFirst);
    expect((await listed(`${ofOrder}&kind=all&state=PROCESSING`)).keys).toEqual([]);
    const paged: string[] = [];
    for (let next: string | undefined = `${ofOrder}&kind=all&limit=1`; next !== undefined; ) {
      const page = await listed(next);
      paged.push(...page.keys);
      next = page.next;
    }
    expect(paged).toEqual(newestFirst);
    expect((await listed('/api/payments?reference=order-of-nobody&kind=all')).keys).toEqual([]);
    expectError(await ask(`${shared().url}/api/payments?reference=&kind=all`), 400);
  });

  it('with Prefer: return=representation is answered with its record', async () => {
    const { order } = await givenPaid();
    const answer = await refund(`reference=${order}&refund=line-2`, LINE, { Prefer: 'return=representation' });
    expect(answer.headers['preference-applied']).toBe('return=representation');
    expect(answer.json()).toMatchObject({ state: 'COMPLETED', refund: { name: 'line-2' } });
  });

  it('has a key that no endpoint takes for a payment', async () => {
    const { order } = await givenPaid();
    const key = refundKeyOf(await refund(`reference=${order}&refund=line-2`));
    const named = { 'Idempotency-Key': key };
    expectError(await sendJson(`${shared().url}/api/payment`, 'POST', LINE, named), 400);
    expectError(await ask(`${shared().url}/api/payment-status`, { headers: named }), 404);
    expectError(await ask(`${shared().url}/api/payment-cancellation`, { method: 'POST', headers: named }), 400);
    expectError(await ask(`${shared().url}/api/payments/${key}`), 404);
    expectError(await ask(`${shared().url}/api/payments/${key}/refunds`), 404);
    expectError(await refund('refund=line-3', LINE, named), 404);
  });

  it('beyond what is left says how much is left, and gives nothing back', async () => {
    const { order, key } = await givenPaid();
    await refund(`reference=${order}&refund=line-1`, { ...LINE, amount: '90.00' });
    const answer = await refund(`reference=${order}&refund=line-2`);
    expectError(answer, 422);
    expect(answer.text).toContain('10.50 USD left');
    expect(await refundsOf(key)).toHaveLength(1);
  });

  it.each([
    ['another amount', { amount: '12.51', currency: 'USD' }, 422],
    ['another currency', { amount: '12.50', currency: 'EUR' }, 422],
    ['no amount', { currency: 'USD' }, 400],
    ['no currency', { amount: '12.50' }, 400],
    ['a negative amount', { amount: '-12.50', currency: 'USD' }, 400],
    ['too many decimals', { amount: '12.501', currency: 'USD' }, 400],
    ['nothing', { amount: '0.00', currency: 'USD' }, 400],
    ['a reason that is no text', { ...LINE, reason: 7 }, 400],
    ['an empty reason', { ...LINE, reason: '' }, 400],
    ['a long reason', { ...LINE, reason: 'x'.repeat(256) }, 400],
  ])('with %s is refused under a name that was used, and nothing changes', async (_what, body, status) => {
    const { order, key } = await givenPaid();
    await refund(`reference=${order}&refund=line-2`);
    expectError(await refund(`reference=${order}&refund=line-2`, body), status);
    expect(await shared().processor.refundsOf(key)).toHaveLength(1);
  });

  it.each(['', 'refund=', 'refund=line-', 'refund=line-undefined', 'refund=a%20b', 'refund=a&refund=b', 'Refund=a'])(
    'with the query %j is refused before anything is written',
    async (query) => {
      const { order, key } = await givenPaid();
      expectError(await refund(`reference=${order}&${query}`), 400);
      expectError(await refund(query, LINE, { 'Idempotency-Key': key }), 400);
      expect(await refundsOf(key)).toEqual([]);
    },
  );

  it('that names its payment twice, not at all, or by an attempt is refused', async () => {
    const { order, key } = await givenPaid();
    expectError(await refund(`reference=${order}&refund=line-2`, LINE, { 'Idempotency-Key': key }), 400);
    expectError(await refund(`reference=${order}&attempt=1&refund=line-2`), 400);
    expectError(await refund('refund=line-2'), 400);
    expect(await refundsOf(key)).toEqual([]);
  });

  it('of an unknown, a cancelled and a declined payment is refused', async () => {
    expectError(await refund(`reference=order-${randomUUID()}&refund=line-2`), 404);
    expectError(await refund('refund=line-2', LINE, { 'Idempotency-Key': randomUUID() }), 404);
    const closed = `order-${randomUUID()}`;
    await ask(`${shared().url}/api/payment-cancellation?reference=${closed}`, { method: 'POST' });
    expectError(await refund(`reference=${closed}&refund=line-2`), 422);
    const declined = `order-${randomUUID()}`;
    await behave({ declineRate: 1 });
    await sendJson(`${shared().url}/api/payment?reference=${declined}`, 'POST', MONEY);
    await behave({ declineRate: 0 });
    const answer = await refund(`reference=${declined}&refund=line-2`);
    expectError(answer, 422);
    expect(answer.text).toContain('DECLINED');
  });

  it('that is declined is 402, tells programs that nothing was given back, and frees its part', async () => {
    const { order, key } = await givenPaid();
    await behave({ declineRate: 1 });
    const whole = { amount: '100.50', currency: 'USD' };
    expectError(await refund(`reference=${order}&refund=line-1`, whole), 402);
    await behave({ declineRate: 0 });
    const again = await refund(`reference=${order}&refund=line-1`, whole, { Accept: 'application/problem+json' });
    expect([again.status, again.json()]).toMatchObject([402, { type: '/problems#refund-declined', refund: 'none' }]);
    expect(again.json()).not.toHaveProperty('charge');
    expect(await shownPaymentOf(shared().url, key)).toMatchObject({ refunded: '0.00' });
    expect((await refund(`reference=${order}&refund=line-2`, whole)).status).toBe(200);
  });

  it('whose reply is lost is 504, and the same again finds it', async () => {
    const { order, key } = await givenPaid();
    await behave({ lostReplyRate: 1 });
    const lost = await refund(`reference=${order}&refund=line-2`, LINE, { Accept: 'application/problem+json' });
    await behave({ lostReplyRate: 0 });
    expect([lost.status, lost.json()]).toMatchObject([504, { refund: 'unknown' }]);
    expect((await refund(`reference=${order}&refund=line-2`)).status).toBe(200);
    expect(await shared().processor.refundsOf(key)).toHaveLength(1);
  });

  it('that takes time is 202 for everybody, and then its outcome', async () => {
    const { order, key } = await givenPaid();
    await behave({ refundPendingRate: 1 });
    const pending = await refund(`reference=${order}&refund=line-2`);
    await behave({ refundPendingRate: 0 });
    expect([pending.status, pending.json()]).toMatchObject([
      202,
      { state: 'PROCESSING', refund: { payment: key, name: 'line-2' }, pending: { until: expect.any(String) } },
    ]);
    expect(pending.headers['retry-after']).toMatch(/^\d+$/);
    expect((await refund(`reference=${order}&refund=line-2`)).status).toBe(202);
    await ask(`${shared().processor.url}/pending/${refundKeyOf(pending)}/confirm`, { method: 'POST' });
    await expect
      .poll(async () => (await refund(`reference=${order}&refund=line-2`)).status, { timeout: 20_000, interval: 300 })
      .toBe(200);
    expect(await shared().processor.refundsOf(key)).toHaveLength(1);
  });

  it('is exported by kind, with sums of its own in the last line', async () => {
    const { order } = await givenPaid();
    const refundKey = refundKeyOf(await refund(`reference=${order}&refund=line-2`));
    const day = new Date().toISOString().slice(0, 10);
    const linesOf = async (kind: string) =>
      (await ask(`${shared().url}/api/payments/export?day=${day}${kind}`)).text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { idempotencyKey?: string; refund?: object; count?: number });
    const has = (lines: { idempotencyKey?: string }[]) => lines.some((line) => line.idempotencyKey === refundKey);
    const [usual, refunds, all] = [await linesOf(''), await linesOf('&kind=refund'), await linesOf('&kind=all')];
    expect([has(usual), has(refunds), has(all)]).toEqual([false, true, true]);
    expect(usual.at(-1)).not.toHaveProperty('refundSums');
    for (const lines of [refunds, all])
      expect(lines.at(-1)).toMatchObject({ end: true, refundSums: { USD: expect.any(String) } });
    // The count of the last line has both kinds.
    for (const lines of [usual, refunds, all]) expect(lines.at(-1)?.count).toBe(lines.length - 1);
    const kinds = (lines: { refund?: object }[]) =>
      new Set(lines.slice(0, -1).map(({ refund }) => refund !== undefined));
    expect([kinds(usual), kinds(refunds), kinds(all)]).toEqual([
      new Set([false]),
      new Set([true]),
      new Set([false, true]),
    ]);
    expectError(await ask(`${shared().url}/api/payments/export?day=${day}&kind=refunds`), 400);
  });
});
