import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { type Answer, ask, sendJson } from '../../testkit/client/http-client.js';
import { scrape } from '../../testkit/client/metrics.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import {
  answerWith,
  startWebhookReceiver,
  TAKE,
  type WebhookReceiver,
  writeEndpointFile,
} from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const MONEY = { amount: '100.50', currency: 'USD' };
const DEADLINE_MS = 60_000;
const MANY = 250;
const AT_ONCE = 16;
const MOST_OPEN = 100;
const KILLS = 3;

/** The key of a payment that the service has answered as paid. */
async function paid(url: string): Promise<string> {
  const answer = await sendJson(`${url}/api/payment?reference=order-${randomUUID()}`, 'POST', MONEY);
  expect(answer.status, answer.text).toBe(200);
  return String(answer.headers['idempotency-key']);
}
const idOf = (key: string) => `${key}.completed`;

/** Of the one endpoint of this process. */
async function shownBehind(url: string): Promise<number | undefined> {
  return (await scrape(url)).find(({ name }) => name === 'idempay_webhook_behind_seconds')?.value;
}

/** Rule E3: every settlement is delivered, none before its commit, and each repeat has the same id. */
describeDeployments('webhooks', (deployment) => {
  async function givenStores() {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    return stores;
  }
  async function givenReceiver(name?: string) {
    const receiver = await startWebhookReceiver(name);
    onTestFinished(() => receiver.close());
    return receiver;
  }
  async function givenFile(...receivers: readonly WebhookReceiver[]) {
    const file = await writeEndpointFile(receivers.map(({ endpoint }) => endpoint));
    onTestFinished(file.remove);
    return file;
  }
  /** A new endpoint begins at the bound, so what is paid before that is not told. */
  const untilServed = (receiver: WebhookReceiver, url: string) =>
    until('the endpoint to be served', DEADLINE_MS, async () => {
      await paid(url);
      return receiver.taken.length > 0;
    });

  test('every payment is told once, signed, with its record', async () => {
    const receiver = await givenReceiver();
    const file = await givenFile(receiver);
    const stores = await givenStores();
    const { url } = await stores.serve({ WEBHOOKS_FILE: file.path });
    await untilServed(receiver, url);
    const keys: string[] = [];
    await inParallel(MANY, AT_ONCE, async () => void keys.push(await paid(url)));
    await until('all to be told', DEADLINE_MS, () => keys.every((key) => receiver.idsTaken().has(idOf(key))));
    expect(receiver.taken.length).toBe(receiver.idsTaken().size);
    expect(receiver.unsigned).toEqual([]);
    const [key = ''] = keys;
    const message = receiver.received.find(({ id }) => id === idOf(key));
    expect(message?.type).toBe('payment.completed');
    expect(message?.data).toEqual((await ask(`${url}/api/payments/${key}`)).json());
  });

  test('receivers that fail, hang, answer slowly, redirect, or are killed get everything at last', async () => {
    const receiver = await givenReceiver();
    const file = await givenFile(receiver);
    const stores = await givenStores();
    const { url } = await stores.serve({ WEBHOOKS_FILE: file.path });
    await untilServed(receiver, url);
    const keys: string[] = [];
    const payOn = async (count: number) => {
      await inParallel(count, AT_ONCE, async () => void keys.push(await paid(url)));
    };
    receiver.answer(answerWith(500));
    await payOn(30);
    receiver.answer(answerWith(302, { Location: '/other' }));
    await payOn(10);
    receiver.answer((response) => void response.socket?.destroy());
    await payOn(10);
    receiver.answer((response) => void setTimeout(() => response.writeHead(200).end('taken'), 300));
    await payOn(10);
    await receiver.close();
    await payOn(10);
    // It hangs at first, and is restarted meanwhile.
    receiver.answer(() => {});
    await receiver.openAgain();
    await payOn(10);
    await receiver.close();
    receiver.answer(TAKE);
    await receiver.openAgain();
    await until('all to be told', DEADLINE_MS, () => keys.every((key) => receiver.idsTaken().has(idOf(key))));
    expect(receiver.unsigned).toEqual([]);
  });

  test('a receiver that hangs has at most 100 deliveries under way', async () => {
    const receiver = await givenReceiver();
    const file = await givenFile(receiver);
    const stores = await givenStores();
    const { url } = await stores.serve({ WEBHOOKS_FILE: file.path });
    await untilServed(receiver, url);
    await until('rest', DEADLINE_MS, async () => (await shownBehind(url)) === 0);
    const before = receiver.received.length;
    receiver.answer(() => {});
    const keys: string[] = [];
    await inParallel(150, AT_ONCE, async () => void keys.push(await paid(url)));
    await until('100 messages', DEADLINE_MS, () => receiver.received.length - before >= MOST_OPEN);
    const ids = new Set(receiver.received.slice(before).map(({ id }) => id));
    expect(ids.size).toBe(MOST_OPEN);
    await receiver.close();
    receiver.answer(TAKE);
    await receiver.openAgain();
    await until('all to be told', DEADLINE_MS, () => keys.every((key) => receiver.idsTaken().has(idOf(key))));
  });

  test('a service that is killed again and again misses nothing, and tells nothing that is not committed', async () => {
    const receiver = await givenReceiver();
    const file = await givenFile(receiver);
    const stores = await givenStores();
    const settings = { WEBHOOKS_FILE: file.path };
    const keys: string[] = [];
    let isBegun = false;
    for (let round = 0; round < KILLS; round += 1) {
      const service = await stores.start(settings);
      if (!isBegun) await untilServed(receiver, service.url);
      isBegun = true;
      const paying = inParallel(60, AT_ONCE, async () => {
        const key = await paid(service.url).catch(() => undefined);
        if (key !== undefined) keys.push(key);
      });
      const paidBefore = keys.length;
      await until('some payments', DEADLINE_MS, () => keys.length > paidBefore + 20);
      await service.kill();
      await paying.catch(() => {});
    }
    const { url } = await stores.serve(settings);
    await until('all to be told', DEADLINE_MS, () => keys.every((key) => receiver.idsTaken().has(idOf(key))));
    for (const { id, data } of receiver.received) {
      const key = id.split('.')[0] as string;
      expect(data.idempotencyKey).toBe(key);
      // Also one whose answer was lost with the process was committed before.
      expect((await ask(`${url}/api/payments/${key}`)).json()).toMatchObject({ state: 'COMPLETED' });
    }
  });

  test('two endpoints get the settlements of their own clients', async () => {
    const [ours, theirs, all] = [
      await givenReceiver('ours'),
      await givenReceiver('theirs'),
      await givenReceiver('all'),
    ];
    const file = await writeEndpointFile([
      { ...ours.endpoint, client: 'key:a' },
      { ...theirs.endpoint, client: 'key:b' },
      all.endpoint,
    ]);
    onTestFinished(file.remove);
    const stores = await givenStores();
    const clients = { a: credentialOf('a', ['payments:write']), b: credentialOf('b', ['payments:write']) };
    const keyFile = join(dirname(file.path), 'keys.json');
    await writeFile(keyFile, keyFileOf(clients.a, clients.b));
    const { url } = await stores.serve({ WEBHOOKS_FILE: file.path, AUTH: 'required', API_KEYS_FILE: keyFile });
    const payAs = async (client: 'a' | 'b') => {
      const path = `${url}/api/payment?reference=order-${randomUUID()}`;
      const headers = { ...clients[client].headers, 'Content-Type': 'application/json' };
      const answer: Answer = await ask(path, { method: 'POST', headers, body: JSON.stringify(MONEY) });
      expect(answer.status, answer.text).toBe(200);
      return idOf(String(answer.headers['idempotency-key']));
    };
    await until('all to be served', DEADLINE_MS, async () => {
      await Promise.all([payAs('a'), payAs('b')]);
      return [ours, theirs, all].every(({ taken }) => taken.length > 0);
    });
    const [a, b] = await Promise.all([payAs('a'), payAs('b')]);
    await until(
      'both',
      DEADLINE_MS,
      () => ours.idsTaken().has(a) && theirs.idsTaken().has(b) && [a, b].every((id) => all.idsTaken().has(id)),
    );
    expect(ours.idsTaken().has(b)).toBe(false);
    expect(theirs.idsTaken().has(a)).toBe(false);
    expect(ours.received.every(({ data }) => data.client === undefined)).toBe(true);
    expect(new Set(all.received.map(({ data }) => data.client))).toEqual(new Set(['key:a', 'key:b']));
  });
});

describe('two processes (distributed)', () => {
  const givenReceiver = async () => {
    const receiver = await startWebhookReceiver();
    onTestFinished(() => receiver.close());
    return receiver;
  };

  test('another one takes over from a process that is killed, and from one that is stopped, whose late writes count for nothing', async () => {
    const receiver = await givenReceiver();
    const file = await writeEndpointFile([receiver.endpoint]);
    onTestFinished(file.remove);
    const stores = await openTestStores();
    const settings = { WEBHOOKS_FILE: file.path };
    const first = await stores.start(settings);
    await until('the endpoint to be served', DEADLINE_MS, async () => {
      await paid(first.url);
      return receiver.taken.length > 0;
    });
    const [owner] = await stores.sql<{ owner: string }>('SELECT owner FROM idempay.webhook_endpoints');
    const second = await stores.start(settings);
    first.signal('SIGSTOP');
    const keys: string[] = [];
    for (let count = 0; count < 20; count += 1) keys.push(await paid(second.url));
    await until('the second to tell them', DEADLINE_MS, () => keys.every((key) => receiver.idsTaken().has(idOf(key))));
    const [other] = await stores.sql<{ owner: string }>('SELECT owner FROM idempay.webhook_endpoints');
    expect(other?.owner).not.toBe(owner?.owner);
    await until('rest', DEADLINE_MS, async () => (await shownBehind(second.url)) === 0);
    const told = receiver.received.length;
    const position = async () =>
      (await stores.sql<{ at_us: string }>('SELECT at_us FROM idempay.webhook_endpoints'))[0]?.at_us;
    const before = Number(await position());
    first.signal('SIGCONT');
    await until('the first to answer', DEADLINE_MS, async () => (await ask(`${first.url}/readyz`)).status === 200);
    const last = await paid(first.url);
    await until('the last', DEADLINE_MS, () => receiver.idsTaken().has(idOf(last)));
    expect(Number(await position())).toBeGreaterThanOrEqual(before);
    // What the first had read before it was stopped was told already, and it sends nothing without its lease.
    expect(receiver.received.slice(told).map(({ id }) => id)).toEqual([idOf(last)]);
    await second.kill();
    const after = await paid(first.url);
    await until('the first to tell it', DEADLINE_MS, () => receiver.idsTaken().has(idOf(after)));
  });

  async function givenServed() {
    const receiver = await givenReceiver();
    const file = await writeEndpointFile([receiver.endpoint]);
    onTestFinished(file.remove);
    const stores = await openTestStores();
    const { url, logs } = await stores.serve({ WEBHOOKS_FILE: file.path });
    await until('the endpoint to be served', DEADLINE_MS, async () => {
      await paid(url);
      return receiver.taken.length > 0;
    });
    return { receiver, stores, url, logged: (text: string) => logs.some(({ msg }) => msg?.includes(text)) };
  }

  test('after rows may be lost, it gets the last ten minutes once more, and misses nothing', async () => {
    const { receiver, stores, url, logged } = await givenServed();
    const before = [await paid(url), await paid(url)];
    await until('both', DEADLINE_MS, () => before.every((key) => receiver.idsTaken().has(idOf(key))));
    await stores.sql(
      "INSERT INTO idempay.settlement_incarnations SELECT max(number) + 1, '0123456789abcdef', clock_timestamp() FROM idempay.settlement_incarnations",
    );
    const after = await paid(url);
    await until('all of them again', DEADLINE_MS, () =>
      before.every((key) => receiver.taken.filter((id) => id === idOf(key)).length > 1),
    );
    await until('the last', DEADLINE_MS, () => receiver.idsTaken().has(idOf(after)));
    expect(logged('rows may be lost')).toBe(true);
  });

  test('an endpoint that retention has passed goes on with the oldest that is left, with an alarm', async () => {
    const { receiver, stores, url, logged } = await givenServed();
    const post = (verb: string) => ask(`${url}/api/webhooks/shop/${verb}`, { method: 'POST' });
    expect((await post('stop')).status).toBe(200);
    await until('the stop', DEADLINE_MS, async () =>
      (await scrape(url)).some(({ name, value }) => name === 'idempay_webhook_stopped' && value === 1),
    );
    const removed = await paid(url);
    await stores.sql('UPDATE idempay.payment_horizon SET removed_until = clock_timestamp()');
    const left = await paid(url);
    expect((await post('start')).status).toBe(200);
    await until('what is left', DEADLINE_MS, () => receiver.idsTaken().has(idOf(left)));
    expect(logged('PAYMENT_RETENTION_DAYS removed settlements')).toBe(true);
    expect(receiver.idsTaken().has(idOf(removed))).toBe(false);
  });

  test('without an endpoint no statement of webhooks or of the feed is sent', async () => {
    const file = await writeEndpointFile([]);
    onTestFinished(file.remove);
    const stores = await openTestStores();
    const withEmptyFile: Readonly<Record<string, string>> = { WEBHOOKS_FILE: file.path };
    for (const settings of [{}, withEmptyFile]) {
      const { url, stop } = await stores.serve(settings);
      await inParallel(20, 4, async () => void (await paid(url)));
      const operations = (await scrape(url)).flatMap(({ name, labels }) =>
        name === 'idempay_store_round_trip_seconds_count' && labels.store === 'postgresql' ? [labels.operation] : [],
      );
      expect(operations.some((operation) => operation?.includes('claim'))).toBe(true);
      // A start asks once if the clock is behind.
      const asked = operations.filter((operation) => operation !== 'settlement_clock_is_behind');
      expect(asked.filter((operation) => /endpoint|settlement_|settlements_|set_aside/.test(`${operation}`))).toEqual(
        [],
      );
      await stop();
    }
  });
});
