import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Sample } from '#idempay/live/sample.js';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { openLive } from '../../testkit/client/live.js';
import { scrape, sumOf, valuesBy } from '../../testkit/client/metrics.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { givenTransaction, listTransactions, readTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { serveInProcess } from '../../testkit/processes/service-in-process.js';
import { withSlack } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

const MOST_STREAMS = 32;
const INTERVAL_MS = 5_000;
/** So many requests of a connection are worked on at once. */
const AT_WORK = 8;
/** For a slow machine, and much less than the three minutes for which places were kept. */
const PLACES_DEADLINE_MS = 20_000;
/** A revoked key is read within a second, and asked about every four. */
const REVOKED_WITHIN_MS = 5_000;
/** A drain that is delayed takes as long. */
const DRAIN_MS = 20_000;

const total = (counts: Readonly<Record<string, number>> | readonly number[]) =>
  Object.values(counts).reduce((sum: number, count: number) => sum + count, 0);
const sumOver = (samples: readonly Sample[], of: (sample: Sample) => number) =>
  samples.reduce((sum, sample) => sum + of(sample), 0);

describeDeployments('the live view', (deployment) => {
  async function open(environment: Record<string, string> = {}) {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return { stores, service: await stores.serve(environment) };
  }

  test('adds up to what /metrics shows, one sample every five seconds', async () => {
    const { url } = (await open()).service;
    const reader = await openLive(url);
    onTestFinished(reader.close);
    expect(Object.fromEntries(reader.headers)).toMatchObject({
      'content-type': 'application/x-ndjson; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });

    const key = await generateKey(url);
    for (let time = 0; time < 3; time += 1) expect((await pay(url, key)).status).toBe(200);
    expect((await pay(url, 'no key')).status).toBe(400);
    const { transactionId } = await givenTransaction(url);
    for (let time = 0; time < 3; time += 1) await readTransaction(url, transactionId);
    const { headers } = await listTransactions(url);
    await ask(`${url}/api/transactions`, { headers: { 'If-None-Match': String(headers.etag) } });

    const isSeen = (samples: readonly Sample[]) => sumOver(samples, ({ lists }) => lists.notModified) === 1;
    const samples = await reader.until('the last request', isSeen);
    const shown = await scrape(url);
    const outcomes = valuesBy(shown, 'idempay_payments_total', 'outcome');
    for (const [outcome, count] of Object.entries(outcomes))
      expect(
        sumOver(samples, ({ payments }) => payments[outcome] ?? 0),
        outcome,
      ).toBe(count);
    expect(outcomes).toMatchObject({ processed: 1, replayed: 2, invalid_key: 1 });
    for (const result of ['hit', 'miss', 'bypass'] as const)
      expect(
        sumOver(samples, ({ cache }) => cache[result]),
        result,
      ).toBe(sumOf(shown, 'idempay_transaction_cache_lookups_total', { result }));
    expect(sumOver(samples, ({ lists }) => lists.sent)).toBe(1);
    const paid = sumOf(shown, 'idempay_http_request_duration_seconds_count', {
      route: '/api/payment',
      method: 'POST',
    });
    expect(sumOver(samples, ({ latency }) => total(latency.counts))).toBe(paid);
    const commits = sumOver(samples, ({ commit }) => total(commit.counts));
    if (deployment.name === 'embedded') expect(commits).toBeGreaterThan(0);
    else expect(commits).toBe(1);

    const [first] = samples as [Sample];
    const [hello] = reader.lines;
    expect(hello).toEqual({ type: 'hello', intervalMs: INTERVAL_MS, keepMs: 900_000, instance: first.instance });
    expect(first.process).toMatchObject({ pid: process.pid });
    expect(first.spanMs).toBeGreaterThanOrEqual(INTERVAL_MS - 1);
    expect(Object.keys(first.stores).sort()).toEqual(Object.keys(valuesBy(shown, 'idempay_store_up', 'store')).sort());
    expect(Object.values(first.stores)).not.toContain(false);
    const queues = shown.filter(({ name }) => name === 'idempay_store_queue_length');
    expect(Object.keys(first.queues).sort()).toEqual(
      queues.map(({ labels }) => `${labels.store} ${labels.queue}`).sort(),
    );
    expect(first).toMatchObject({ attempts: { request: 0, recovery: 0 }, waiters: 0, processorUp: true });
    expect(first.memoryBytes).toBeGreaterThan(1_000_000);
    expect(first.latency.counts).toHaveLength(first.latency.bounds.length + 1);
    expect(total(first.loopDelay.counts)).toBeGreaterThan(0);

    // A later watcher gets the earlier samples, with `since` only the younger ones.
    const later = await openLive(url);
    onTestFinished(later.close);
    expect((await later.until('the first sample', ({ length }) => length > 0))[0]).toEqual(first);
    const since = await openLive(url, {}, `?since=${first.at}`);
    onTestFinished(since.close);
    for (const { at } of await since.until('a sample', ({ length }) => length > 0))
      expect(at).toBeGreaterThan(first.at);

    // A stream is counted once, when it begins, and its hours are no slow request.
    const measured = await scrape(url);
    const ofLive = { route: '/api/live', method: 'GET' };
    expect(sumOf(measured, 'idempay_http_requests_total', ofLive)).toBe(3);
    expect(sumOf(measured, 'idempay_http_request_duration_seconds_sum', ofLive)).toBeLessThan(INTERVAL_MS / 1_000);
  });

  test('ends at once when the process drains, and does not delay the drain', async () => {
    const { service } = await open();
    const reader = await openLive(service.url);
    const begun = performance.now();
    await service.stop(DRAIN_MS);
    expect(performance.now() - begun).toBeLessThan(DRAIN_MS);
    await reader.ended;
    expect(reader.lines).toMatchObject([{ type: 'hello' }]);
  });

  test('ends when its key is revoked, and is for the scope metrics only', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-live-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const [watcher, other, payer] = [
      credentialOf('watcher', ['metrics']),
      credentialOf('other', ['metrics']),
      credentialOf('payer', ['payments:write', 'operations']),
    ];
    const file = join(folder, 'keys.json');
    await writeFile(file, keyFileOf(watcher, other, payer));
    const { url } = (await open({ AUTH: 'required', API_KEYS_FILE: file })).service;
    expect((await ask(`${url}/api/live`)).status).toBe(401);
    expect((await ask(`${url}/api/live`, payer)).status).toBe(403);
    const [revoked, kept] = await Promise.all([
      openLive(url, { ...watcher.headers }),
      openLive(url, { ...other.headers }),
    ]);
    onTestFinished(kept.close);
    const begun = performance.now();
    await writeFile(file, keyFileOf(other, payer));
    await revoked.ended;
    expect(performance.now() - begun).toBeLessThan(withSlack(REVOKED_WITHIN_MS));
    await kept.until('a sample', ({ length }) => length > 0);
    expect((await ask(`${url}/api/live`, watcher)).status).toBe(401);
  });

  test('is for so many at once, refuses what it does not know, and answers HEAD without a stream', async () => {
    const { url } = (await open()).service;
    const readers = await Promise.all(Array.from({ length: MOST_STREAMS }, () => openLive(url)));
    const refused = await ask(`${url}/api/live`);
    expectError(refused, 503);
    expect(refused.headers['retry-after']).toBe('2');
    for (const reader of readers) reader.close();
    // Bug: each place was held until a second line was written to the reader that had left, ten seconds later, so that a page that was loaded
    // again and again was refused. Half as long is no line at all.
    for (let time = 0; time < 2 * MOST_STREAMS; time += 1)
      await expect
        .poll(() => openLive(url).then((reader) => reader.close(), String), { timeout: INTERVAL_MS / 2, interval: 20 })
        .toBeUndefined();

    for (const query of ['?since=now', '?since=-1', '?from=1', '?since=1&since=2'])
      expectError(await ask(`${url}/api/live${query}`), 400);
    const head = await ask(`${url}/api/live`, { method: 'HEAD' });
    expect([head.status, head.text, head.headers['content-type']]).toEqual([
      200,
      '',
      'application/x-ndjson; charset=utf-8',
    ]);
    expect((await ask(`${url}/api/live`, { method: 'POST' })).headers.allow).toBe('GET, HEAD');
    const heads = { route: '/api/live', method: 'HEAD' };
    expect(sumOf(await scrape(url), 'idempay_http_requests_total', heads)).toBe(1);
  });

  // Bug: a stream behind another one on a connection kept its place for three minutes. `test/unit/client-gone` has the cause.
  test.each<[how: string, leave: (socket: Socket) => void]>([
    ['resets its connection', (socket) => socket.resetAndDestroy()],
    ['ends its sending side', (socket) => socket.end()],
  ])('gets the places of pipelined requests back when their client %s', async (_how, leave) => {
    const { url, port } = (await open()).service;
    const text = requestText('GET /api/live HTTP/1.1').repeat(AT_WORK);
    const sockets = Array.from({ length: MOST_STREAMS / AT_WORK }, () =>
      openConnection(port, text, { allowHalfOpen: true }).resume(),
    );
    onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
    await until('all places to be taken', PLACES_DEADLINE_MS, async () => {
      const { status } = await ask(`${url}/api/live`, { firstPart: true });
      return status === 503;
    });
    sockets.forEach(leave);
    const readers = await until('all places to be free', PLACES_DEADLINE_MS, async () => {
      const opened = await Promise.allSettled(Array.from({ length: MOST_STREAMS }, () => openLive(url)));
      const free = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      if (free.length === MOST_STREAMS) return free;
      for (const { close } of free) close();
      return undefined;
    });
    for (const { close } of readers) close();
  });

  test('is not cut as idle between two lines', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const service = await serveInProcess(stores.environment, { unreadTimeout: 1_000, keepAliveTimeout: 1_000 });
    onTestFinished(() => service.stop(50));
    const reader = await openLive(service.url);
    onTestFinished(reader.close);
    await reader.until('two samples', ({ length }) => length === 2);
  });

  if (deployment.name === 'embedded') return;

  test('shows all processes in one stream, each from its own samples', async () => {
    const { stores, service: one } = await open();
    const other = await stores.serve();
    const readers = await Promise.all([openLive(one.url), openLive(other.url)]);
    for (const { close } of readers) onTestFinished(close);
    for (let time = 0; time < 3; time += 1) await pay(other.url, await generateKey(other.url));
    const [ofOne, ofOther] = readers.map(({ instance }) => instance);
    expect(ofOne).not.toBe(ofOther);
    for (const reader of readers) {
      const samples = await reader.until('both', (all) => new Set(all.map(({ instance }) => instance)).size === 2);
      const paidBy = (instance: unknown) =>
        sumOver(
          samples.filter((sample) => sample.instance === instance),
          ({ payments }) => payments.processed ?? 0,
        );
      expect([paidBy(ofOne), paidBy(ofOther)]).toEqual([0, 3]);
    }
    // A new watcher gets the samples that were shared before.
    const later = await openLive(one.url);
    onTestFinished(later.close);
    const before = readers[0]?.samples() ?? [];
    const found = await later.until('what there was', ({ length }) => length >= before.length);
    const names = (samples: readonly Sample[]) => samples.map(({ instance, at }) => `${instance} ${at}`);
    expect(names(found)).toEqual(expect.arrayContaining(names(before)));
    expect(new Set(names(found)).size).toBe(found.length);
  });
});
