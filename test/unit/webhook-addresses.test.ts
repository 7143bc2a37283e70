import { setImmediate as settle } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '#idempay/platform/clock.js';
import { isLoopbackAddress, refusalOfAddress } from '#idempay/webhooks/addresses.js';
import type { Endpoint } from '#idempay/webhooks/endpoint-file.js';
import type { Message } from '#idempay/webhooks/message.js';
import { createReceivers, type Resolve } from '#idempay/webhooks/receivers.js';
import { startWebhookReceiver } from '../../testkit/servers/webhook-receiver.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const PUBLIC = ['8.8.8.8', '::ffff:8.8.8.8', '2606:4700::1111', '64:ff9b::808:808'];
/** Allowed with `private` only; in every form in which an address may be written or carried. */
const PRIVATE = [
  ...['127.0.0.1', '127.255.255.254', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1', '64:ff9b::7f00:1'],
  ...[
    '10.0.0.1',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    '::ffff:10.0.0.1',
    '64:ff9b::a00:1',
    'fd00::1',
    'fc00::1',
  ],
  ...['::127.0.0.1', '169.254.0.1', 'fe80::1', '100.64.0.1', '100.127.255.255'],
];
const METADATA = [
  ...['169.254.169.254', '::ffff:169.254.169.254', '::ffff:a9fe:a9fe', '64:ff9b::a9fe:a9fe', '169.254.170.2'],
  ...['100.100.100.200', 'fd00:ec2::254', 'fd00:0ec2:0:0:0:0:0:0254'],
];
/** No receiver is there, and some carry an address of IPv4 with them. */
const NEVER = [
  ...[
    '0.0.0.0',
    '0.1.2.3',
    '::',
    '::ffff:0.0.0.0',
    '224.0.0.1',
    '239.255.255.255',
    'ff02::1',
    '255.255.255.255',
    '240.0.0.1',
  ],
  ...[
    '192.0.2.1',
    '198.18.0.1',
    '203.0.113.1',
    '2001:db8::1',
    '::7f00:1',

    '2002:7f00:1::',
    '2001:0:7f00:1::',
  ],
  ...[
    '64:ff9b:1::7f00:1',
    '::ffff:0:127.0.0.1',
    'fec0::1',
    '100::1',
    '4000::1',
    'localhost',
    '',
    '1.2.3',
    '127.1.1.1.1',
  ],
];

describe('an address that is not public', () => {
  test.each(PUBLIC)('%s is public', (address) => {
    for (const isPrivate of [false, true]) expect(refusalOfAddress(address, isPrivate)).toBeUndefined();
    expect(isLoopbackAddress(address)).toBe(false);
  });

  test.each(PRIVATE)('%s needs "private": true', (address) => {
    expect(refusalOfAddress(address, false)).toMatch(/"private": true/);
    expect(refusalOfAddress(address, true)).toBeUndefined();
  });

  test.each([...METADATA, ...NEVER])('%s is never allowed', (address) => {
    for (const isPrivate of [false, true]) expect(refusalOfAddress(address, isPrivate)).toMatch(/^it is /);
  });
});

describe('a connection to a receiver', () => {
  const MESSAGE: Message = { id: 'key.completed', body: '{"type":"payment.completed","data":{}}' };

  async function given() {
    const receiver = await startWebhookReceiver();
    onTestFinished(() => receiver.close());
    const port = new URL(receiver.endpoint.url).port;
    /** Answers of the name server, one after the other; the last one stays. */
    const answers: string[][] = [];
    const asked: string[] = [];
    const resolve: Resolve = (hostname, _options, callBack) => {
      asked.push(hostname);
      const addresses = (answers.length > 1 ? answers.shift() : answers[0]) ?? [];
      callBack(
        null,
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      );
    };
    const receivers = createReceivers(systemClock, 4, resolve);
    onTestFinished(() => receivers.close());
    const send = (change: Partial<Endpoint> & { readonly host: string }) => {
      const { host, ...others } = change;
      const { private: _, ...endpoint } = receiver.endpoint;
      return receivers.send({ ...endpoint, url: `http://${host}:${port}/hooks`, ...others }, MESSAGE);
    };
    return { receiver, answers, asked, send };
  }

  test('a receiver on this machine gets a message with "private": true', async () => {
    const { receiver, send, answers } = await given();
    answers.push(['127.0.0.1']);
    expect(await send({ host: '127.0.0.1', private: true })).toEqual({ state: 'taken' });
    expect(await send({ host: 'receiver.localhost', private: true })).toEqual({ state: 'taken' });
    expect(receiver.received.map(({ id }) => id)).toEqual([MESSAGE.id, MESSAGE.id]);
    expect(receiver.unsigned).toEqual([]);
  });

  test.each(['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '2130706433', '0x7f.1', '0.0.0.0', '[::]'])(
    'http://%s gets nothing without "private": true',
    async (host) => {
      const { receiver, send } = await given();
      expect(await send({ host })).toMatchObject({
        state: 'refused',
        cause: expect.stringContaining('no connection to'),
      });
      expect(receiver.received).toEqual([]);
    },
  );

  test('a name gets nothing when its address changes to one of this machine after an earlier message', async () => {
    const { receiver, send, answers, asked } = await given();
    answers.push(['127.0.0.1'], ['127.0.0.1'], ['169.254.169.254']);
    const host = 'receiver.localhost';
    expect(await send({ host, private: true })).toEqual({ state: 'taken' });
    // Each of these connects anew, and is judged by the answer that it connects with.
    expect(await send({ host })).toMatchObject({ state: 'refused', cause: expect.stringContaining('127.0.0.1') });
    expect(await send({ host, private: true })).toMatchObject({
      state: 'refused',
      cause: expect.stringContaining('169.254'),
    });
    expect(asked).toEqual([host, host, host]);
    expect(receiver.received).toHaveLength(1);
  });

  test('a name gets nothing if none of its addresses is allowed', async () => {
    const { receiver, send, answers } = await given();
    // 192.0.2.0/24 is for documents, and ::7f00:1 is no global address.
    answers.push(['192.0.2.1', '127.0.0.1', '::1', '::7f00:1']);
    const result = await send({ host: 'receiver.example' });
    expect(result).toMatchObject({ state: 'refused', cause: expect.stringContaining('no connection to') });
    expect(receiver.received).toEqual([]);
  });

  test('without TLS only this machine is connected to, also with "private": true', async () => {
    const { send, answers } = await given();
    answers.push(['10.0.0.1']);
    const result = await send({ host: 'receiver.localhost', private: true });
    expect(result).toMatchObject({ state: 'refused', cause: expect.stringContaining('not https') });
  });

  test('a name that has no address is refused', async () => {
    const { send, answers } = await given();
    answers.push([]);
    expect(await send({ host: 'receiver.localhost', private: true })).toMatchObject({ state: 'refused' });
  });
});

// Bug: receivers whose name server hung held up connections to the processor, PostgreSQL and Redis for minutes. Cause: each delivery looked up
// its name, and libuv gives all lookups of a process two threads, in their order. Fix: deliveries share a lookup, and one is made at a time.
describe('lookups of the names of receivers', () => {
  const MESSAGE: Message = { id: 'key.completed', body: '{"type":"payment.completed","data":{}}' };
  const HANGS_MS = 10_000;

  async function given() {
    const receiver = await startWebhookReceiver();
    onTestFinished(() => receiver.close());
    const { port } = new URL(receiver.endpoint.url);
    /** Lookups that were begun, in their order. The test answers them. */
    const begun: { readonly hostname: string; answer(addresses: readonly string[]): void }[] = [];
    const resolve: Resolve = (hostname, _options, callBack) => {
      const answer = (addresses: readonly string[]) =>
        callBack(
          null,
          addresses.map((address) => ({ address, family: 4 })),
        );
      begun.push({ hostname, answer });
    };
    const clock = new HandClock(Date.now());
    const receivers = createReceivers(clock, 100, resolve);
    onTestFinished(() => receivers.close());
    /** Each host has an endpoint of its own, if no other name is given. */
    const send = (host: string, name = host, isPrivate = true) => {
      const { private: _, ...endpoint } = receiver.endpoint;
      const url = `http://${host}:${port}/hooks`;
      return receivers.send({ ...endpoint, name, url, ...(isPrivate && { private: true }) }, MESSAGE);
    };
    const names = () => begun.map(({ hostname }) => hostname);
    /** Lets every connection that may begin ask for its address. */
    const settled = async () => {
      for (let turn = 0; turn < 20; turn += 1) await settle();
    };
    /** The last one that was begun, after `tookMs`. */
    async function answer(addresses: readonly string[], tookMs = 0): Promise<void> {
      clock.advance(tookMs);
      begun.at(-1)?.answer(addresses);
      await settled();
    }
    return { receiver, begun, names, send, settled, answer };
  }

  test('a hundred messages to a name whose lookup hangs begin one lookup', async () => {
    const { send, settled, names } = await given();
    for (let count = 0; count < 100; count += 1) void send('a.localhost');
    await settled();
    expect(names()).toEqual(['a.localhost']);
  });

  test('connections that share a lookup get its addresses, and each judges them', async () => {
    const { receiver, send, settled, names, answer } = await given();
    const allowed = [send('a.localhost'), send('a.localhost')];
    const refused = send('a.localhost', 'public', false);
    await settled();
    await answer(['127.0.0.1']);
    expect(await Promise.all(allowed)).toEqual([{ state: 'taken' }, { state: 'taken' }]);
    expect(await refused).toMatchObject({ state: 'refused', cause: expect.stringContaining('"private": true') });
    expect(names()).toEqual(['a.localhost']);
    expect(receiver.received).toHaveLength(2);
  });

  test('one name is looked up at a time, and the next one when it has an answer', async () => {
    const { send, settled, names, answer } = await given();
    const sent = [send('a.localhost'), send('b.localhost')];
    await settled();
    expect(names()).toEqual(['a.localhost']);
    await answer([]);
    expect(names()).toEqual(['a.localhost', 'b.localhost']);
    await answer(['127.0.0.1']);
    expect(await Promise.all(sent)).toMatchObject([{ state: 'refused' }, { state: 'taken' }]);
  });

  test('names whose lookups hang take turns, and others wait for one of them at most', async () => {
    const { send, settled, names, answer } = await given();
    const hanging = ['a.localhost', 'b.localhost', 'c.localhost'];
    const sent = hanging.map((name) => send(name));
    await settled();
    for (const _ of hanging) await answer([], HANGS_MS);
    expect(names()).toEqual(hanging);
    sent.push(...hanging.map((name) => send(name)));
    await settled();
    for (const _ of hanging) {
      // As if it kept no connection.
      sent.push(send('d.localhost'));
      await settled();
      await answer([], HANGS_MS);
      await answer([]);
    }
    const [a, b, c, d] = [...hanging, 'd.localhost'];
    expect(names().slice(hanging.length)).toEqual([a, d, b, d, c, d]);
    await Promise.all(sent);
  });
});

describe('an answer', () => {
  const MESSAGE: Message = { id: 'key.completed', body: '{"type":"payment.completed","data":{}}' };

  async function answered(answer: Parameters<Awaited<ReturnType<typeof startWebhookReceiver>>['answer']>[0]) {
    const receiver = await startWebhookReceiver();
    const receivers = createReceivers(systemClock, 4);
    onTestFinished(async () => {
      await receivers.close();
      await receiver.close();
    });
    receiver.answer(answer);
    return { result: await receivers.send(receiver.endpoint, MESSAGE), receiver };
  }

  test.each([
    [200, 'taken'],
    [204, 'taken'],
    [299, 'taken'],
    [300, 'refused'],
    [400, 'refused'],
    [404, 'refused'],
    [410, 'gone'],
    [429, 'refused'],
    [500, 'refused'],
    [503, 'refused'],
  ])('%i is %s', async (status, state) => {
    const { result } = await answered((response) => response.writeHead(status).end());
    expect(result).toMatchObject({ state });
  });

  test('a redirect is not followed', async () => {
    const { result, receiver } = await answered((response) => response.writeHead(307, { Location: '/other' }).end());
    expect(result).toEqual({ state: 'refused', cause: 'it answered 307' });
    expect(receiver.received).toHaveLength(1);
  });

  test('an endless 2xx is taken, and its end is not waited for', async () => {
    const { result } = await answered((response) => {
      response.writeHead(200);
      const write = () => {
        while (!response.destroyed && response.write('x'.repeat(16_384)));
        if (!response.destroyed) response.once('drain', write);
      };
      write();
    });
    expect(result).toEqual({ state: 'taken' });
  });

  test('a connection that breaks before the answer is refused, and nothing of it is kept', async () => {
    const { result } = await answered((response) => response.socket?.destroy());
    expect(result).toMatchObject({ state: 'refused', cause: expect.stringContaining('no reply came') });
  });
});
