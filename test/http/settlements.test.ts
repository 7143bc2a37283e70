import { expect, it } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { scrape, sumOf } from '../../testkit/client/metrics.js';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { readPayment } from '../../testkit/client/payment-records.js';
import { readSettlements, untilShown, waitForSettlements } from '../../testkit/client/settlements.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { changeStored } from '../../testkit/protocol/stored-rows.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const MONEY = { amount: '100.50', currency: 'USD' };
const LINE = { amount: '12.50', currency: 'USD' };
const keysOf = (page: Awaited<ReturnType<typeof readSettlements>>) =>
  page.settlements.map(({ idempotencyKey }) => idempotencyKey);
const now = async (url: string) => (await readSettlements(url, 'after=now')).next;
/** The key in a cursor, which nobody else should read. */
const placeIn = (cursor: string) => Buffer.from(cursor, 'base64url').toString();

const REFUSED: readonly [query: string, message: RegExp][] = [
  ['cursor=x', /^'cursor' is not a query parameter of this path\. Use after, from, kind, limit, client\.$/],
  ['after=', /^'after' must be 'now', or the 'next' of a page\.$/],
  ['after=NOW', /^'after' must be/],
  [`after=${Buffer.from('0123456789abcdef.12.x').toString('base64url')}`, /^'after' must be/],
  [`after=${Buffer.from('0123456789abcdef.1e3').toString('base64url')}`, /^'after' must be/],
  ['from=', /^'from' must be/],
  ['from=2026-02-30', /^'from' must be/],
  ['after=now&from=2026-11-20', /^'after' has a place already/],
  ['kind=refunds', /^'kind' must be one of payment, refund, all/],
  ['limit=1001', /^'limit' must be a whole number from 1 to 1000/],
  ['limit=0', /^'limit' must be/],
  ['client=', /^'client' must be a client/],
  ['after=now&after=now', /'after' .*sent only once/],
];

describeDeployments('GET /api/settlements', (deployment) => {
  const shared = shareService(deployment);

  it.each(REFUSED)('refuses %s', async (query, message) => {
    expectError(await ask(`${shared.url}/api/settlements?${query}`), 400, message);
  });

  it('asks no store for it before somebody reads, and shows its readers in the metrics', async () => {
    const { url } = shared;
    await givenPaid(url);
    const named = async () =>
      (await scrape(url)).filter(({ labels }) =>
        /^settlement(s|_clock$|_w)/.test(labels.operation ?? labels.statement ?? ''),
      );
    expect(await named()).toEqual([]);
    const readers = async () => sumOf(await scrape(url), 'idempay_settlement_readers');
    expect(await readers()).toBe(0);
    const begin = await now(url);
    const key = await generateKey(url);
    const waiting = untilShown(url, begin, key);
    await until('the reader to wait', DEADLINE_MS, async () => (await readers()) === 1);
    await pay(url, key);
    expect((await waiting).record.state).toBe('COMPLETED');
    expect(await readers()).toBe(0);
  });

  it('tells a waiting reader of a payment and shows it as its record is; the next page goes on after it', async () => {
    const { url } = shared;
    const key = await generateKey(url);
    const waiting = untilShown(url, await now(url), key);
    await pay(url, key);
    const { record, next } = await waiting;
    expect(record).toEqual((await readPayment(url, key)).json());
    const other = await generateKey(url);
    await pay(url, other);
    expect(keysOf(await waitForSettlements(url, next))).toEqual([other]);
  });

  it('answers without a wait at once, with a cursor that goes on', async () => {
    const { url } = shared;
    const before = await generateKey(url);
    const begin = await now(url);
    await pay(url, before);
    const { next } = await untilShown(url, begin, before);
    const page = await readSettlements(url, `after=${next}`);
    expect(page.settlements).toEqual([]);
    const key = await generateKey(url);
    await pay(url, key);
    expect(keysOf(await waitForSettlements(url, page.next))).toEqual([key]);
  });

  it('begins with the oldest settlement, or with one of a time, to the microsecond', async () => {
    const { url } = shared;
    const key = await generateKey(url);
    const begin = await now(url);
    await pay(url, key);
    const { record: own } = await untilShown(url, begin, key);
    const from = await readSettlements(url, `from=${own.settledAt}`);
    expect(keysOf(from)).toContain(key);
    const later = new Date(Date.parse(own.settledAt as string) + 60_000).toISOString();
    expect(keysOf(await readSettlements(url, `from=${later}`))).toEqual([]);
    const keys: string[] = [];
    for (let page = await readSettlements(url, 'limit=2'); page.settlements.length > 0; ) {
      keys.push(...keysOf(page));
      page = await readSettlements(url, `limit=2&after=${page.next}`);
    }
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).toContain(key);
  });
});

describeDeployments('GET /api/settlements with AUTH=required', async (deployment) => {
  const shop = credentialOf('shop', ['payments:write', 'payments:read', 'refunds:write']);
  const rival = credentialOf('rival', ['payments:write', 'payments:read']);
  const writer = credentialOf('writer', ['payments:write']);
  const operator = credentialOf('operator', ['operations']);
  const keys = await requireKeys(shop, rival, writer, operator);
  const shared = shareProcessedService(deployment, {}, keys.environment);
  let orders = 0;

  async function givenPaidBy({ headers }: typeof shop): Promise<string> {
    orders += 1;
    const path = `${shared().url}/api/payment?reference=order-${orders}`;
    const paid = await sendJson(path, 'POST', MONEY, headers);
    expect(paid.status, paid.text).toBe(200);
    return String(paid.headers['idempotency-key']);
  }

  it('shows a client its own settlements, refunds too, and no key of another client in a cursor', async () => {
    const { url } = shared();
    const begin = (await readSettlements(url, 'after=now', operator.headers)).next;
    const own = await givenPaidBy(shop);
    const others = await givenPaidBy(rival);
    const line = await sendJson(`${url}/api/refund?refund=line-1`, 'POST', LINE, {
      ...shop.headers,
      'Idempotency-Key': own,
    });
    expect(line.status, line.text).toBe(200);
    const last = await givenPaidBy(rival);
    const all = await until('all of them to be shown', DEADLINE_MS, async () => {
      const page = await readSettlements(url, `after=${begin}`, operator.headers);
      return keysOf(page).includes(last) && page;
    });
    expect(all.settlements.map(({ client }) => client)).toEqual(['key:shop', 'key:rival', 'key:shop', 'key:rival']);
    const ofShop = await readSettlements(url, `after=${begin}`, shop.headers);
    const refundKey = keysOf(all)[2] as string;
    expect(keysOf(ofShop)).toEqual([own, refundKey]);
    for (const foreign of [others, last]) expect(placeIn(ofShop.next)).not.toContain(foreign);
    const one = await readSettlements(url, `after=${begin}&limit=1`, shop.headers);
    expect(placeIn(one.next)).toContain(own);
    expect(keysOf(await readSettlements(url, `after=${one.next}`, shop.headers))).toEqual([refundKey]);
    expect(keysOf(await readSettlements(url, `after=${begin}&kind=refund`, shop.headers))).toEqual([refundKey]);
    expect(keysOf(await readSettlements(url, `after=${begin}&client=key:rival`, operator.headers))).toEqual([
      others,
      last,
    ]);
    expect(ofShop.settlements.every((record) => !('client' in record))).toBe(true);
  });

  it('wakes the readers of a client only for its own settlements', async () => {
    const { url } = shared();
    const begin = (await readSettlements(url, 'after=now', shop.headers)).next;
    const waiting = waitForSettlements(url, begin, { headers: shop.headers });
    await givenPaidBy(rival);
    const own = await givenPaidBy(shop);
    expect(keysOf(await waiting)).toEqual([own]);
  });

  it('needs a scope, and only an operator names a client', async () => {
    const { url } = shared();
    expectError(await ask(`${url}/api/settlements`, writer), 403, /payments:read/);
    expectError(await ask(`${url}/api/settlements?client=key:rival`, shop), 403, /operations/);
    expectError(await ask(`${url}/api/settlements`), 401, /./);
  });
});

/** What another incarnation and a removal leave, as the stores write it. */
const ANOTHER = {
  embedded:
    "INSERT INTO settlement_incarnations SELECT max(number) + 1, 'fedcba9876543210', began_at FROM settlement_incarnations",
  distributed:
    "INSERT INTO idempay.settlement_incarnations SELECT max(number) + 1, 'fedcba9876543210', now() FROM idempay.settlement_incarnations",
};
const REMOVED = {
  embedded: 'UPDATE payment_horizon SET removed_until = (SELECT max(settled_at) FROM payments) - 1',
  distributed:
    "UPDATE idempay.payment_horizon SET removed_until = (SELECT max(settled_at) FROM idempay.payments) - interval '1 microsecond'",
};

describeDeployments('a cursor of the feed that cannot go on', (deployment) => {
  const PROBLEM = { headers: { Accept: 'application/problem+json' } };

  it.each([
    ['settlements-removed', REMOVED],
    ['settlements-incarnation', ANOTHER],
  ] as const)('is a 410 of the type %s, with a time from which nothing is missing', async (type, change) => {
    const stores = await deployment.open();
    const first = await stores.serve();
    const begin = await now(first.url);
    await givenPaid(first.url);
    const { key } = { key: await generateKey(first.url) };
    await pay(first.url, key);
    await until('the payment to be shown', DEADLINE_MS, async () =>
      keysOf(await readSettlements(first.url, `after=${begin}`)).includes(key),
    );
    await first.stop();
    await changeStored(stores, change);
    const { url } = await stores.serve();
    const refused = await ask(`${url}/api/settlements?after=${begin}`, PROBLEM);
    expect(refused.status, refused.text).toBe(410);
    const { from, ...problem } = refused.json<{ type: string; from: string }>();
    expect(problem).toMatchObject({ type: `/problems#${type}`, status: 410 });
    expect(refused.headers['idempay-settlements-from']).toBe(from);
    await until('the payment to be shown again', DEADLINE_MS, async () =>
      keysOf(await readSettlements(url, `from=${from}`)).includes(key),
    );
    await stores.close();
  });
});
