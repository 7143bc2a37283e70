import { rm } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { SECRET, signedWebhook } from '../../testkit/client/signed-webhook.js';
import { type ExampleReceiver, LANGUAGES, openExampleReceiver } from '../../testkit/processes/example-receivers.js';
import { compileExamples, type Examples } from '../../testkit/processes/examples.js';
import { requirePython } from '../../testkit/processes/python.js';
import type { Service } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';

const OTHER_SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const MINUTE_MS = 60_000;
const EVENTS = 20;
const KILLS = 4;

const keyOf = (order: number) => `0193a5b4-7c1e-7000-8000-${`${order}`.padStart(12, '0')}`;

/** The message about an order; `state` is in the type, the record and the id. */
function messageOf(order: number, kind = 'payment', state = 'completed') {
  const idempotencyKey = keyOf(order);
  const data = {
    idempotencyKey,
    state: state.toUpperCase(),
    reference: `order-${order}`,
    amount: '24.90',
    currency: 'EUR',
    transactionId: 'TXN1795170621886000522918',
    description: 'Bücher 📚',
    ...(kind === 'refund' && { refund: { name: 'line-2', payment: idempotencyKey, reason: null } }),
  };
  const body = JSON.stringify({ type: `${kind}.${state}`, timestamp: '2026-11-29T12:00:00.000Z', data });
  return { id: `${idempotencyKey}.${state}`, body };
}
const paidText = (order: number) => `paid: order-${order}, 24.90 EUR`;

describe.each(LANGUAGES)('the receiver of examples/ in %s', (language) => {
  let examples: Examples;
  let kept: ExampleReceiver;
  let receiver: Service;
  beforeAll(async () => {
    [examples] = await Promise.all([compileExamples(), requirePython()]);
  });
  afterAll(() => examples?.remove());
  beforeEach(async () => {
    kept = await openExampleReceiver(language, examples);
    receiver = await start();
  });
  afterEach(async () => {
    await receiver?.kill();
    await kept?.remove();
  });

  const start = (secrets = SECRET) => kept.start(secrets);
  const untilDone = (...texts: string[]) =>
    until(`the work to be ${texts}`, 20_000, async () => (await kept.works()).length >= texts.length).then(async () =>
      expect(await kept.works()).toEqual(texts.toSorted()),
    );
  const post = (headers: Readonly<Record<string, string | string[]>>, body: string, path = '/webhooks/idempay') =>
    ask(`${receiver.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-length': `${Buffer.byteLength(body)}`, ...headers },
      body,
    });
  const send = async (
    { id, body }: ReturnType<typeof messageOf>,
    options?: Parameters<typeof signedWebhook>[2],
  ): Promise<number> => (await post(signedWebhook(id, body, options).headers, body)).status;

  test('keeps an event, and does its work once, although it comes again at the same time and later', async () => {
    const message = messageOf(1);
    const statuses = await Promise.all(Array.from({ length: 8 }, () => send(message)));
    expect(new Set(statuses)).toEqual(new Set([204]));
    await untilDone(paidText(1));
    expect(await send(message)).toBe(204);
    await receiver.kill();
    receiver = await start();
    expect(await send(message)).toBe(204);
    expect(await send(messageOf(2, 'refund'))).toBe(204);
    // The work on the later event shows that the earlier one had its turn again.
    await untilDone(`given back: line-2 of ${keyOf(2)}, 24.90 EUR`, paidText(1));
  });

  test('answers 204 to events that need no work, and to those that it does not know', async () => {
    for (const message of [messageOf(3, 'payment', 'declined'), messageOf(4, 'payment', 'disputed')])
      expect(await send(message)).toBe(204);
    expect(await send(messageOf(5))).toBe(204);
    await untilDone(paidText(5));
  });

  test('takes the old and the new secret during a change', async () => {
    await receiver.kill();
    receiver = await start(`${SECRET}  ${OTHER_SECRET}\n`);
    expect(await send(messageOf(6), { secrets: [SECRET] })).toBe(204);
    expect(await send(messageOf(7), { secrets: [OTHER_SECRET] })).toBe(204);
    await receiver.kill();
    receiver = await start(OTHER_SECRET);
    expect(await send(messageOf(8), { secrets: [SECRET, OTHER_SECRET] })).toBe(204);
    await untilDone(paidText(6), paidText(7), paidText(8));
  });

  /**
   * Bug: the receiver in Python refused two signatures in two headers, and two that a proxy had joined by a comma.
   * Cause: it read the first header, and split it at blanks alone.
   * Fix: it reads all of them, and splits at a comma before a blank too.
   */
  test('takes several signatures in several headers, and in one that a proxy joined', async () => {
    const atMs = Date.now();
    const forms = [(all: string[]) => all, (all: string[]) => all.join(', '), (all: string[]) => all.join('  ')];
    for (const [at, form] of forms.entries()) {
      const { id, body } = messageOf(15 + at);
      const [other, own] = [[OTHER_SECRET], [SECRET]].map((secrets) => signedWebhook(id, body, { secrets, atMs }));
      const signatures = [other, own].map((signed) => signed?.headers['webhook-signature'] ?? '');
      expect((await post({ ...own?.headers, 'webhook-signature': form(signatures) }, body)).status).toBe(204);
    }
    await untilDone(paidText(15), paidText(16), paidText(17));
  });

  test('takes a body in chunks, or says that it needs the length', async () => {
    const { id, body } = messageOf(18);
    const headers = { ...signedWebhook(id, body).headers, 'content-type': 'application/json' };
    const chunked = { ...headers, 'transfer-encoding': 'chunked' };
    const { status } = await ask(`${receiver.url}/webhooks/idempay`, { method: 'POST', headers: chunked, body });
    expect(status).toBe(kept.isPython ? 411 : 204);
    expect(await send(messageOf(18))).toBe(204);
    await untilDone(paidText(18));
  });

  test('keeps nothing that is forged, old, changed or malformed, and goes on', async () => {
    const message = messageOf(9);
    const { headers, body } = signedWebhook(message.id, message.body);
    expect(await send(message, { secrets: [OTHER_SECRET] })).toBe(400);
    for (const minutes of [-6, 6]) expect(await send(message, { atMs: Date.now() + minutes * MINUTE_MS })).toBe(400);
    expect((await post(headers, body.replace('24.90', '2.490'))).status).toBe(400);
    expect((await post(headers, '')).status).toBe(400);
    expect((await post({}, body)).status).toBe(400);
    for (const timestamp of ['', '\u00b2', '1e9', '9'.repeat(5_000)])
      expect((await post({ ...headers, 'webhook-timestamp': timestamp }, body)).status).toBe(400);
    for (const signature of ['', 'v1', 'v1,', 'v1,\u00e9', headers['webhook-signature'].slice(3)])
      expect((await post({ ...headers, 'webhook-signature': signature }, body)).status).toBe(400);
    expect((await post(headers, body, '/webhooks')).status).toBe(404);
    expect(await send(messageOf(10))).toBe(204);
    await untilDone(paidText(10));
  });

  test('answers no 2xx to an event that it cannot keep', async () => {
    await rm(kept.events, { recursive: true, force: true });
    expect(await send(messageOf(14)).catch(() => 'no answer')).toBe(kept.isPython ? 'no answer' : 500);
    await receiver.kill();
    receiver = await start();
    expect(await send(messageOf(14))).toBe(204);
    await untilDone(paidText(14));
  });

  test('killed again and again, it does the work of each event once that it has answered', async () => {
    const random = seededRandom(seedFrom('RECEIVER_SEED'));
    const deliver = async (order: number) => {
      // As Idempay: again until it is taken.
      const isTaken = async () => (await send(messageOf(order)).catch(() => 0)) === 204;
      await until(`event ${order} to be taken`, 60_000, isTaken);
    };
    const deliveries = Promise.all(
      Array.from({ length: EVENTS }, async (_, order) => {
        await pause(random.below(1_500));
        await deliver(order);
      }),
    );
    for (let kill = 0; kill < KILLS; kill += 1) {
      await pause(random.below(400));
      await receiver.kill();
      receiver = await start();
    }
    await deliveries;
    // Some had answered only after the last start, and are killed before their work.
    await receiver.kill();
    receiver = await start();
    await untilDone(...Array.from({ length: EVENTS }, (_, order) => paidText(order)));
  });

  test('takes nothing if a secret is missing or malformed', async () => {
    for (const secrets of ['', 'whsec_', SECRET.slice(6), `${SECRET} whsec_AAAA`]) {
      await receiver.kill();
      const started = start(secrets);
      if (kept.isPython) {
        await expect(started).rejects.toThrow('WEBHOOK_SECRETS must be');
      } else {
        receiver = await started;
        expect(await send(messageOf(11))).toBe(400);
      }
    }
  });

  test('is not held up by an event that it cannot work on', async () => {
    const { id } = messageOf(12);
    for (const body of ['no JSON', '[]', '{}']) expect(await send({ id, body })).toBe(400);
    const withoutReference = messageOf(12).body.replace('"reference":"order-12",', '');
    expect(await send({ id, body: withoutReference })).toBe(204);
    expect(await send(messageOf(13))).toBe(204);
    await until('the work on the other event', 20_000, async () => (await kept.works()).includes(paidText(13)));
  });
});
