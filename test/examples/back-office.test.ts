import { randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Idempay, NotAuthorizedError } from '@idempay/client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { ask } from '../../testkit/client/http-client.js';
import { requireKeys, secretOf } from '../../testkit/client/key-file.js';
import { embedded, type Stores } from '../../testkit/deployments/deployments.js';
import { compileExamples, type Examples } from '../../testkit/processes/examples.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Service } from '../../testkit/processes/service.js';
import { type Gateway, startGateway } from '../../testkit/servers/gateway.js';
import { until } from '../../testkit/time/until.js';

const FORM_TYPE = { 'Content-Type': 'application/x-www-form-urlencoded' };
const GIVEN_BACK = /Given back: (TXN\d+)/;
const LINES = [
  { article: 'book', price: { amount: '24.90', currency: 'EUR' } },
  { article: 'lamp', price: { amount: '89.00', currency: 'EUR' } },
];
const PRICE = { amount: '113.90', currency: 'EUR' };
const DEADLINE_MS = 60_000;

const checkout = credentialOf('shop', ['payments:write', 'payments:read']);
const shop = credentialOf('shop', ['payments:write', 'payments:read', 'refunds:write']);

/** Rule P26: the back office gives one line of an order back, with a key that may, at a processor whose adapter may. */
describe('the back office of examples/', async () => {
  const keys = await requireKeys(shop);
  let examples: Examples;
  let processor: Awaited<ReturnType<typeof serveReferenceProcessor>>;
  let adapter: Gateway;
  let stores: Stores;
  let idempay: Idempay;
  let folder: string;
  let environment: Record<string, string>;
  let office: Service;

  beforeAll(async () => {
    [examples, processor, stores, folder] = await Promise.all([
      compileExamples(),
      serveReferenceProcessor(),
      embedded.open(),
      mkdtemp(join(tmpdir(), 'idempay-office-')),
    ]);
    adapter = await startGateway(processor.url);
    const { url } = await stores.serve({ PROCESSOR_URL: adapter.url, ...keys.environment });
    idempay = new Idempay({ baseUrl: url, apiKey: secretOf(shop) });
    environment = {
      ...{ PORT: '0', IDEMPAY_URL: url, IDEMPAY_API_KEY: secretOf(shop), LOOK_SECONDS: '1' },
      ...{ ORDERS: join(folder, 'orders.ndjson'), RETURNS: join(folder, 'returns.ndjson') },
    };
  });
  beforeEach(async () => {
    office = await startOffice();
  });
  afterEach(async () => {
    await office?.kill();
    adapter.use((_request, forward) => forward());
    await processor.behave({ latencyMs: 0, lostReplyRate: 0, declineRate: 0, refundPendingRate: 0 });
  });
  afterAll(async () => {
    await processor?.close();
    await stores?.close();
    await adapter?.close();
    await examples?.remove();
    await rm(folder, { recursive: true, force: true });
  });

  const startOffice = () => examples.start('back-office', environment);

  /** An order that its payer has paid; `isSeen`: the shop has seen that. */
  async function givenPaid(isSeen = true) {
    const id = randomUUID();
    const { key } = await idempay.payments.pay(PRICE, { reference: `order-${id}` });
    const order = {
      id,
      lines: LINES,
      price: PRICE,
      session: '',
      url: '',
      orderedAtMs: Date.now(),
      ...(isSeen && { end: 'paid' }),
    };
    await appendFile(`${environment.ORDERS}`, `${JSON.stringify(order)}\n`);
    return { key, path: `/orders/${id}` };
  }
  const click = (path: string, line: number | string = 2, headers: Record<string, string> = {}) =>
    ask(`${office.url}${path}/returns`, {
      method: 'POST',
      headers: { ...FORM_TYPE, ...headers },
      body: `line=${line}`,
    });
  const page = async (path: string) => (await ask(`${office.url}${path}`)).text;
  const shows = (path: string, pattern: RegExp) =>
    until(`the page to show ${pattern}`, DEADLINE_MS, async () => pattern.test(await page(path)));
  const buttons = (html: string) => [...html.matchAll(/name="line" value="(\d)">Give back</g)].map(([, line]) => line);
  const refundsAt = async (key: string) =>
    (await processor.refundsOf(key)).map(({ amount, status }) => ({ amount, status }));
  const LAMP_BACK = { amount: '89.00', status: 'succeeded' };

  test('gives a line back once, however often it is clicked, and the other line as well', async () => {
    const { key, path } = await givenPaid();
    expect(buttons(await page(path))).toEqual(['1', '2']);
    const clicks = await Promise.all(Array.from({ length: 8 }, () => click(path)));
    expect(new Set(clicks.map(({ status, headers }) => `${status} ${headers.location}`))).toEqual(
      new Set([`303 ${path}`]),
    );
    await shows(path, GIVEN_BACK);
    expect(buttons(await page(path))).toEqual(['1']);
    expect(await idempay.payments.refunds(key)).toMatchObject([{ amount: '89.00', refund: { name: 'line-2' } }]);
    await click(path, 1);
    expect(buttons(await page(path))).toEqual([]);
    expect(await refundsAt(key)).toEqual([LAMP_BACK, { amount: '24.90', status: 'succeeded' }]);
    expect(await idempay.payments.get(key)).toMatchObject({ refunded: '113.90' });
  });

  test('killed in the middle, it goes on by itself, and gives back once', async () => {
    const { key, path } = await givenPaid();
    await processor.behave({ latencyMs: 500, lostReplyRate: 1 });
    const clicked = click(path).catch(() => undefined);
    await until('the refund', DEADLINE_MS, async () => (await refundsAt(key)).length > 0);
    await office.kill();
    await clicked;
    await processor.behave({ latencyMs: 0, lostReplyRate: 0 });
    office = await startOffice();
    await shows(path, GIVEN_BACK);
    expect(await refundsAt(key)).toEqual([LAMP_BACK]);
  });

  test('shows a refund that takes time, and then its end, without another click', async () => {
    const { key, path } = await givenPaid();
    await processor.behave({ refundPendingRate: 1 });
    await click(path);
    const waiting = await page(path);
    expect(waiting).toContain('The bank takes its time.');
    expect([buttons(waiting), waiting.includes('http-equiv="refresh"')]).toEqual([['1'], true]);
    await click(path);
    const [{ idempotencyKey = '' } = {}] = await idempay.payments.refunds(key);
    await ask(`${processor.url}/pending/${idempotencyKey}/confirm`, { method: 'POST' });
    await shows(path, GIVEN_BACK);
    expect(await refundsAt(key)).toEqual([LAMP_BACK]);
  });

  test('shows a refund that was declined, and asks no more', async () => {
    const { key, path } = await givenPaid();
    await processor.behave({ declineRate: 1 });
    await click(path);
    await processor.behave({ declineRate: 0 });
    await click(path);
    const declined = await page(path);
    expect(declined).toMatch(/Declined: .*</);
    expect(buttons(declined)).toEqual(['1']);
    expect((await refundsAt(key)).map(({ status }) => status)).toEqual(['declined']);
  });

  test('shows the sentence of the 501 with an adapter of contract 2, and gives back when it knows refunds', async () => {
    adapter.use(async (_request, forward) => {
      const { headers, ...answer } = await forward();
      return { ...answer, headers: { ...headers, 'idempay-contract': '2' } };
    });
    // This reply is the last one that the service saw.
    const { key, path } = await givenPaid();
    await click(path);
    const refused = await page(path);
    expect(refused).toContain('The adapter of the processor does not know refunds');
    expect(buttons(refused)).toEqual(['1', '2']);
    expect([await refundsAt(key), await idempay.payments.refunds(key)]).toEqual([[], []]);
    adapter.use((_request, forward) => forward());
    await click(path);
    await shows(path, GIVEN_BACK);
    expect(await refundsAt(key)).toEqual([LAMP_BACK]);
  });

  test('with the key of a checkout says which scope it lacks, and goes on when the key has it', async () => {
    const { key, path } = await givenPaid();
    const { entry } = shop;
    await keys.write({ ...shop, entry: { ...entry, scopes: checkout.entry.scopes } });
    const asked = { reference: 'order-of-nobody', name: 'line-2', amount: '1.00', currency: 'EUR' };
    await until('the service to read the keys', DEADLINE_MS, () =>
      idempay.payments.refund(asked).catch((error) => error instanceof NotAuthorizedError),
    );
    await click(path);
    const refused = await page(path);
    expect(refused).toContain('lacks the scope refunds:write');
    expect(buttons(refused)).toEqual(['1']);
    expect(await refundsAt(key)).toEqual([]);
    await keys.write(shop);
    await shows(path, GIVEN_BACK);
    expect(await refundsAt(key)).toEqual([LAMP_BACK]);
  });

  test('gives nothing back for an order that is not paid, a line that it does not have, and a page of another site', async () => {
    const { key, path } = await givenPaid();
    const open = await givenPaid(false);
    expect(buttons(await page(open.path))).toEqual([]);
    expect((await click(open.path)).status).toBe(404);
    expect((await click('/orders/none')).status).toBe(404);
    expect((await click(path, 3)).status).toBe(404);
    for (const line of ['', '0', '-1', '1.5', 'two']) expect((await click(path, line)).status).toBe(400);
    for (const from of ['cross-site', 'same-site', 'none'])
      expect((await click(path, 2, { 'Sec-Fetch-Site': from })).status).toBe(403);
    expect([await refundsAt(key), await refundsAt(open.key)]).toEqual([[], []]);
    expect(await page('/')).toContain(`href="${path}"`);
  });

  /**
   * Bug: a page of another site, whose name leads to 127.0.0.1 (DNS rebinding), read the orders and gave money back.
   * Cause: the request was compared with its own Host, which is the name of that site.
   * Fix: the back office answers only to names of this machine, and to OFFICE_HOST.
   */
  test('answers to no other host than its own, and is shown in no frame', async () => {
    const { key, path } = await givenPaid();
    const foreign = `rebound.example:${office.port}`;
    const from = { Host: foreign, Origin: `http://${foreign}`, 'Sec-Fetch-Site': 'same-origin' };
    expect((await click(path, 2, from)).status).toBe(421);
    for (const each of ['/', path, '/none'])
      expect(await ask(`${office.url}${each}`, { headers: { Host: foreign } })).toMatchObject({ status: 421 });
    expect(await refundsAt(key)).toEqual([]);

    const named = await examples.start('back-office', { ...environment, OFFICE_HOST: 'office.example' });
    for (const Host of ['office.example', 'localhost', `127.0.0.1:${named.port}`, `[::1]:${named.port}`]) {
      const { status, headers } = await ask(named.url, { headers: { Host } });
      expect([Host, status, headers['content-security-policy']]).toEqual([Host, 200, "frame-ancestors 'none'"]);
    }
    for (const Host of [foreign, 'office.example.rebound.example', 'localhost.rebound.example'])
      expect((await ask(named.url, { headers: { Host } })).status).toBe(421);
    await named.kill();
  });
});
