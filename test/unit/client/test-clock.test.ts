/**
 * Bug: most tests whose `onKey` wrote a file ended in an UnavailableError, because the deadline had passed.
 * Cause: `TestClock` went on after five turns of the event loop without a call of the client, and a file takes more.
 * Fix: it stands still while files are written or a connection awaits an answer.
 */

import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Idempay, UnknownOutcomeError } from '@idempay/client';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { FakeIdempay, TestClock } from '#idempay/testing/index.js';
import { failureOf } from '../../../testkit/client-library/scripted-fetch.js';

const PAYMENT = { amount: '100.50', currency: 'USD' };
const TIMES = 20;
/** Many times what the clock took for the end of all work. */
const SLOW_MS = 40;
const MEGABYTE = 'x'.repeat(1_000_000);

let fake: FakeIdempay;
let idempay: Idempay;
beforeEach(() => {
  fake = new FakeIdempay();
  idempay = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock: new TestClock() });
});

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
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

test('a connection that idles after its answers does not stop the clock', async () => {
  const url = await serve((request, response) => void request.resume().on('end', () => response.end('kept')));
  for (let time = 0; time < 3; time += 1) await (await fetch(url, { method: 'POST', body: 'a key' })).text();
  fake.next('pay', { status: 503 }, 4);
  const begun = performance.now();
  await idempay.payments.pay(PAYMENT);
  expect(performance.now() - begun).toBeLessThan(500);
});

test('a server that never answers runs into the time-outs of the client', async () => {
  const url = await serve(() => {});
  const client = new Idempay({ baseUrl: url, clock: new TestClock(), deadlineMs: 10_000 });
  const error = await failureOf(UnknownOutcomeError, client.payments.pay(PAYMENT, { reference: 'order-17' }));
  expect(error.reference).toBe('order-17');
});

test('a minute of repeats takes no time', async () => {
  fake.next('pay', { lose: 'answer' }, 100);
  const begun = performance.now();
  await failureOf(UnknownOutcomeError, idempay.payments.pay(PAYMENT, { reference: 'order-18' }));
  expect(performance.now() - begun).toBeLessThan(5_000);
  expect(fake.charges).toHaveLength(1);
});
