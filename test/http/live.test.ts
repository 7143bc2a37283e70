import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Sample } from '#idempay/live/sample.js';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { followLive, readLive } from '../../testkit/client/live.js';
import { scrape, sumOf, valuesBy } from '../../testkit/client/metrics.js';
import { givenTransaction, listTransactions, readTransaction } from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { until } from '../../testkit/time/until.js';

const INTERVAL_MS = 5_000;
/** For a slow machine: a revoked key is read within a second. */
const REVOKED_WITHIN_MS = 5_000;

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
    const { headers: told } = await ask(`${url}/api/live`);
    expect(told).toMatchObject({ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' });

    const key = await generateKey(url);
    for (let time = 0; time < 3; time += 1) expect((await pay(url, key)).status).toBe(200);
    expect((await pay(url, 'no key')).status).toBe(400);
    const { transactionId } = await givenTransaction(url);
    for (let time = 0; time < 3; time += 1) await readTransaction(url, transactionId);
    const { headers } = await listTransactions(url);
    await ask(`${url}/api/transactions`, { headers: { 'If-None-Match': String(headers.etag) } });

    const isSeen = (samples: readonly Sample[]) => sumOver(samples, ({ lists }) => lists.notModified) === 1;
    const samples = await followLive(url).until('the last request', isSeen);
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
    const again = await readLive(url);
    expect(again).toMatchObject({ intervalMs: INTERVAL_MS, keepMs: 900_000, instance: first.instance });
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

    // Another poll has the earlier samples too, and with `since` only the younger ones.
    expect(again.samples[0]).toEqual(first);
    expect(again.samples.length).toBeGreaterThanOrEqual(samples.length);
    const { samples: younger } = await readLive(url, {}, `?since=${first.at}`);
    expect(younger).toEqual(expect.arrayContaining(samples.slice(1)));
    expect(younger).not.toContainEqual(first);
    expect((await readLive(url, {}, `?since=${first.at - 1}`)).samples[0]).toEqual(first);
  });

  test('is for the scope metrics only, and not for a key that was revoked', async () => {
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
    await readLive(url, watcher.headers);
    await writeFile(file, keyFileOf(other, payer));
    await until('the key to be revoked', REVOKED_WITHIN_MS, async () => {
      const { status } = await ask(`${url}/api/live`, watcher);
      return status === 401;
    });
    await readLive(url, other.headers);
  });

  test('refuses what it does not know, and answers HEAD without samples', async () => {
    const { url } = (await open()).service;
    for (const query of ['?since=now', '?since=-1', '?from=1', '?since=1&since=2'])
      expectError(await ask(`${url}/api/live${query}`), 400);
    const head = await ask(`${url}/api/live`, { method: 'HEAD' });
    expect([head.status, head.text, head.headers['content-type']]).toEqual([
      200,
      '',
      'application/json; charset=utf-8',
    ]);
    expect((await ask(`${url}/api/live`, { method: 'POST' })).headers.allow).toBe('GET, HEAD');
    const heads = { route: '/api/live', method: 'HEAD' };
    expect(sumOf(await scrape(url), 'idempay_http_requests_total', heads)).toBe(1);
  });

  if (deployment.name === 'embedded') return;

  test('shows all processes, each from its own samples, whichever is asked', async () => {
    const { stores, service: one } = await open();
    const other = await stores.serve();
    for (let time = 0; time < 3; time += 1) await pay(other.url, await generateKey(other.url));
    const instances = await Promise.all([one, other].map(async ({ url }) => (await readLive(url)).instance));
    expect(new Set(instances).size).toBe(2);
    const [ofOne, ofOther] = instances;
    const paidBy = (instance: unknown, samples: readonly Sample[]) =>
      sumOver(
        samples.filter((sample) => sample.instance === instance),
        ({ payments }) => payments.processed ?? 0,
      );
    for (const { url } of [one, other]) {
      const samples = await followLive(url).until(
        'both',
        (all) => paidBy(ofOther, all) > 0 && all.some(({ instance }) => instance === ofOne),
      );
      expect([paidBy(ofOne, samples), paidBy(ofOther, samples)]).toEqual([0, 3]);
      // A poll has the samples that were shared before, each once.
      const found = (await readLive(url)).samples;
      const names = (all: readonly Sample[]) => all.map(({ instance, at }) => `${instance} ${at}`);
      expect(names(found)).toEqual(expect.arrayContaining(names(samples)));
      expect(new Set(names(found)).size).toBe(found.length);
      expect(found.map(({ at }) => at)).toEqual(found.map(({ at }) => at).sort((a, b) => a - b));
    }
  });
});
