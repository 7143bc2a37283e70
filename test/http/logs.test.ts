import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { type Ask, ask, pay, sendJson } from '../../testkit/client/http-client.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import type { LogLine } from '../../testkit/processes/service.js';
import { startCollector } from '../../testkit/servers/otlp-collector.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 15_000;
const INFO = 30;
const WARN = 40;
const MONEY = { amount: '271.83', currency: 'EUR' };
const ACCOUNTS = { fromAccount: 'alice-acc', toAccount: 'bob-acc', amount: '314.15' };
const REASON = 'said-by-an-operator';
const PASSWORDS = { processor: 'processor-hunter2', redis: 'redis-hunter2' };

const saying = (logs: readonly LogLine[], sentence: string) => logs.filter(({ msg }) => msg === sentence);

describeDeployments('the log', (deployment) => {
  /** Pays, declines, leaves unclear, recovers and resolves, with credentials, good and bad. */
  async function logAt(level: string) {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-logs-'));
    const file = join(folder, 'keys.json');
    const [shop, operator, unknown] = [
      credentialOf('shop', ['payments:write', 'payments:read', 'transactions:read', 'transactions:write']),
      credentialOf('operator', ['operations']),
      credentialOf('nobody', []),
    ];
    await writeFile(file, keyFileOf(shop, operator));
    let answer = (response: ServerResponse, _method: string) =>
      void response.writeHead(201).end('{"status":"succeeded"}');
    const processor = await startHttpServer((response, { method }) => answer(response, method));
    const collector = await startCollector();
    const stores = await deployment.open();
    onTestFinished(async () => {
      await stores.close();
      await collector.close();
      await rm(folder, { recursive: true });
    });
    const settings = {
      LOG_LEVEL: level,
      AUTH: 'required',
      API_KEYS_FILE: file,
      PROCESSOR_URL: `http://shop:${PASSWORDS.processor}@127.0.0.1:${processor.port}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      PROCESSOR_DEDUP_SECONDS: '0',
    };
    const { url, logs, stop } = await stores.serve(settings);
    const send = (path: string, { headers }: Ask = {}) =>
      ask(`${url}${path}`, { headers: { ...shop.headers, ...headers } });
    const keys: string[] = [];
    const newKey = async () => {
      const key = (await send('/api/server-generated/generate-key')).json<string>();
      keys.push(key);
      return key;
    };
    const payWith = async (key: string, body: unknown = MONEY) =>
      (await pay(url, key, body, { headers: shop.headers })).status;

    const paid = await newKey();
    expect([await payWith(paid), await payWith(paid), await payWith(await newKey(), `{"amount":"271.83"`)]).toEqual([
      200, 200, 400,
    ]);
    expect((await pay(url, paid, MONEY, { headers: unknown.headers })).status).toBe(401);
    expect((await sendJson(`${url}/api/transactions`, 'POST', ACCOUNTS, shop.headers)).status).toBe(201);
    expect((await send('/api/transactions?from=alice-acc')).status).toBe(200);
    expect((await send(`/api/payments/${paid}`)).status).toBe(200);

    // Some HTTP libraries put the credential there, where the service does not take it.
    for (const query of ['access_token', 'auth_token', 'q']) {
      expect(
        (await ask(`${url}/api/session?a=b&${query}=${shop.headers.Authorization.slice('Bearer '.length)}&c=d`)).status,
      ).toBe(401);
    }

    answer = (response) => void response.destroy();
    const [recovered, resolved] = [await newKey(), await newKey()];
    expect(await payWith(recovered)).toBe(504);
    answer = (response, method) =>
      void (method === 'GET' ? response.end('{"status":"succeeded"}') : response.destroy());
    await until('an outcome without a repeat', DEADLINE_MS, async () =>
      (await send(`/api/payments/${recovered}`)).text.includes('COMPLETED'),
    );
    answer = (response) => void response.destroy();
    expect(await payWith(resolved)).toBe(504);
    await until('a resolution', DEADLINE_MS, async () => {
      const path = `${url}/api/payments/${resolved}/resolution`;
      return (await sendJson(path, 'POST', { outcome: 'completed', reason: REASON }, operator.headers)).status === 200;
    });
    const idOf = async (key: string) =>
      (await send(`/api/payments/${key}`)).json<{ transactionId: string }>().transactionId;
    const ids = { recovered: await idOf(recovered), resolved: await idOf(resolved) };
    await stop();
    const secrets = [shop, operator, unknown].flatMap(({ headers, entry }) => [
      headers.Authorization.slice('Bearer '.length),
      entry.sha256,
    ]);
    return { logs, text: JSON.stringify(logs), keys, ids, secrets, stores };
  }

  test.each(['info', 'trace'])(
    'names payments by their transaction id, and holds no credential, at %s',
    async (level) => {
      const { logs, text, keys, ids, secrets } = await logAt(level);
      const unclear = saying(logs, 'the outcome of a payment is not known yet');
      expect(new Set(unclear.map(({ transactionId }) => transactionId))).toEqual(new Set(Object.values(ids)));
      for (const line of unclear) expect(line.level).toBe(WARN);
      expect(saying(logs, 'the outcome of a payment is known now')).toMatchObject([
        { level: INFO, transactionId: ids.recovered, by: 'recovery', state: 'COMPLETED' },
      ]);
      expect(saying(logs, 'an operator resolved a payment')).toMatchObject([
        { level: INFO, transactionId: ids.resolved, state: 'COMPLETED' },
      ]);

      for (const secret of [...secrets, PASSWORDS.processor, 'Bearer']) expect(text).not.toContain(secret);
      const requests = saying(logs, 'request').filter(({ url }) => url === '/api/payment');
      if (level === 'info') {
        expect(requests).toEqual([]);
        const details = [...keys, MONEY.amount, ACCOUNTS.fromAccount, ACCOUNTS.toAccount, ACCOUNTS.amount, REASON];
        for (const detail of details) expect(text, `no ${detail} at info`).not.toContain(detail);
      } else {
        expect(requests.map(({ status }) => status)).toEqual([200, 200, 400, 401, 504, 504]);
        expect(text, 'a key in the path').toContain(keys[0]);
      }
    },
  );

  if (deployment.name === 'embedded') return;

  test('holds no password of a store that is down', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const REDIS_URL = `redis://idempay:${PASSWORDS.redis}@127.0.0.1:${await freePort()}`;
    const { url, logs } = await stores.serve({ REDIS_URL, LOG_LEVEL: 'trace' });
    expect((await ask(`${url}/api/server-generated/generate-key`)).status).toBe(503);
    const away = logs.find(({ msg }) => msg === 'Redis cannot serve; requests that need it get 503');
    expect(away?.level).toBe(WARN);
    expect(JSON.stringify(logs)).not.toContain(PASSWORDS.redis);
  });
});
