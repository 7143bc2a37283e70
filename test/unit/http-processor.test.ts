import type { ServerResponse } from 'node:http';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { createAlarm } from '#idempay/payments/processors/alarm.js';
import { cleanReason, keptReason } from '#idempay/payments/processors/decline-reason.js';
import { createHttpProcessor } from '#idempay/payments/processors/http.js';
import { createMovesMoney } from '#idempay/payments/processors/moves-money.js';
import { processorAt, startHttpServer } from '../../testkit/servers/processor-servers.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const KEY = '0193a5b4-7c1e-7000-8000-000000000001';
const ORDER = { transactionId: 'TXN1795170621886000522918', amount: '100.50', currency: 'USD' };
const CHARGE = { reference: KEY, ...ORDER };

const SUCCEEDED = '{"status":"succeeded"}';
const DECLINED = '{"status":"declined","reason":"insufficient funds"}';
const PROCESSING = '{"status":"processing"}';

/** A processor that answers every request alike: as `answer` says at that moment. */
async function answering(status: number, body: string | Buffer = '', headers: Record<string, string> = {}) {
  const answer = { status, body };
  const server = await startHttpServer((response) => response.writeHead(answer.status, headers).end(answer.body));
  return Object.assign(processorAt(server), { received: server.received, answer });
}

/** Bodies that say nothing that we know. */
const NONSENSE: Readonly<Record<string, string | Buffer>> = {
  'another status': '{"status":"pending"}',
  'an inherited status': '{"__proto__":{"status":"succeeded"}}',
  'a decline without its reason': '{"status":"declined"}',
  'a decline whose reason is no text': '{"status":"declined","reason":{"code":51}}',
  'half an object': '{"status":"succeeded"',
  'bytes that are not UTF-8': Buffer.from([...Buffer.from('{"status":"succeeded","x":"'), 0xff, 0x22, 0x7d]),
  'JSON nested thousands deep': `{"status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
};

const STATUSES = `
  200 201 202 204 206 226 299 300 304 400 401 402 403 404 405 407 408 409 410 413 418 422 425 428 429 451 500 502 503 504 599`;

/** Where the alarm sends the operator. */
const LOOK_AT: Readonly<Record<number, string>> = {
  400: 'look at PROCESSOR_URL',
  401: 'look at the user and password in PROCESSOR_URL',
  403: 'look at the user and password in PROCESSOR_URL',
  404: 'look at the path of PROCESSOR_URL',
  422: 'look at PROCESSOR_URL',
};

type Call = 'a charge' | 'a look-up';

/** The contract of `docs/reference/processor.md`: what an answer to a call means. */
function meaningOf(call: Call, status: number, body: string) {
  if (body === SUCCEEDED && (call === 'a charge' ? status < 300 : status === 200)) return { state: 'succeeded' };
  if (body === DECLINED && status === (call === 'a charge' ? 402 : 200)) {
    return { state: 'declined', reason: 'insufficient funds' };
  }
  if (call === 'a look-up' && status === 404) return { state: 'no record' };
  const isAtWork = status === 409 || status === 425 || body === PROCESSING;
  const end = isAtWork ? ': still at work' : ', which settles nothing';
  return { state: 'unknown', cause: `the processor answered ${status} to ${call}${end}` };
}

describe('an answer of the processor', () => {
  test.each(STATUSES.trim().split(/\s+/).map(Number))('with status %i means what the contract says', async (status) => {
    const { charge, lookUp, alarms, answer } = await answering(status);
    const expected: unknown[] = [];
    for (const body of [204, 304].includes(status) ? [''] : ['', SUCCEEDED, DECLINED, PROCESSING]) {
      answer.body = body;
      const [charged, found] = [meaningOf('a charge', status, body), meaningOf('a look-up', status, body)];
      expect(await charge(CHARGE), body).toEqual(charged);
      expect(await lookUp(KEY), body).toEqual(found);
      const unknown = [charged, found].filter(({ state }) => LOOK_AT[status] && state === 'unknown');
      expected.push(...unknown.map(({ cause }) => expect.stringContaining(`${cause}: ${LOOK_AT[status]}`)));
    }
    expect(alarms).toEqual(expected);
  });

  test.each(Object.entries(NONSENSE))('with status 200 or 402 and %s is unknown, without an alarm', async (_, body) => {
    for (const status of [200, 402]) {
      const { charge, lookUp, alarms } = await answering(status, body);
      expect(await charge(CHARGE)).toEqual(meaningOf('a charge', status, ''));
      expect(await lookUp(KEY)).toEqual(meaningOf('a look-up', status, ''));
      expect(alarms).toEqual([]);
    }
  });

  test('with any status and any other body is no outcome', async () => {
    const { charge, lookUp, answer } = await answering(200);
    const anyStatus = fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(200, 201, 402, 404));
    const anyBody = fc.oneof(fc.json(), fc.string({ unit: 'binary' }));
    await fc.assert(
      fc.asyncProperty(anyStatus, anyBody, async (status, body) => {
        Object.assign(answer, { status, body });
        expect(await charge(CHARGE)).toEqual(meaningOf('a charge', status, ''));
        expect(await lookUp(KEY)).toEqual(meaningOf('a look-up', status, ''));
      }),
      { numRuns: 300 },
    );
  });

  test('may have more members, a byte order mark, and any media type or none', async () => {
    const body = '\uFEFF { "id": 7, "status" : "succeeded", "nested": {"status": "declined"} } ';
    for (const headers of [undefined, { 'content-type': 'text/html', 'content-encoding': 'identity' }]) {
      expect(await (await answering(200, body, headers)).charge(CHARGE)).toEqual({ state: 'succeeded' });
    }
  });

  test('gives a decline a reason that can be stored and shown', async () => {
    const { charge, lookUp, answer } = await answering(402, '{"status":"declined","reason":" card\\r\\nblocked"}');
    expect(await charge(CHARGE)).toEqual({ state: 'declined', reason: 'card  blocked' });
    answer.status = 200;
    expect(await lookUp(KEY)).toEqual({ state: 'declined', reason: 'card  blocked' });
  });

  test('too long to read causes the alarm of its status; a 404 that breaks off says nothing of a look-up', async () => {
    const { charge, alarms } = await answering(403, 'x'.repeat(100_000));
    expect(await charge(CHARGE)).toMatchObject({ state: 'unknown' });
    expect(alarms).toHaveLength(1);
    const server = await startHttpServer((response) => {
      response.writeHead(404, { 'content-length': 10 }).write('half', () => response.destroy());
    });
    const broken = processorAt(server);
    expect(await broken.lookUp(KEY)).toMatchObject({ state: 'unknown', cause: expect.stringContaining('404') });
    expect(broken.alarms).toEqual([]);
  });
});

describe('a request to the processor', () => {
  test('to charge is one POST under the idempotency key, with the transaction and the money as text', async () => {
    const { charge, received } = await answering(200, SUCCEEDED);
    await charge(CHARGE);
    const body = JSON.stringify(ORDER);
    const headers = {
      ...{ 'idempotency-key': KEY, 'content-type': 'application/json', 'content-length': `${body.length}` },
      ...{ accept: 'application/json', 'accept-encoding': 'identity' },
    };
    expect(received).toMatchObject([{ method: 'POST', url: '/charges', headers, body }]);
    expect(received[0]?.headers).not.toHaveProperty('authorization');
  });

  test('to look up is one GET of the key, without a body and with the reference inside its path segment', async () => {
    const { lookUp, received } = await answering(404);
    await lookUp(KEY);
    await lookUp('../a?b#c d');
    expect(received).toMatchObject([
      { method: 'GET', url: `/charges/${KEY}`, body: '', headers: { 'accept-encoding': 'identity' } },
      { method: 'GET', url: '/charges/..%2Fa%3Fb%23c%20d' },
    ]);
    expect(received[0]?.headers).not.toHaveProperty('idempotency-key');
  });

  test('goes below the path of the URL with its user and password, which no cause or alarm shows', async () => {
    const server = await startHttpServer((response) => response.writeHead(401).end());
    const at = { port: server.port, path: '/v1/pay/', userInfo: 'idempay:p%40ss%3Aw%C3%B6rd@' };
    const { charge, lookUp, alarms } = processorAt(at);
    const results = [await charge(CHARGE), await lookUp(KEY)];
    const authorization = `Basic ${Buffer.from('idempay:p@ss:wörd').toString('base64')}`;
    expect(server.received).toMatchObject([
      { url: '/v1/pay/charges', headers: { authorization } },
      { url: `/v1/pay/charges/${KEY}`, headers: { authorization } },
    ]);
    expect(JSON.stringify([results, alarms])).not.toMatch(/p@ss|p%40ss/);
  });
});

test('an HTTP processor declares its name and its times: those of the settings, and a second as typical, or less', () => {
  const settings = { url: 'http://user:secret@psp.example/v1/', account: 'shop-7', connections: 1, alarm: () => {} };
  const times = { timeoutMs: 10_000, dedupMs: 72_000_000 };
  const names = { name: 'http://psp.example/v1?account=shop-7' };
  expect(createHttpProcessor({ ...settings, ...times }).traits).toEqual({ ...names, ...times, typicalMs: 1_000 });
  expect(createHttpProcessor({ ...settings, ...times, timeoutMs: 50 }).traits).toMatchObject({
    timeoutMs: 50,
    typicalMs: 50,
  });
});

test('an alarm sounds at once, then at most every ten seconds, and says how many causes it suppressed', () => {
  const clock = new HandClock(0);
  const sounded: [string, number][] = [];
  const alarm = createAlarm((cause, suppressed) => sounded.push([cause, suppressed]), clock);
  for (const at of [5, 5, 10_004, 10_005, 10_006, 99_000, 109_000]) {
    clock.advance(at - clock.now());
    alarm(`at ${at}`);
  }
  expect(sounded).toEqual([
    ['at 5', 0],
    ['at 10005', 2],
    ['at 99000', 1],
    ['at 109000', 0],
  ]);
});

describe('the reason of a decline', () => {
  test.each([
    ['  card blocked\n', 'card blocked'],
    ['line\r\nline\ttab\u0000nul\u0085nel\u007fdel', 'line  line tab nul nel del'],
    [' \u0000\n ', 'no reason given'],
    ['half a \ud83d pair', 'half a \uFFFD pair'],
    // They would change the direction of the text around the reason: "card 123" in front of it reads as "321 drac".
    ['\u202e card\u202c \u2066blocked\u2069\u200f\u061c', 'card blocked'],
    ['one\u2028two\u2029three', 'one two three'],
    ['\u202e', 'no reason given'],
    ['🚫'.repeat(500), '🚫'.repeat(500)],
    ['🚫'.repeat(501), '🚫'.repeat(500)],
    [`${'x'.repeat(499)} more`, 'x'.repeat(499)],
  ])('%j is kept as %j', (text, kept) => {
    expect(keptReason(cleanReason(text), undefined)).toBe(kept);
  });

  /** Bug: a reason that was cut within a long source kept the first part of it. Cause: it was cut before the source was searched. */
  test('is kept without the source, also where that is longer than what is kept', () => {
    const source = 'tok_'.padEnd(500, 'x');
    expect(keptReason(cleanReason(`No such token: ${source}\n`), source)).toBe('No such token: (the source)');
    expect(keptReason(cleanReason(`${'-'.repeat(400)}${source}${source}`), source)).not.toContain('tok_');
  });

  test('can be stored and shown whatever the processor wrote, and stays as it is when it is cleaned again', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (text) => {
        const reason = keptReason(cleanReason(text), undefined);
        expect(reason).toMatch(/^\P{Cc}{1,500}$/u);
        expect(reason).not.toMatch(/\p{Bidi_Control}/u);
        expect(reason.isWellFormed()).toBe(true);
        expect(keptReason(cleanReason(reason), undefined)).toBe(reason);
      }),
    );
  });
});

describe('whether a processor over HTTP moves money', () => {
  const lookUpWith = async (processor: ProcessorClient) => {
    await processor.lookUp(KEY);
    return processor.movesMoney;
  };

  test('is not known before its first whole reply', async () => {
    const silent = processorAt(await startHttpServer((response) => response.destroy()));
    expect(silent.movesMoney).toBeNull();
    expect(await lookUpWith(silent)).toBeNull();
  });

  test.each([
    ['no', false],
    ['NO', false],
    ['yes', true],
    ['no, no', true],
    ['', true],
    [undefined, true],
  ])('with the header %j is %j, whatever the reply says else', async (value, movesMoney) => {
    for (const status of [200, 404, 401, 500]) {
      const processor = await answering(status, '{}', value === undefined ? {} : { 'Moves-Money': value });
      expect(await lookUpWith(processor)).toBe(movesMoney);
    }
  });

  test('is as the last reply said', async () => {
    const values = ['no', undefined, 'no'];
    const server = await startHttpServer((response) => {
      const value = values.shift();
      response.writeHead(404, value === undefined ? {} : { 'Moves-Money': value }).end();
    });
    const processor = processorAt(server);
    for (const movesMoney of [false, true, false]) expect(await lookUpWith(processor)).toBe(movesMoney);
  });

  test('is asked for once where nothing is known yet, and not again', async () => {
    const processor = await answering(404, '', { 'Moves-Money': 'no' });
    const movesMoney = createMovesMoney(processor);
    expect(await Promise.all([movesMoney(), movesMoney(), movesMoney()])).toEqual([false, false, false]);
    expect(await movesMoney()).toBe(false);
    expect(processor.received.map(({ method, url }) => [method, url.replace(/[0-9a-f-]{36}$/, 'UUID')])).toEqual([
      ['GET', '/charges/UUID'],
    ]);
  });

  test('is null in time from a processor that does not answer, and known as soon as it has', async () => {
    const waiting: ServerResponse[] = [];
    const server = await startHttpServer((response) => waiting.push(response));
    const processor = processorAt(server);
    const movesMoney = createMovesMoney(processor, 50);
    expect([await movesMoney(), await movesMoney()]).toEqual([null, null]);
    expect(waiting).toHaveLength(1);
    waiting[0]?.writeHead(404, { 'Moves-Money': 'no' }).end();
    await expect.poll(movesMoney).toBe(false);
  });
});
