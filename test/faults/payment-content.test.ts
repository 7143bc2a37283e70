import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { BODY_LIMIT_BYTES } from '#idempay/http/requests/body-parser.js';
import { todayUtc } from '#idempay/statements/days.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask, generateKey, pay, sendJson, transactionIdOf } from '../../testkit/client/http-client.js';
import { expectReplay, untilPaid } from '../../testkit/client/payment-answers.js';
import { SHOE } from '../../testkit/client/payment-bodies.js';
import { exportLines, resolvePayment, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { crashAt } from '../../testkit/processes/crash-points.js';
import {
  type ChargeLine,
  type ProcessorInProcess,
  serveReferenceProcessor,
} from '../../testkit/processes/reference-processor.js';
import { textOf } from '../../testkit/protocol/contents.js';
import { storedText } from '../../testkit/protocol/stored-text.js';
import { type Collector, startCollector } from '../../testkit/servers/otlp-collector.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const DEADLINE_MS = 20_000;
/**
 * From the first step that may leave something to the last one. If the process dies before the claim, the second request makes the first
 * claim.
 */
const POINTS = ['begin', 'claim', 'charge', 'settle', 'finish'].flatMap((step) => [`before-${step}`, `after-${step}`]);
const CLAIMED_FROM = POINTS.indexOf('after-claim');
/** The same for recovery, which takes over from an owner that died with nothing sent. */
const RECOVERY_POINTS = ['take-over-due', 'look-up', 'charge', 'settle', 'finish'].flatMap((step) => [
  `before-${step}`,
  `after-${step}`,
]);

/** A token that no other text contains, and what changes on its way through a store, if anything does. */
const contentOf = (name: string) => ({
  source: `tok_${name}_${randomUUID()}`,
  description: `${name}: Shoes \u{1f45f} \n "' é e\u0301`,
  metadata: JSON.parse(`{"b":"${name}","a":"1","constructor":"text","Ü":""}`) as Record<string, string>,
});
type Content = ReturnType<typeof contentOf>;

/** With the most members, and as many bytes as a body may have. */
function largestContent() {
  const metadata = Object.fromEntries(
    Array.from({ length: 20 }, (_, n) => [`${n}${SHOE.repeat(30)}`, SHOE.repeat(150)]),
  );
  const content = { source: `tok_${'~'.repeat(496)}`, description: SHOE.repeat(255), metadata };
  const bytes = (given: object) => Buffer.byteLength(JSON.stringify({ ...MONEY, ...given }));
  const free = BODY_LIMIT_BYTES - bytes(content);
  const [[last = '', value = ''] = []] = Object.entries(metadata).slice(-1);
  const filled = {
    ...content,
    metadata: { ...metadata, [last]: value + SHOE.repeat(Math.floor(free / 4)) + 'x'.repeat(free % 4) },
  };
  return { content: filled, body: JSON.stringify({ ...MONEY, ...filled }) };
}

describeDeployments('what a payment is about', (deployment) => {
  let processor: ProcessorInProcess;
  let stores: Stores;
  let collector: Collector;
  const said: string[] = [];

  beforeAll(async () => {
    [processor, stores, collector] = await Promise.all([
      serveReferenceProcessor(),
      deployment.open(),
      startCollector(),
    ]);
  });
  afterAll(async () => {
    await processor.close();
    await stores.close();
    await collector.close();
  });

  const settings = (more: Record<string, string> = {}) => ({
    ...{ PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '1000', LOCK_TTL_SECONDS: '2', LOG_LEVEL: 'trace' },
    ...{ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...more },
  });

  async function chargeOf(key: string): Promise<ChargeLine> {
    const charges = await processor.chargesOf(key);
    expect(charges, `charges of ${key}`).toHaveLength(1);
    return charges[0] as ChargeLine;
  }

  const startDying = (point: string) => stores.start(settings(crashAt(`${point}:1`)));

  async function payDying(point: string, content: Content): Promise<string> {
    const dying = await startDying(point);
    const key = await generateKey(dying.url);
    await expect(pay(dying.url, key, { ...MONEY, ...content })).rejects.toThrow();
    expect(await dying.ended).toMatchObject({ signal: 'SIGKILL' });
    said.push(JSON.stringify(dying.logs));
    return key;
  }

  /** Recovery may be faster than the rest of the start: then the process is killed before it listens. */
  async function recoverDying(point: string): Promise<void> {
    const dying = await startDying(point).catch((error: Error) => {
      expect(error.message).toContain('SIGKILL');
    });
    if (dying) expect(await dying.ended).toMatchObject({ signal: 'SIGKILL' });
  }

  /** Repeats it with another content until it is paid, and compares what was charged and is shown. */
  async function expectCharged(key: string, charged: Content, repeated: Content): Promise<void> {
    const next = await stores.serve(settings());
    await until(`${key} to be paid`, DEADLINE_MS, async () => {
      const { status } = await pay(next.url, key, { ...MONEY, ...repeated });
      return status === 200;
    });
    expect(textOf(await chargeOf(key))).toBe(textOf(charged));
    const { description, metadata } = await shownPaymentOf(next.url, key);
    expect(textOf({ description, metadata })).toBe(textOf({ ...charged, source: null }));
    said.push(JSON.stringify(next.logs));
    await next.stop();
  }

  it.each(POINTS)('is charged as the first claim had it, whoever dies at %s', async (point) => {
    const [first, second] = [contentOf('first'), contentOf('second')];
    const key = await payDying(point, first);
    await expectCharged(key, POINTS.indexOf(point) >= CLAIMED_FROM ? first : second, second);
  });

  it.each(RECOVERY_POINTS)('is charged as the first claim had it also where recovery dies at %s', async (point) => {
    const first = contentOf('first');
    const key = await payDying('before-charge', first);
    await recoverDying(point);
    await expectCharged(key, first, contentOf('second'));
  });

  it('is charged once for two clicks at once with two tokens, and both clicks get its transaction id', async () => {
    const { url, stop } = await stores.serve(settings());
    const path = `${url}/api/payment?reference=order-${randomUUID()}`;
    const clicks = [contentOf('one'), contentOf('two')];
    const headers = { Prefer: 'wait=10' };
    const answers = await Promise.all(
      clicks.map((content) => sendJson(path, 'POST', { ...MONEY, ...content }, headers)),
    );
    const isRepeat = ({ headers }: Answer) => headers['idempotent-replayed'] === 'true';
    const [first, repeat] = [answers.find((answer) => !isRepeat(answer)), answers.find(isRepeat)];
    expect(first?.text).toContain('Payment processed successfully with Transaction ID: ');
    expectReplay(repeat as Answer, transactionIdOf(first as Answer));
    const charged = await chargeOf(String(first?.headers['idempotency-key']));
    expect(clicks.map(textOf)).toContain(textOf(charged));
    await stop();
  });

  it('is charged whole in the largest body, in characters of four bytes, and takes no room in the key-value store', async () => {
    const { url, stop } = await stores.serve(settings());
    const [large, plain] = [largestContent(), await generateKey(url)];
    const key = await generateKey(url);
    const send = (body: string) => pay(url, key, body);
    expectError(await send(`${large.body} `), 413);
    expect((await send(large.body)).status).toBe(200);
    await pay(url, plain, MONEY);
    expect(textOf(await chargeOf(key))).toBe(textOf(large.content));
    const { metadata } = await shownPaymentOf(url, key);
    expect(JSON.stringify(metadata)).toBe(JSON.stringify(large.content.metadata));
    await stop();

    const { keyValueStore } = await storedText(stores);
    expect(keyValueStore).not.toContain(SHOE);
    const recordsOf = (one: string) => keyValueStore.split('\n').filter((line) => line.split(' ')[0]?.includes(one));
    const shapeOf = (one: string) =>
      recordsOf(one)
        .map((line) => line.replace(/TXN\d+/, 'TXN').length)
        .toSorted();
    expect(shapeOf(key)).toEqual(shapeOf(plain));
  });

  it('has its source in the store of record while the outcome is unknown, and nowhere else and never afterwards', async () => {
    const service = await stores.serve(settings({ PROCESSOR_DEDUP_SECONDS: '0' }));
    const { url } = service;
    const sources: string[] = [];
    async function sent(name: string, target: { key?: string; query?: string } = {}) {
      const content = contentOf(name);
      sources.push(content.source);
      const key = target.key ?? (target.query ? undefined : await generateKey(url));
      const headers: Record<string, string> = key === undefined ? {} : { 'Idempotency-Key': key };
      const answer = await sendJson(
        `${url}/api/payment${target.query ?? ''}`,
        'POST',
        { ...MONEY, ...content },
        headers,
      );
      return { answer, key: key ?? String(answer.headers['idempotency-key']), content };
    }

    const paid = await sent('paid');
    await untilPaid(url, paid.key);
    await sent('again', { key: paid.key });
    await sent('another key', { key: await generateKey(url) });
    await processor.behave({ declineRate: 1 });
    const query = `?reference=order-${randomUUID()}`;
    expectError((await sent('declined', { query })).answer, 402);
    const closed = await sendJson(`${url}/api/payment-cancellation${query}&attempt=2`, 'POST', {});
    expect(closed.status, closed.text).toBe(200);
    expectError((await sent('cancelled', { query: `${query}&attempt=2` })).answer, 410);
    await processor.behave({ declineRate: 0, failRate: 1 });
    const [resolved, unknown] = [await sent('resolved'), await sent('unknown')];
    for (const { answer } of [resolved, unknown]) expectError(answer, 504);
    await until('an operator to be let in', DEADLINE_MS, async () => {
      const { status } = await resolvePayment(url, resolved.key, { outcome: 'declined', reason: 'not there' });
      return status === 200;
    });
    expect(await shownPaymentOf(url, unknown.key)).toMatchObject({ state: 'PROCESSING' });

    const read = async (path: string) => (await ask(`${url}${path}`)).text;
    const shown = [
      ...['/api/live', '/api/payments', '/metrics', '/api/session', `/api/health/redis/key/${paid.key}`].map(read),
      ...[paid, resolved, unknown].flatMap(({ key }) => [
        read(`/api/payments/${key}`),
        read(`/api/payments/${key}/timeline`),
        read(`/api/payments/${key}/processor-answer`),
      ]),
    ];
    said.push(...(await Promise.all(shown)), ...(await exportLines(url, todayUtc())));
    await service.stop();
    await processor.behave({ failRate: 0 });
    said.push(JSON.stringify(service.logs), ...collector.bodies);

    const { record, keyValueStore } = await storedText(stores);
    const lastSource = unknown.content.source;
    expect(record).toContain(lastSource);
    const everywhere = [record.replaceAll(lastSource, ''), keyValueStore, ...said].join('\n');
    expect(everywhere).toContain(paid.key);
    for (const source of [...sources, 'tok_']) expect(everywhere.includes(source), source).toBe(false);
    expect(said.join('\n')).toContain('Shoes');
  });
});
