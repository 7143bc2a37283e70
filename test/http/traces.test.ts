import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '#idempay/platform/clock.js';
import { createTraces } from '#idempay/traces/traces.js';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { type Answer, ask, generateKey, pay, sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectReplay } from '../../testkit/client/payment-answers.js';
import { converse, GOOD_LENGTH, paymentText, statusesIn } from '../../testkit/client/raw-http.js';
import { type Deployment, describeDeployments, describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { type Collector, type ExportedSpan, startCollector } from '../../testkit/servers/otlp-collector.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 15_000;
const MONEY = { amount: '271.83', currency: 'EUR' };
const PASSWORD = 'processor-hunter2';
const STATE = 'vendor=their-own-value';
const SERVER = 2;

type Traced = Pick<ExportedSpan, 'traceId' | 'spanId'>;
interface Charged {
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
}

/** A caller's own trace, as the W3C header has it. */
function startCaller(flags = '01') {
  const [traceId, spanId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { traceId, spanId, headers: { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: STATE } };
}

function traceparentOf({ headers }: Charged): Traced & { readonly flags: string } {
  const [, traceId = '', spanId = '', flags = ''] = String(headers.traceparent).split('-');
  return { traceId, spanId, flags };
}

function succeed(response: ServerResponse): void {
  response.statusCode = 201;
  response.end('{"status":"succeeded"}');
}

/**
 * The requests that were sent to be charged. A process that was late looks its own payment up first, and that is not what these tests
 * count.
 */
const sent = (received: readonly Charged[]) => received.filter(({ method }) => method === 'POST') as [Charged];

const childrenOf = (spans: readonly ExportedSpan[], { spanId }: Traced) =>
  spans.filter(({ parentSpanId }) => parentSpanId === spanId);

const namesOf = (spans: readonly ExportedSpan[]) => spans.map(({ name }) => name).sort();

async function openService(deployment: Deployment, settings: Record<string, string> = {}) {
  const collector = await startCollector();
  let answer = (response: ServerResponse, _asked: Charged): void => void succeed(response);
  const processor = await startHttpServer((response, asked) => answer(response, asked));
  const stores = await deployment.open();
  const service = await stores.serve({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
    PROCESSOR_URL: `http://shop:${PASSWORD}@127.0.0.1:${processor.port}`,
    ...settings,
  });
  onTestFinished(async () => {
    await stores.close();
    await collector.close();
  });
  // Before its first claim a process writes down under which processor's name it claims.
  if (settings.AUTH === undefined) await pay(service.url, await generateKey(service.url), MONEY);
  processor.received.length = 0;
  return {
    ...service,
    stores,
    collector,
    charged: processor.received as readonly Charged[],
    processorAnswers: (how: typeof answer) => {
      answer = how;
    },
  };
}

/** A store may have secrets of its own. */
describeDeployments('traces', (deployment) => {
  test('hold no credential, key, amount, account or body, and are not made for probes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-traces-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, 'keys.json');
    const shop = credentialOf('shop', ['payments:write', 'payments:read', 'transactions:read', 'transactions:write']);
    await writeFile(file, keyFileOf(shop));
    const { url, collector, processorAnswers, stores, stop } = await openService(deployment, {
      AUTH: 'required',
      API_KEYS_FILE: file,
    });
    const headers = { ...shop.headers };
    const send = (path: string, more: Parameters<typeof ask>[1] = {}) =>
      ask(`${url}${path}`, { ...more, headers: { ...headers, ...more.headers } });
    const newKey = async () => (await send('/api/server-generated/generate-key')).json<string>();

    const keys = [await newKey(), await newKey(), await newKey()] as const;
    const answers: Answer[] = [];
    for (const key of keys) answers.push(await pay(url, key, MONEY, { headers }));
    answers.push(await pay(url, keys[0], MONEY, { headers }));
    processorAnswers((response) => {
      response.statusCode = 402;
      response.end('{"status":"declined","reason":"a-reason-of-theirs"}');
    });
    const declined = await newKey();
    answers.push(await pay(url, declined, MONEY, { headers }));
    answers.push(await pay(url, declined, '{"amount":"271.83",', { headers }));
    answers.push(await send(`/api/payments/${keys[0]}`));
    const created = await sendJson(
      `${url}/api/transactions`,
      'POST',
      { fromAccount: 'alice-acc', toAccount: 'bob-acc', amount: '314.15' },
      headers,
    );
    answers.push(created, await send('/api/transactions?from=alice-acc'), await send('/readyz'), await send('/livez'));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 402, 400, 200, 201, 200, 200, 200]);
    await stop();

    const outcomes = collector.spans.map(({ attributes }) => attributes['idempay.outcome']).filter(Boolean);
    expect(outcomes.sort()).toEqual(['declined', 'processed', 'processed', 'processed', 'refused', 'replayed']);
    const routes = new Set(collector.spans.filter(({ kind }) => kind === SERVER).map(({ name }) => name));
    expect([...routes].sort()).toEqual([
      'GET /api/payments/:key',
      'GET /api/server-generated/generate-key',
      'GET /api/transactions',
      'POST /api/payment',
      'POST /api/transactions',
    ]);
    const exported = collector.bodies.join('\n');
    const { DATABASE_URL } = stores.environment;
    for (const secret of [
      ...[...keys, declined, shop.headers.Authorization, shop.headers.Authorization.slice('Bearer '.length)],
      ...[PASSWORD, shop.entry.sha256, '271.83', 'EUR', '314.15', 'alice-acc', 'bob-acc', 'a-reason-of-theirs'],
      ...(DATABASE_URL === undefined ? [] : [DATABASE_URL]),
    ]) {
      expect(exported, `must not hold ${secret}`).not.toContain(secret);
    }
    expect(exported).toContain(transactionIdOf(answers[0] as Answer));
  });
});

describeOneDeployment('traces', (deployment) => {
  /** The server's span of a caller's request; all others of its trace came with it or before. */
  const requestOf = (collector: Collector, { traceId }: Traced) =>
    collector.untilSpan('of the request', (span) => span.traceId === traceId && span.kind === SERVER);

  test('lead from the caller through a first payment to the processor, and through a repeat', async () => {
    const { url, collector, charged } = await openService(deployment);
    const key = await generateKey(url);
    const caller = startCaller();
    const first = await pay(url, key, MONEY, { headers: caller.headers });
    const transactionId = transactionIdOf(first);

    const server = await requestOf(collector, caller);
    expect(server).toMatchObject({ name: 'POST /api/payment', parentSpanId: caller.spanId });
    expect(server.attributes).toMatchObject({
      'service.name': 'idempay',
      'http.request.method': 'POST',
      'http.route': '/api/payment',
      'http.response.status_code': 200,
      'idempay.outcome': 'processed',
      'idempay.transaction_id': transactionId,
    });
    const spans = collector.ofTrace(caller.traceId);
    expect(namesOf(spans)).toEqual(['POST /api/payment', 'payment.charge']);
    const call = spans.find(({ name }) => name === 'payment.charge') as ExportedSpan;
    expect(call.parentSpanId).toBe(server.spanId);
    expect(call.attributes).toMatchObject({ 'idempay.result': 'succeeded', 'idempay.transaction_id': transactionId });

    expect(sent(charged)).toHaveLength(1);
    const [charge] = sent(charged);
    expect(traceparentOf(charge)).toEqual({ traceId: caller.traceId, spanId: call.spanId, flags: '01' });
    expect(charge.headers.tracestate).toBe(STATE);

    const again = startCaller();
    const repeat = await pay(url, key, MONEY, { headers: again.headers });
    expectReplay(repeat, transactionId as string);
    const replayed = await requestOf(collector, again);
    expect(replayed.attributes).toMatchObject({
      'idempay.outcome': 'replayed',
      'idempay.transaction_id': transactionId,
    });
    expect(collector.ofTrace(again.traceId)).toEqual([replayed]);
    expect(sent(charged)).toHaveLength(1);
    expect(collector.asked[0]).toBe('POST /v1/traces application/json');
  });

  test('of recovery and of an operator are their own, and reach the processor', async () => {
    const { url, collector, charged, processorAnswers } = await openService(deployment, {
      PROCESSOR_DEDUP_SECONDS: '0',
    });
    processorAnswers((response) => void response.destroy());
    const caller = startCaller();
    const recovered = await generateKey(url);
    expect((await pay(url, recovered, MONEY, { headers: caller.headers })).status).toBe(504);
    const unclear = await requestOf(collector, caller);
    expect(unclear.attributes).toMatchObject({ 'idempay.outcome': 'unknown', 'http.response.status_code': 504 });
    expect(unclear.status.code, 'an error').toBe(2);

    processorAnswers((response, { method }) =>
      method === 'GET' ? void response.end('{"status":"succeeded"}') : void succeed(response),
    );
    const recovery = await collector.untilSpan(
      'recovery that finished it',
      ({ name, attributes }) => name === 'payment.recovery' && attributes['idempay.result'] === 'settled',
    );
    expect(recovery.parentSpanId ?? '').toBe('');
    expect(recovery.traceId).not.toBe(caller.traceId);
    expect(recovery.attributes['idempay.transaction_id']).toBe(unclear.attributes['idempay.transaction_id']);
    const steps = childrenOf(collector.ofTrace(recovery.traceId), recovery);
    expect(namesOf(steps)).toEqual(['payment.look_up']);
    const [lookUp] = steps;
    const lookUps = charged.filter(({ method }) => method === 'GET').map(traceparentOf);
    expect(lookUps).toContainEqual({ traceId: recovery.traceId, spanId: lookUp?.spanId, flags: '01' });

    processorAnswers((response) => void response.destroy());
    const resolved = await generateKey(url);
    expect((await pay(url, resolved, MONEY)).status).toBe(504);
    const operator = startCaller();
    await until('a resolution', DEADLINE_MS, async () => {
      const verdict = { outcome: 'completed', reason: 'on the statement of 2026-11-22' };
      const answer = await sendJson(`${url}/api/payments/${resolved}/resolution`, 'POST', verdict, operator.headers);
      return answer.status === 200;
    });
    await collector.untilSpan(
      'the resolution',
      ({ name, traceId, attributes }) =>
        name === 'POST /api/payments/:key/resolution' &&
        traceId === operator.traceId &&
        attributes['http.response.status_code'] === 200,
    );
  });

  test('go on when the body comes long after the head', async () => {
    const { url, port, collector, stop } = await openService(deployment);
    const caller = startCaller();
    const [head, body] = paymentText(await generateKey(url), [
      GOOD_LENGTH,
      `traceparent: ${caller.headers.traceparent}`,
    ]).split(/(?<=\r\n\r\n)/) as [string, string];
    expect(statusesIn(await converse(port, [head, body], 1))).toEqual([200]);
    await stop();
    const names = namesOf(collector.ofTrace(caller.traceId));
    expect(names).toEqual(['POST /api/payment', 'payment.charge']);
  });

  test('are not made for a caller that opts out, nor above the sampling ratio', async () => {
    const { url, collector, charged, stop } = await openService(deployment, { OTEL_SERVICE_NAME: 'payments-eu' });
    const quiet = startCaller('00');
    await pay(url, await generateKey(url), MONEY, { headers: quiet.headers });
    const [charge] = sent(charged);
    expect(traceparentOf(charge)).toMatchObject({ traceId: quiet.traceId, flags: '00' });
    await pay(url, await generateKey(url), MONEY, { headers: { traceparent: 'nonsense' } });
    await stop();
    expect(collector.ofTrace(quiet.traceId)).toEqual([]);
    const [server] = collector.spans.filter(({ name }) => name === 'POST /api/payment');
    expect(server?.parentSpanId ?? '').toBe('');
    expect(server?.attributes['service.name']).toBe('payments-eu');

    const never = await openService(deployment, {
      OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
      OTEL_TRACES_SAMPLER_ARG: '0',
    });
    await pay(never.url, await generateKey(never.url), MONEY);
    await never.stop();
    expect(never.collector.spans).toEqual([]);
    expect(sent(never.charged)).toHaveLength(1);
  });

  test('are named in the log lines of their request', async () => {
    const { url, logs, stop } = await openService(deployment, { LOG_LEVEL: 'debug' });
    const caller = startCaller();
    await pay(url, await generateKey(url), MONEY, { headers: caller.headers });
    await pay(url, 'no key', MONEY, { headers: caller.headers });
    await stop();
    const lines = logs.filter(({ msg, url: path }) => msg === 'request' && path === '/api/payment');
    expect(lines.slice(-2).map(({ traceId }) => traceId)).toEqual([caller.traceId, caller.traceId]);
    expect(logs.filter(({ msg, traceId }) => msg !== 'request' && traceId !== undefined)).toEqual([]);
  });
});

test('a timer that a request sets does not run in its trace', async () => {
  const settings = {
    endpoint: 'http://127.0.0.1:1',
    serviceName: 'idempay',
    sampler: 'always_on',
    samplerRatio: 1,
  } as const;
  const traces = createTraces(settings, { down() {}, back() {} });
  onTestFinished(() => traces.close());
  const fields = await new Promise<unknown[]>((resolve) => {
    traces.requests.begin('GET', '/', {}).run(() => {
      const own = traces.logFields();
      traces.clock(systemClock).after(1, () => resolve([own, traces.logFields()]));
    });
  });
  expect(fields).toEqual([{ traceId: expect.any(String) }, {}]);
});
