import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { SCOPES, type Scope } from '#idempay/access/scopes.js';
import { createListener } from '#idempay/http/connections/listener.js';
import { createServer, type Features } from '#idempay/http/server.js';
import { adoptStopped } from '../../testkit/client/adoption.js';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, type Ask, ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { describeDeployments, describeOneDeployment, type Stores } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { newKey } from '../../testkit/protocol/payment-attempts.js';

const PAYER: readonly Scope[] = ['payments:write', 'payments:read'];
const shop = credentialOf('shop', PAYER);
const rival = credentialOf('rival', PAYER);
const operator = credentialOf('operator', ['operations']);
/** An operator that pays too. */
const owner = credentialOf('owner', [...PAYER, 'operations']);
/** Has paid, and is in the file no more. */
const former = credentialOf('former', PAYER);
const holders = new Map(SCOPES.map((scope) => [scope, credentialOf(`only-${scope.replaceAll(':', '-')}`, [scope])]));
const ALL = keyFileOf(shop, rival, operator, owner, ...holders.values());

/** As the server itself declares them; nothing of it is started. */
const silent = pino({ level: 'silent' });
const declared = createServer(
  createListener(silent),
  {} as Features,
  { access: undefined, loopbackOnly: false, trustedNetworks: undefined },
  silent,
  () => {},
).routeScopes;
/** The routes that need a scope. Every other method of a path is refused with 405, with any credentials or none. */
const ROUTES = [...declared].filter(([, scopes]) => scopes !== 'open');
const OPEN = [
  '/api/health/redis',
  '/livez',
  '/readyz',
  '/openapi.json',
  '/openapi-all.json',
  '/docs',
  '/docs/:file',
  '/problems',
  '/console',
  '/console/:file',
].flatMap((path) => [`GET ${path}`, `HEAD ${path}`]);

const newKeyPath = '/api/server-generated/generate-key';
const JSON_TYPE = { 'Content-Type': 'application/json' };

/** Bug: an order that had been paid without credentials was charged again when AUTH was switched on, and nothing said so. */
describeDeployments('switching AUTH on', async (deployment) => {
  const keys = await requireKeys(shop);

  test("is followed by a warning if the orders stay nobody's, until an order is paid with credentials", async () => {
    const stores = await deployment.open();
    onTestFinished(stores.close);
    const payOnce = async (more: Record<string, string>, headers = {}) => {
      const { url, logs, stop } = await stores.serve(more);
      const path = `${url}/api/payment?reference=order-17`;
      const { status } = await sendJson(path, 'POST', { amount: '100.50', currency: 'USD' }, headers);
      // Bug: a later payment that was for no order hid the newest order.
      if (more.AUTH === undefined) await pay(url, await generateKey(url));
      await stop();
      return [status, logs.filter(({ msg }) => msg?.includes('would be charged again')).length];
    };
    expect(await payOnce({})).toEqual([200, 0]);
    await adoptStopped(stores.environment, 'nobody');
    expect(await payOnce(keys.environment, shop.headers)).toEqual([200, 1]);
    expect(await payOnce(keys.environment, shop.headers)).toEqual([200, 0]);
  });
});

describeOneDeployment('each route with AUTH=required', async (deployment) => {
  const keys = await requireKeys(shop, rival, ...holders.values());
  const shared = shareService(deployment, keys.environment);
  const send = (path: string, options: Ask = {}) => ask(`${shared.url}${path}`, options);

  describe.each(ROUTES)('%s', (route, scopes) => {
    const [method = '', path = ''] = route.split(' ');
    const request = (headers: Ask['headers']) =>
      send(path.replace(':key', 'none').replace(':id', '7'), { method, headers: { ...JSON_TYPE, ...headers } });
    const isHead = method === 'HEAD';

    test('asks who it is', async () => {
      const answer = await request({});
      expect(answer.status).toBe(401);
      expect(answer.headers['www-authenticate']).toBe('Bearer');
      if (!isHead) expectError(answer, 401, 'Send an API key or a token: Authorization: Bearer <credential>.');
    });

    test.each([...holders])('is allowed or denied with %s alone', async (scope, { headers }) => {
      const answer = await request(headers);
      if (scopes.includes(scope)) {
        expect([401, 403]).not.toContain(answer.status);
        return;
      }
      expect(answer.status).toBe(403);
      expect(answer.headers['www-authenticate']).toBe(`Bearer error="insufficient_scope", scope="${scopes[0]}"`);
      if (!isHead) expectError(answer, 403, `Your API key or token lacks the scope ${[scopes].flat().join(' or ')}.`);
    });
  });

  test('only routes that reveal no data are open', async () => {
    const [, consoleFile = ''] = /"console\/([^"]+)"/.exec((await send('/console')).text) ?? [];
    for (const route of OPEN) {
      const [method, path = ''] = route.split(' ');
      const file = path.startsWith('/console') ? consoleFile : 'start.js';
      expect((await send(path.replace(':file', file), { method })).status).toBe(200);
    }
    const others = [...declared].filter(([route, scopes]) => scopes === 'open' && !OPEN.includes(route));
    const wrong = others.filter(([route]) => /^(GET|HEAD|POST|PUT|DELETE) /.test(route));
    expect(wrong.length).toBeGreaterThan(10);
    for (const [route] of wrong) {
      const [method, path = ''] = route.split(' ');
      expect((await send(path, { method })).status).toBe(405);
    }
    expectError(await send('/api/nothing'), 404);
  });

  test.each([
    ['another scheme', 'Basic c2hvcDpzaG9w'],
    ['a secret that was never given out', `Bearer idem_${'A'.repeat(43)}`],
    ['a secret without its scheme', shop.headers.Authorization.slice('Bearer '.length)],
    ['two credentials', `${shop.headers.Authorization}, ${rival.headers.Authorization}`],
    ['a token where none is taken', 'Bearer eyJhbGciOiJub25lIn0.e30.'],
    ['nothing behind the scheme', 'Bearer '],
  ])('%s is refused', async (_what, authorization) => {
    const answer = await send(newKeyPath, { headers: { Authorization: authorization } });
    expectError(answer, 401, 'The API key or token is unknown, expired, or not for this service. Send a valid one.');
    expect(answer.headers['www-authenticate']).toBe('Bearer error="invalid_token"');
  });

  test('a caller without credentials is refused before the body and the key are read', async () => {
    const body = '{'.repeat(2_000_000);
    const answer = await ask(`${shared.url}/api/payment`, { method: 'POST', headers: JSON_TYPE, body }).catch(
      () => undefined,
    );
    // The answer may come while the body is still being sent, which ends the connection.
    if (answer) expectError(answer, 401);
    expectError(await ask(`${shared.url}/api/payment`, { method: 'POST' }), 401);
  });
});

describeDeployments('with AUTH=required', (deployment) => {
  let stores: Stores;
  let folder: string;
  let file: string;
  let service: ServiceInProcess;
  let keyOfBefore: string;

  beforeAll(async () => {
    stores = await deployment.open();
    const before = await stores.serve();
    keyOfBefore = await generateKey(before.url);
    await before.stop();
    folder = await mkdtemp(join(tmpdir(), 'idempay-access-'));
    file = join(folder, 'keys.json');
    await writeFile(file, ALL);
    service = await stores.serve({ AUTH: 'required', API_KEYS_FILE: file });
  });
  afterAll(async () => {
    await stores.close();
    await rm(folder, { recursive: true });
  });

  const send = (path: string, options: Ask = {}) => ask(`${service.url}${path}`, options);
  const newKeyOf = async (client: typeof shop) => (await send(newKeyPath, client)).json<string>();
  const payAs = (client: typeof shop, key: string, more: Ask['headers'] = {}, body?: unknown) =>
    pay(service.url, key, body, { headers: { ...client.headers, ...more } });

  describe('a key of another client', () => {
    const withoutRequestId = ({ status, headers, text }: Answer) => {
      const { 'x-request-id': _id, date: _date, ...rest } = headers;
      return { status, headers: rest, text };
    };
    /** As young as the others: the text of a key tells its age, and the answer may depend on that. */
    const unknownKey = newKey();
    const QUESTIONS: readonly [string, (client: typeof shop, key: string) => Promise<Answer>][] = [
      ['a payment', (client, key) => payAs(client, key)],
      ['a payment that would wait', (client, key) => payAs(client, key, { Prefer: 'wait=5' })],
      ['a payment of nothing', (client, key) => payAs(client, key, {}, { amount: '0', currency: 'USD' })],
      [
        'a status',
        (client, key) => send('/api/payment-status', { headers: { ...client.headers, 'Idempotency-Key': key } }),
      ],
      ['a look', (client, key) => send(`/api/payments/${key}`, client)],
      [
        'a conditional look',
        (client, key) => send(`/api/payments/${key}`, { headers: { ...client.headers, 'If-None-Match': '*' } }),
      ],
    ];

    test.each(QUESTIONS)('is one that was never issued: %s', async (_what, question) => {
      const unknown = withoutRequestId(await question(rival, unknownKey));
      const unpaid = await newKeyOf(shop);
      const paid = await newKeyOf(shop);
      await payAs(shop, paid);
      for (const key of [unpaid, paid]) expect(withoutRequestId(await question(rival, key))).toEqual(unknown);
      expect((await payAs(shop, unpaid)).text).toContain('Payment processed successfully');
      expect((await payAs(shop, paid)).headers['idempotent-replayed']).toBe('true');
    });

    test('is not in the list, and is in that of an operator', async () => {
      const key = await newKeyOf(shop);
      await payAs(shop, key);
      const listFor = async (client: typeof shop) => (await send('/api/payments?limit=100', client)).text;
      expect(await listFor(shop)).toContain(key);
      expect(await listFor(rival)).toBe('[]');
      expect(await listFor(operator)).toContain(key);
      expect((await send(`/api/payments/${key}`, operator)).status).toBe(200);
      const resolution = { outcome: 'completed', reason: 'seen' };
      const resolve = (client: typeof shop) =>
        sendJson(`${service.url}/api/payments/${key}/resolution`, 'POST', resolution, client.headers);
      expectError(await resolve(shop), 403);
      expectError(await resolve(operator), 409);
    });

    test('that was issued before clients were asked for serves every client', async () => {
      expect((await payAs(shop, keyOfBefore)).status).toBe(200);
      expect((await payAs(rival, keyOfBefore)).headers['idempotent-replayed']).toBe('true');
    });
  });

  describe('a reference that two clients use', () => {
    const BODY = { amount: '100.50', currency: 'EUR' };
    const payOrder = (client: typeof shop, reference: string, body: unknown = BODY) =>
      sendJson(`${service.url}/api/payment?reference=${reference}`, 'POST', body, client.headers);
    const cancelOrder = (client: typeof shop, query: string) =>
      send(`/api/payment-cancellation?reference=${query}`, { ...client, method: 'POST' });
    const statusOf = (client: typeof shop, query: string) => send(`/api/payment-status?reference=${query}`, client);
    const keysOf = async (client: typeof shop, reference: string) =>
      (await send(`/api/payments?reference=${reference}`, client))
        .json<{ idempotencyKey: string }[]>()
        .map(({ idempotencyKey }) => idempotencyKey);
    const keyOf = ({ headers }: Answer) => headers['idempotency-key'];

    test('is an order of each: both pay their own amount, and each sees only its own payment', async () => {
      const first = await payOrder(shop, 'shared-1');
      expectError(await statusOf(rival, 'shared-1'), 404);
      const second = await payOrder(rival, 'shared-1', { amount: '7.00', currency: 'USD' });
      for (const { status, text } of [first, second]) {
        expect([status, text]).toEqual([200, expect.stringMatching(/^"Payment processed successfully/)]);
      }
      const [ofShop, ofRival] = [keyOf(first), keyOf(second)];
      expect(ofShop).not.toBe(ofRival);
      expect([await keysOf(shop, 'shared-1'), await keysOf(rival, 'shared-1')]).toEqual([[ofShop], [ofRival]]);
      expect((await keysOf(operator, 'shared-1')).toSorted()).toEqual([ofShop, ofRival].toSorted());
      const statuses = await Promise.all([statusOf(shop, 'shared-1'), statusOf(rival, 'shared-1')]);
      expect(statuses.map(keyOf)).toEqual([ofShop, ofRival]);
      expect(new Set(statuses.map(({ text }) => text)).size).toBe(2);
      const repeats = await Promise.all([payOrder(shop, 'shared-1'), payOrder(rival, 'shared-1', BODY)]);
      expect(repeats.map(({ status }) => status)).toEqual([200, 422]);
      // The key says whose it is to nobody else.
      expectError(await send(`/api/payments/${ofShop}`, rival), 404);
    });

    test('is closed for the one who closes it', async () => {
      expect((await cancelOrder(rival, 'shared-2')).status).toBe(200);
      expectError(await payOrder(rival, 'shared-2'), 410);
      expect((await payOrder(shop, 'shared-2')).status).toBe(200);
    });

    test('belongs to the client whom an operator names; nobody else may name one', async () => {
      const [ofShop, ofRival] = [keyOf(await payOrder(shop, 'shared-3')), keyOf(await payOrder(rival, 'shared-3'))];
      expectError(await statusOf(operator, 'shared-3'), 400, /^'client' must say whose reference it is/);
      const named = ['key:shop', 'key:rival'].map((client) => statusOf(operator, `shared-3&client=${client}`));
      expect((await Promise.all(named)).map(keyOf)).toEqual([ofShop, ofRival]);
      expectError(await statusOf(operator, 'shared-4&client=key:shop'), 404);
      for (const client of ['key:shop', 'key:rival'])
        expectError(await statusOf(rival, `shared-3&client=${client}`), 400, /^'client' is for operators/);
    });

    /**
     * Bug: a closing for `shop`, `KEY:shop`, `key:shpo` or a blank was answered with 200, and the order stayed payable; a NUL made a foreign
     * row, or 503 for ever; 3,000 characters were stored. Cause: an operator's `client=` was any text. Fix: it has the form of a client, and the
     * file of API keys or a payment knows it.
     */
    test('is not closed for a client that nobody knows', async () => {
      const none = ['shop', 'KEY:shop', 'key:shop%00', '%20', '%20key:shop', 'key:', 'jwt:', 'jwt:%0A', 'jwtsub:shop'];
      const unknown = ['key:shpo', 'key:Shop', 'jwt:shop', 'jwt-sub:shop', `jwt:${'%F0%9F%92%B3'.repeat(255)}`];
      for (const client of [...none, ...unknown, `key:${'a'.repeat(65)}`, `jwt:${'a'.repeat(3_000)}`]) {
        for (const asked of [operator, owner]) {
          const answers = [
            await cancelOrder(asked, `order-51&client=${client}`),
            await statusOf(asked, `order-51&client=${client}`),
          ];
          for (const answer of answers) expectError(answer, 400, /^'client' is not known/);
        }
      }
      for (const empty of ['', 'key:shop&client=key:shop'])
        expectError(await cancelOrder(operator, `order-51&client=${empty}`), 400, /^'client' /);
      expect((await payOrder(shop, 'order-51')).status).toBe(200);
      const { headers } = await cancelOrder(operator, 'order-52&client=key:shop');
      expect(headers).toMatchObject({ 'idempay-client': 'key:shop', 'idempotency-key': expect.any(String) });
      expectError(await payOrder(shop, 'order-52'), 410);
    });

    test('is closed for a client that only its payments know', async () => {
      await writeFile(file, keyFileOf(shop, rival, operator, owner, former, ...holders.values()));
      await expect.poll(async () => (await payOrder(former, 'order-53')).status).toBe(200);
      await writeFile(file, ALL);
      await expect.poll(async () => (await payOrder(former, 'order-53')).status).toBe(401);
      expect((await cancelOrder(operator, 'order-54&client=key:former')).status).toBe(200);
      expectError(await cancelOrder(operator, 'order-53&client=key:former'), 422, /^The payment is completed/);
    });

    test('is that of an operator which pays too and names no client, unless only another client has one', async () => {
      await payOrder(shop, 'order-55');
      for (const answer of [await statusOf(owner, 'order-55'), await cancelOrder(owner, 'order-55&attempt=1')]) {
        expectError(answer, 422, /^No payment of this reference is yours \(key:owner\), but one is of key:shop\. /);
        expect(answer.headers['idempay-attempt-state']).toBe('other-client');
      }
      expectError(await statusOf(owner, 'order-55&client=key:owner'), 404);
      await payOrder(owner, 'order-55');
      expect((await statusOf(owner, 'order-55')).headers['idempay-client']).toBe('key:owner');
      const closed = await cancelOrder(owner, 'order-56');
      expect([closed.status, closed.headers['idempay-client']]).toEqual([200, 'key:owner']);
      expect((await payOrder(shop, 'order-56')).status).toBe(200);
      expect((await cancelOrder(owner, 'order-56')).status).toBe(200);
      expect((await cancelOrder(shop, 'order-57')).headers['idempay-client']).toBeUndefined();
    });

    test('shows its client to operators only', async () => {
      const key = keyOf(await payOrder(shop, 'order-58'));
      const issued = await newKeyOf(shop);
      const read = async (path: string, as: typeof shop) => (await send(path, as)).text;
      for (const path of [`/api/payments/${key}`, `/api/payments/${issued}`, '/api/payments?reference=order-58']) {
        expect(await read(path, operator)).toContain('"client":"key:shop"');
        expect(await read(path, shop)).not.toContain('client');
      }
      const day = new Date().toISOString().slice(0, 'YYYY-MM-DD'.length);
      const lines = (await read(`/api/payments/export?day=${day}`, operator)).split('\n');
      const exported = lines
        .map((line) => JSON.parse(line || '{}'))
        .find(({ idempotencyKey }) => idempotencyKey === key);
      expect(exported).toMatchObject({ client: 'key:shop' });
      const clients = JSON.parse(await read('/api/session', operator)).clients;
      expect(clients).toEqual(expect.arrayContaining(['key:shop', 'key:rival', 'key:operator', 'key:owner']));
      expect(JSON.parse(await read('/api/session', shop)).clients).toEqual([]);
    });
  });

  describe('the file of API keys', () => {
    const isRefused = async (client: typeof shop) => (await send(newKeyPath, client)).status === 401;
    const second = credentialOf('shop', PAYER);

    test('may have two secrets of one client, which own the same keys, until one is revoked', async () => {
      const key = await newKeyOf(shop);
      await writeFile(file, keyFileOf(shop, second, rival, operator, ...holders.values()));
      await expect.poll(() => isRefused(second)).toBe(false);
      expect((await payAs(second, key)).status).toBe(200);
      expect((await payAs(shop, key)).headers['idempotent-replayed']).toBe('true');
      await writeFile(file, keyFileOf(second, rival, operator, ...holders.values()));
      await expect.poll(() => isRefused(shop)).toBe(true);
      expect(await isRefused(second)).toBe(false);
      await writeFile(file, ALL);
      await expect.poll(() => isRefused(shop)).toBe(false);
    });

    test('that becomes invalid leaves the last valid keys in use, and is logged once', async () => {
      const complaints = () => service.logs.filter(({ msg }) => msg?.startsWith('the API keys were not replaced'));
      await writeFile(file, '[');
      await expect.poll(() => complaints().length).toBe(1);
      expect(await isRefused(shop)).toBe(false);
      await writeFile(file, ALL);
    });
  });
});
