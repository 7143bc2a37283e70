import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { type Answer, type Ask, ask } from '../../testkit/client/http-client.js';
import { type Sample, scrape, sumOf, valuesBy } from '../../testkit/client/metrics.js';
import { INVALID_KEY } from '../../testkit/client/payment-answers.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openProcessedService } from '../../testkit/deployments/processed-service.js';
import { until } from '../../testkit/time/until.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const MONEY = { amount: '100.50', currency: 'USD' };
const PAYERS = 24;
const IN_FLIGHT = 4;
const SLOW_MS = 150;
/** More than the looks of the collector, which are limited too. */
const REQUESTS = 200;
const CONNECTIONS = 10;
const DONE_DEADLINE_MS = 30_000;
/** The last bytes of an answer may reach the client a moment before the service counts it. */
const COUNTED_DEADLINE_MS = 5_000;

type Counts = Record<string, number>;

/** A client that counts what it is answered, from the answers alone. */
class CountingClient {
  readonly requests: Counts = {};
  readonly payments: Counts = {};
  readonly lookUps: Counts = {};

  constructor(readonly url: string) {}

  /** `route`: the pattern that the path belongs to. */
  async send(method: string, route: string, path = route, options: Ask = {}): Promise<Answer> {
    const answer = await ask(`${this.url}${path}`, { method, ...options });
    count(this.requests, `${method} ${route} ${Math.floor(answer.status / 100)}xx`);
    const [, seen] = /^transactionCache; (?:fwd=)?(\w+)$/.exec(String(answer.headers['cache-status'])) ?? [];
    if (seen !== undefined) count(this.lookUps, seen);
    return answer;
  }

  async newKey(): Promise<string> {
    return (await this.send('GET', '/api/server-generated/generate-key')).json<string>();
  }

  async pay(key: string | undefined, body: unknown = MONEY, headers: Ask['headers'] = {}, query = ''): Promise<Answer> {
    const keyHeader: Ask['headers'] = key === undefined ? {} : { 'Idempotency-Key': key };
    const answer = await this.send('POST', '/api/payment', `/api/payment${query}`, {
      headers: { ...JSON_TYPE, ...keyHeader, ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    count(this.payments, outcomeTold(answer));
    return answer;
  }

  async payUntilFinal(key: string): Promise<void> {
    await until(`an outcome of ${key}`, DONE_DEADLINE_MS, async () =>
      [200, 402].includes((await this.pay(key)).status),
    );
  }
}

function count(counts: Counts, name: string): void {
  counts[name] = (counts[name] ?? 0) + 1;
}

function outcomeTold({ status, headers, text }: Answer): string {
  if (headers['idempotent-replayed'] === 'true') return 'replayed';
  if (status === 400) return text.includes(INVALID_KEY) ? 'invalid_key' : 'refused';
  if (status === 503 && text.includes('nothing was charged yet')) return 'not_sent';
  if (status === 503 && text.includes('Too many payments')) return 'refused_for_load';
  if (status === 422 && text.includes('needs attempt 1 to be declined')) return 'out_of_turn';
  const others: Record<number, string> = {
    200: 'processed',
    202: 'pending',
    402: 'declined',
    409: 'in_progress',
    410: 'cancelled',
    422: 'mismatch',
    503: 'unavailable',
    504: 'unknown',
  };
  return others[status] ?? 'refused';
}

const requestsCounted = (samples: readonly Sample[]) =>
  Object.fromEntries(
    samples
      .filter(({ name, labels }) => name === 'idempay_http_requests_total' && labels.route !== '/metrics')
      .map(({ labels: { method, route, status }, value }) => [`${method} ${route} ${status}`, value]),
  );

describeDeployments('metrics', (deployment) => {
  async function open(settings: Record<string, string> = {}) {
    const { url, processor, close } = await openProcessedService(deployment, {}, settings);
    onTestFinished(close);
    const counted = () => scrape(url);
    /** All that was answered is counted, and nothing else. */
    const expectToAddUp = async (client: CountingClient) => {
      await expect.poll(async () => requestsCounted(await counted())).toEqual(client.requests);
      return counted();
    };
    return { url, processor, client: new CountingClient(url), expectToAddUp };
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a mix of requests, read from top to bottom, and what the metrics say of it.
  test('match the answers to payments, also with an unclear processor and overload', async () => {
    const { client, processor, expectToAddUp } = await open({
      PAYLOAD_MISMATCH: 'reject',
      MAX_PAYMENTS_IN_FLIGHT: `${IN_FLIGHT}`,
    });
    const keys: string[] = [];
    const newKeys = async (many: number) => {
      const made = await inParallel(many, many, () => client.newKey());
      keys.push(...made);
      return made;
    };

    // More at once than there may be, with duplicates and one that waits.
    await processor.behave({ latencyMs: SLOW_MS });
    await Promise.all(
      (await newKeys(PAYERS)).flatMap((key) => [
        client.pay(key),
        client.pay(key),
        client.pay(key, MONEY, { Prefer: 'wait=5' }),
      ]),
    );
    await processor.behave({ latencyMs: 0, declineRate: 1 });
    for (const key of await newKeys(3)) await client.pay(key);
    await processor.behave({ declineRate: 0, lostReplyRate: 1 });
    for (const key of await newKeys(3)) await client.pay(key);
    await processor.kill();
    for (const key of await newKeys(2)) await client.pay(key);
    await processor.restart({ lostReplyRate: 0 });
    for (const key of keys) await client.payUntilFinal(key);
    await processor.behave({ pendingRate: 1 });
    await client.pay(undefined, { ...MONEY, returnUrl: 'https://shop.example/back' }, {}, '?reference=order-18');
    await processor.behave({ pendingRate: 0 });

    for (const key of keys.slice(0, 3)) await client.pay(key, { amount: '7.00', currency: 'EUR' });
    const closed = { 'Idempotency-Key': await client.newKey() };
    await client.send('POST', '/api/payment-cancellation', undefined, { headers: closed });
    await client.pay(undefined, MONEY, closed);
    await client.pay(undefined, MONEY, {}, '?reference=order-17&attempt=2');
    await client.pay(undefined);
    await client.pay('not a key');
    await client.pay(randomUUID());
    await client.pay(await client.newKey(), { amount: '0', currency: 'USD' });
    await client.pay(await client.newKey(), '{');
    await client.pay(await client.newKey(), 'x'.repeat(20_000));
    await client.pay(await client.newKey(), MONEY, { 'Content-Type': 'text/plain' });

    const samples = await expectToAddUp(client);
    const told = valuesBy(samples, 'idempay_payments_total', 'outcome');
    const nonZero = Object.fromEntries(Object.entries(told).filter(([, value]) => value > 0));
    expect(nonZero).toEqual(client.payments);
    // Nothing of the mix was left out. A store that is slow for a moment adds what the mix does not have.
    const isOfMix = (outcome: string) => !['unavailable', 'error'].includes(outcome);
    expect(Object.keys(client.payments).filter(isOfMix).sort()).toEqual(Object.keys(told).filter(isOfMix).sort());
    expect(sumOf(samples, 'idempay_http_requests_total', { route: '/api/payment' })).toBe(
      Object.values(told).reduce((sum, value) => sum + value, 0),
    );
    const processed = sumOf(samples, 'idempay_http_request_duration_seconds_count', { route: '/api/payment' });
    expect(processed).toBe(sumOf(samples, 'idempay_http_requests_total', { route: '/api/payment' }));

    // Each payment was settled once, by a request, which told it first, or by recovery.
    const {
      first_claim = 0,
      repeat = 0,
      recovery = 0,
      operator,
    } = valuesBy(samples, 'idempay_payments_settled_total', 'by');
    expect(first_claim + repeat + recovery).toBe(keys.length);
    expect(first_claim + repeat).toBe((client.payments.processed ?? 0) + (client.payments.declined ?? 0));
    expect(operator).toBe(0);
    const calls = valuesBy(
      samples.filter(({ labels }) => labels.call === 'charge'),
      'idempay_processor_call_seconds_count',
      'result',
    );
    const log = await processor.charges();
    expect((calls.succeeded ?? 0) + (calls.declined ?? 0) + (calls.unknown ?? 0)).toBeGreaterThanOrEqual(log.length);
    expect(calls.declined).toBe(log.filter(({ status }) => status === 'declined').length);
    expect(calls.not_sent).toBeGreaterThan(0);
    const rest = ['idempay_payment_attempts_in_flight', 'idempay_payment_waiters', 'idempay_store_queue_length'];
    // The service's own work, such as the time of its store, may be in a queue at any moment.
    for (const name of rest)
      await expect.poll(async () => sumOf(await scrape(client.url), name), { message: name }).toBe(0);
    expect(sumOf(samples, 'idempay_processor_up')).toBe(1);
  });

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: a mix of requests, read from top to bottom, and what the metrics say of it.
  test('match the answers about transactions: cache, marks and list tags', async () => {
    const { client, expectToAddUp } = await open();
    const PATH = '/api/transactions';
    const create = async () => {
      const body = JSON.stringify({ fromAccount: 'A', toAccount: 'B', amount: '1' });
      const answer = await client.send('POST', PATH, PATH, { headers: JSON_TYPE, body });
      return answer.json<{ transactionId: number }>().transactionId;
    };
    const read = (id: number, method = 'GET') => client.send(method, `${PATH}/:id`, `${PATH}/${id}`);
    const change = (id: number, status: string) =>
      client.send('PUT', `${PATH}/:id/status`, `${PATH}/${id}/status?newStatus=${status}`);
    const remove = (id: number) => client.send('DELETE', `${PATH}/:id`, `${PATH}/${id}`);
    const list = (headers: Ask['headers'] = {}) => client.send('GET', PATH, `${PATH}?from=A`, { headers });

    // Rebuilt, known, extended, known and not modified, rebuilt: each as its name says.
    const ids = await inParallel(20, 5, create);
    await list();
    const { headers } = await list();
    await create();
    await list();
    const changed = { 'If-None-Match': String(headers.etag) };
    await list(changed);
    await remove(ids[0] ?? 0);
    await list(changed);

    for (const id of ids.slice(1, 6))
      for (let times = 0; times < 3; times += 1) await read(id, times === 1 ? 'HEAD' : 'GET');
    await read(ids[0] ?? 0);
    for (const id of ids.slice(1, 4)) await change(id, 'FLAGGED');
    for (const id of ids.slice(1, 4)) await read(id);
    await change(100, 'FLAGGED');
    await remove(ids[1] ?? 0);
    // Requests that are refused before they reach a feature.
    await change(ids[2] ?? 0, 'NOTHING');
    await client.send('GET', 'none', '/nothing');
    await client.send('GET', 'none', '/%zz');
    await client.send('PATCH', PATH);
    await client.send('GET', '/api/payments/:key', `/api/payments/${randomUUID()}`);

    const samples = await expectToAddUp(client);
    const by = (name: string) => valuesBy(samples, `idempay_${name}`, 'result');
    expect(by('transaction_cache_lookups_total')).toEqual({ bypass: 0, ...client.lookUps });
    expect(by('transaction_cache_fills_total')).toEqual({ filled: 5, refused: 0, failed: 0 });
    // Three changes, two removals, and the change of one that is not there.
    expect(sumOf(samples, 'idempay_transaction_cache_marks_total')).toBe(6);
    expect(by('list_tags_total')).toEqual({ known: 2, extended: 1, rebuilt: 2 });
    for (const store of deployment.name === 'embedded' ? ['sqlite'] : ['redis', 'postgresql']) {
      // A busy machine may have kept the store from answering in time.
      await expect.poll(async () => sumOf(await scrape(client.url), 'idempay_store_up', { store })).toBe(1);
      expect(sumOf(samples, 'idempay_store_round_trip_seconds_count', { store })).toBeGreaterThan(0);
      if (store !== 'redis')
        expect(sumOf(samples, 'idempay_store_batch_size_sum', { store })).toBeGreaterThanOrEqual(21);
    }
    if (deployment.name === 'embedded') {
      expect(sumOf(samples, 'idempay_store_commit_seconds_count')).toBeGreaterThan(0);
      await expect.poll(async () => sumOf(await scrape(client.url), 'idempay_store_wal_bytes')).toBeGreaterThan(0);
    }
  });

  test('count what was refused by its reason, and the connections that are open', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-metrics-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const [payer, collector, idler] = [
      credentialOf('payer', ['payments:write']),
      credentialOf('collector', ['metrics']),
      credentialOf('idler', ['payments:read']),
    ];
    await writeFile(join(folder, 'keys.json'), keyFileOf(payer, collector, idler));
    const { url } = await open({
      AUTH: 'required',
      API_KEYS_FILE: join(folder, 'keys.json'),
      RATE_LIMIT_PER_MINUTE: `${REQUESTS}`,
      MAX_CONNECTIONS: `${CONNECTIONS}`,
    });
    const statusesOf = async (times: number, path: string, options: Ask) => {
      const statuses: number[] = [];
      for (let time = 0; time < times; time += 1) statuses.push((await ask(`${url}${path}`, options)).status);
      return statuses.filter((status) => status !== 200);
    };
    const counted = () => scrape(url, collector.headers);
    const expectConnections = (count: number) =>
      expect.poll(async () => sumOf(await counted(), 'idempay_http_connections')).toBe(count);
    const KEY = '/api/server-generated/generate-key';
    expect(await statusesOf(2, '/api/payments', payer)).toEqual([403, 403]);
    expect(await statusesOf(3, KEY, {})).toEqual([401, 401, 401]);
    expect(await statusesOf(1, KEY, { headers: { Authorization: 'Bearer nobody' } })).toEqual([401]);
    expect(await statusesOf(REQUESTS + 4, '/api/payments/none', idler)).toEqual([
      ...Array(REQUESTS).fill(404),
      ...Array(4).fill(429),
    ]);

    // One of them is the collector's.
    const port = Number(new URL(url).port);
    const READ = requestText('GET /api/health/redis HTTP/1.1');
    const sockets = Array.from({ length: CONNECTIONS - 1 }, () => openConnection(port, READ));
    await Promise.all(sockets.map((socket) => once(socket, 'data')));
    const { length: openNow } = sockets;
    await expectConnections(openNow + 1);
    for (let time = 0; time < 2; time += 1) {
      const [answer] = await once(openConnection(port, READ), 'data');
      expect(String(answer)).toMatch(/^HTTP\/1\.1 503/);
    }
    // Probes are answered, and are not counted.
    const [probe] = await once(openConnection(port, requestText('GET /livez HTTP/1.1')), 'data');
    expect(String(probe)).toMatch(/^HTTP\/1\.1 200/);
    for (const socket of sockets) socket.destroy();
    await expectConnections(1);

    expect(valuesBy(await counted(), 'idempay_requests_refused_total', 'reason')).toEqual({
      credentials: 4,
      credentials_unchecked: 0,
      scope: 2,
      rate_limit: 4,
      bodies: 0,
      unpaid_keys: 0,
      connections: 2,
    });
  });

  test('are shown to the scope for them, in the text format', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-metrics-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const collector = credentialOf('prometheus', ['metrics']);
    await writeFile(join(folder, 'keys.json'), keyFileOf(collector));
    const { url } = await open({ AUTH: 'required', API_KEYS_FILE: join(folder, 'keys.json') });
    expect((await ask(`${url}/metrics`)).status).toBe(401);
    const answer = await ask(`${url}/metrics`, collector);
    expect([answer.status, answer.headers['content-type'], answer.headers['cache-control']]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
      'no-store',
    ]);
    const samples = await scrape(url, collector.headers);
    for (const { name } of samples) expect(name).toMatch(/^idempay_[a-z_]+$/);
    const kind = deployment.name === 'embedded' ? 'embedded' : 'distributed';
    expect(sumOf(samples, 'idempay_build_info', { deployment: kind })).toBe(1);
    await until('a delay of the event loop to be counted', COUNTED_DEADLINE_MS, async () => {
      return sumOf(await scrape(url, collector.headers), 'idempay_event_loop_delay_seconds_count') > 0;
    });
  });
});
