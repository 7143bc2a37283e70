/**
 * Bug: most tests whose `onKey` wrote a file ended in an UnavailableError, because the deadline had passed.
 * Cause: `TestClock` went on after five turns of the event loop without a call of the client, and a file takes more.
 * Fix: it stands still while files are written or a connection awaits an answer.
 *
 * Bug: it went on while `onKey` waited for PostgreSQL, Redis over TLS or HTTPS.
 * Cause: `net.client.socket` is published by `net.connect()` only on Node.js 20, and not by `new net.Socket().connect()` or `tls.connect()`.
 * Fix: it sees every call of `net.Socket.prototype.connect`.
 *
 * Bug: it stood still for ever in a test that had installed fake timers, so the test hung.
 * Cause: it took `setImmediate` and `setTimeout` of that moment, and no fake timer ran.
 * Fix: it keeps the real ones from the time when it is loaded.
 */

import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { createServer as createTlsServer, connect as tlsConnect } from 'node:tls';
import { Idempay, UnknownOutcomeError } from '@idempay/client';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { FakeIdempay, TestClock } from '#idempay/testing/index.js';
import { waitsForSockets } from '#idempay/testing/waits-for-outside.js';
import { failureOf } from '../../../testkit/client-library/scripted-fetch.js';
import { makeCertificates } from '../../../testkit/servers/certificates.js';
import { standStill } from '../../../testkit/time/stand-still.js';

const HOST = '127.0.0.1';
const PAYMENT = { amount: '100.50', currency: 'USD' };
const TIMES = 20;
/** Many times what the clock took for the end of all work. */
const SLOW_MS = 40;
/** More than the clock waits for the next piece of an answer, and much fewer than for an answer that does not come. */
const ANSWERED_LOOKS = 100;
const STOOD_STILL_MS = 200;
const MEGABYTE = 'x'.repeat(1_000_000);

let fake: FakeIdempay;
let idempay: Idempay;
beforeEach(() => {
  fake = new FakeIdempay();
  idempay = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock: new TestClock() });
});

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, HOST);
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  return `http://${HOST}:${(server.address() as AddressInfo).port}`;
}

test('no time passes while onKey writes files', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-keys-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'key');
  for (let time = 0; time < TIMES; time += 1) {
    const onKey = async (key: string) => {
      for (const text of [MEGABYTE, key]) await writeFile(file, text);
    };
    const { key } = await idempay.payments.pay(PAYMENT, { onKey });
    expect(await readFile(file, 'utf8')).toBe(key);
  }
  expect(fake.charges).toHaveLength(TIMES);
});

test('no time passes while onKey asks a slow server, on new connections and on kept ones', async () => {
  const url = await serve((_request, response) => {
    setTimeout(() => response.write('ke'), SLOW_MS);
    setTimeout(() => response.end('pt'), SLOW_MS + 5);
  });
  const onKey = async (key: string) => void (await (await fetch(url, { method: 'POST', body: key })).text());
  for (let time = 0; time < TIMES; time += 1) await idempay.payments.pay(PAYMENT, { onKey });
  expect(fake.charges).toHaveLength(TIMES);
});

/** How programs open connections. */
const WAYS = {
  'net.connect()': (port: number) => connect(port, HOST),
  // As pg does.
  'new net.Socket().connect()': (port: number) => new Socket().connect(port, HOST),
  // As ioredis and HTTPS do.
  'tls.connect()': (port: number, ca: Buffer) => tlsConnect({ port, host: HOST, ca }),
};

test.each(Object.entries(WAYS))('no time passes while onKey waits for an answer over %s', async (way, open) => {
  const answer = (socket: Socket) => {
    socket.on('error', () => {}).once('data', () => setTimeout(() => socket.end('kept'), SLOW_MS));
  };
  const certificates = await makeCertificates();
  onTestFinished(() => certificates.remove());
  const [cert, key, ca] = await Promise.all(
    [certificates.certificate, certificates.key, certificates.authority].map((file) => readFile(file)),
  );
  const server = way.startsWith('tls') ? createTlsServer({ cert, key }, answer) : createNetServer(answer);
  onTestFinished(() => void server.close());
  await once(server.listen(0, HOST), 'listening');
  const { port } = server.address() as AddressInfo;
  const onKey = async (paymentKey: string) => {
    const socket = open(port, ca as Buffer);
    socket.write(paymentKey);
    expect(await text(socket)).toBe('kept');
  };
  for (let time = 0; time < TIMES; time += 1) await idempay.payments.pay(PAYMENT, { onKey });
  expect(fake.charges).toHaveLength(TIMES);
});

test('a connection that idles after its answers does not stop the clock', async () => {
  const url = await serve((request, response) => void request.resume().on('end', () => response.end('kept')));
  for (let time = 0; time < 3; time += 1) await (await fetch(url, { method: 'POST', body: 'a key' })).text();
  // The first look sees the answer, and begins to wait for its next piece.
  expect(waitsForSockets()).toBe(true);
  for (let look = 0; look < ANSWERED_LOOKS; look += 1) waitsForSockets();
  expect(waitsForSockets()).toBe(false);
});

/**
 * Bug: time passed while an answer arrived, if the machine let the process stand still between two of its pieces.
 * Cause: the silence of a connection was measured in time.
 * Fix: it is measured in looks.
 */
test('a connection is awaited after its process stood still', async () => {
  const url = await serve((_request, response) => void response.write('ke'));
  const answer = await fetch(url, { method: 'POST', body: 'a key' });
  await answer.body?.getReader().read();
  expect(waitsForSockets()).toBe(true);
  standStill(STOOD_STILL_MS);
  expect(waitsForSockets()).toBe(true);
});

test('a server that never answers runs into the time-outs of the client', async () => {
  const url = await serve(() => {});
  const client = new Idempay({ baseUrl: url, clock: new TestClock(), deadlineMs: 10_000 });
  const error = await failureOf(UnknownOutcomeError, client.payments.pay(PAYMENT, { reference: 'order-17' }));
  expect(error.reference).toBe('order-17');
});

test('a minute of repeats takes no time', async () => {
  const clock = new TestClock();
  const client = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock });
  fake.next('pay', { lose: 'answer' }, 100);
  await failureOf(UnknownOutcomeError, client.payments.pay(PAYMENT, { reference: 'order-18' }));
  // No real time: it is the clock that the repeats wait for.
  expect(clock.now()).toBeGreaterThan(50_000);
  expect(fake.charges).toHaveLength(1);
});

describe.each([
  ['node:test', () => mock.timers.enable(), () => mock.timers.reset()],
  ['Vitest', () => void vi.useFakeTimers(), () => void vi.useRealTimers()],
])('under the fake timers of %s', (_, install, remove) => {
  test('the deadline ends a call to a service that hangs', async () => {
    const fetch = () => new Promise<Response>(() => {});
    const client = new Idempay({ baseUrl: fake.baseUrl, fetch, clock: new TestClock() });
    expect(await paidBetween(client, install, remove)).toBeInstanceOf(UnknownOutcomeError);
  });

  test('the time-outs of the client end a call to a server that never answers', async () => {
    const client = new Idempay({ baseUrl: await serve(() => {}), clock: new TestClock(), deadlineMs: 10_000 });
    expect(await paidBetween(client, install, remove)).toBeInstanceOf(UnknownOutcomeError);
  });
});

/** The service in the fake needs `setImmediate`. */
test.each([
  ['node:test', () => mock.timers.enable({ apis: ['setTimeout', 'Date'] }), () => mock.timers.reset()],
  ['Vitest', () => void vi.useFakeTimers({ toFake: ['setTimeout', 'Date'] }), () => void vi.useRealTimers()],
])('repeats to a fake take no time under the fake setTimeout of %s', async (_, install, remove) => {
  fake.next('pay', { lose: 'answer' }, 2);
  expect(await paidBetween(idempay, install, remove)).toMatchObject({ attempts: 3 });
});

/** The timers are real again before the test ends, because the runner has timers too. */
function paidBetween(client: Idempay, install: () => void, remove: () => void): Promise<unknown> {
  install();
  return client.payments
    .pay(PAYMENT, { reference: 'order-17' })
    .catch((fault: unknown) => fault)
    .finally(remove);
}
