import type { ServerResponse } from 'node:http';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { cleanReason, isKeptOf, keptReason } from '#idempay/payments/processors/decline-reason.js';
import { createAlarm, createHttpProcessor } from '#idempay/payments/processors/http.js';
import { createMovesMoney } from '#idempay/payments/processors/moves-money.js';
import { processorAt, startHttpServer } from '../../testkit/servers/processor-servers.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const KEY = '0193a5b4-7c1e-7000-8000-000000000001';
const ORDER = { transactionId: 'TXN1795170621886000522918', amount: '100.50', currency: 'USD' };
const CHARGE = { key: KEY, ...ORDER };

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

function isObject(text: string): boolean {
  try {
    return /^\{/.test(JSON.stringify(JSON.parse(text)));
  } catch {
    return false;
  }
}

const STATUSES = `
  200 201 202 204 206 226 299 300 304 400 401 402 403 404 405 407 408 409 410 413 418 422 425 428 429 451 500 502 503 504 599`;

/** The place to which the alarm sends the operator. */
const LOOK_AT: Readonly<Record<number, string>> = {
  400: 'look at PROCESSOR_URL',
  401: 'look at the user and password in PROCESSOR_URL',
  403: 'look at the user and password in PROCESSOR_URL',
  404: 'look at the path of PROCESSOR_URL',
  422: 'look at PROCESSOR_URL',
};

type Call = 'a charge' | 'a look-up';

const NO_PROOF = {
  state: 'unknown',
  cause: 'the processor answered 404 to a look-up without a body that is a JSON object, which proves nothing',
};

const alarmOf = (status: number, { cause }: ReturnType<typeof meaningOf>) =>
  expect.stringContaining(`${cause}: ${cause === NO_PROOF.cause ? 'look at the adapter' : LOOK_AT[status]}`);

/** The contract of `docs/reference/processor.md`: what an answer to a call means. */
function meaningOf(call: Call, status: number, body: string): { state: string; reason?: string; cause?: string } {
  if (body === SUCCEEDED && (call === 'a charge' ? status < 300 : status === 200)) return { state: 'succeeded' };
  if (body === DECLINED && status === (call === 'a charge' ? 402 : 200)) {
    return { state: 'declined', reason: 'insufficient funds' };
  }
  // An empty body comes from whatever stands before the adapter.
  if (call === 'a look-up' && status === 404) return body === '' ? NO_PROOF : { state: 'no record' };
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
      expected.push(...unknown.map((meaning) => alarmOf(status, meaning)));
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
        expect(await lookUp(KEY)).toEqual(meaningOf('a look-up', status, isObject(body) ? '{}' : ''));
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

/** Bug: a reply that named another charge was recorded as this payment's success. Cause: only its status was read. */
describe('an answer that names a charge', () => {
  const OTHER = '0193a5b4-7c1e-7000-8000-000000000002';
  const OTHER_ID = 'TXN1795170621886000522919';
  const asked = (members: object) => JSON.stringify({ status: 'succeeded', ...members });
  const MONEY = { amount: '100.50', currency: 'USD' };
  const LOOK_AT_BOTH = ': look at the adapter, and at whatever stands between it and this service';

  const believed = async (body: string, headers: Record<string, string> = {}) => {
    const processor = await answering(200, body, headers);
    const results = [await processor.charge(CHARGE), await processor.lookUp(KEY, MONEY)];
    return { states: results.map(({ state }) => state), results, alarms: processor.alarms };
  };

  test.each<[string, object, Record<string, string>?]>([
    ['its reference', { reference: KEY }],
    ['its reference in upper case', { reference: KEY.toUpperCase() }],
    ['its reference in the header', {}, { 'Idempotency-Key': KEY }],
    ['its reference in the header, quoted as the draft of the header has it', {}, { 'Idempotency-Key': `"${KEY}"` }],
    ['a reference of its own', { reference: 'ch_7' }],
    ['a header of its own', {}, { 'Idempotency-Key': 'ch_7' }],
    ['a transaction id of its own', { transactionId: 'TXN7' }],
    ['its transaction id', { transactionId: ORDER.transactionId }],
    ['the amount in another form', { amount: '0100.5000', currency: 'usd' }],
    ['the amount as a number', { amount: 10050, currency: 'usd' }],
    ['an amount without its currency', { amount: '7.00' }],
    ['a currency alone', { currency: 'EUR' }],
    ['an amount in what is no currency', { amount: '7.00', currency: 'points' }],
    ['an amount that is no plain decimal', { amount: '100,50', currency: 'USD' }],
    ['members in members', { charge: { reference: OTHER, amount: '7.00', currency: 'EUR' } }],
  ])('by %s is believed', async (_, members, headers) => {
    expect(await believed(asked(members), headers)).toMatchObject({ states: ['succeeded', 'succeeded'], alarms: [] });
  });

  test.each<[string, object, Record<string, string>, string]>([
    ['reference', { reference: OTHER }, {}, `its reference is ${OTHER}, not ${KEY}`],
    ['reference in upper case', { reference: OTHER.toUpperCase() }, {}, `its reference is ${OTHER}, not ${KEY}`],
    ['header', { reference: KEY }, { 'Idempotency-Key': OTHER }, `its reference is ${OTHER}, not ${KEY}`],
    ['amount', { amount: '100.5', currency: 'EUR' }, {}, 'its amount is 100.50 EUR, not 100.50 USD'],
    ['amount', { amount: '10050', currency: 'usd' }, {}, 'its amount is 10050.00 USD, not 100.50 USD'],
    [
      'amount',
      { amount: '0.00', currency: 'USD' },
      {},
      "its amount is that of no payment: 'amount' must be more than 0.",
    ],
    ['amount', { amount: '100.501', currency: 'USD' }, {}, 'its amount is that of no payment'],
  ])('with another %s is unknown, with an alarm', async (_, members, headers, difference) => {
    for (const status of ['succeeded', 'declined']) {
      const body = JSON.stringify({ status, reason: 'no cover', ...members });
      const { states, results, alarms } = await believed(body, headers);
      expect(states).toEqual(['unknown', 'unknown']);
      const causes = ['a charge', 'a look-up'].map(
        (call) => `the processor answered 200 to ${call}, and names another charge: ${difference}`,
      );
      expect(results).toMatchObject(causes.map((cause) => ({ cause: expect.stringContaining(cause) })));
      expect(alarms).toEqual(results.map((result) => `${'cause' in result && result.cause}${LOOK_AT_BOTH}`));
    }
  });

  /** After rows were lost, a look-up finds the charge of another transaction. */
  test('by the transaction id of another is unknown to a charge, and believed of a look-up', async () => {
    const { states, alarms } = await believed(asked({ transactionId: OTHER_ID }));
    expect(states).toEqual(['unknown', 'succeeded']);
    expect(alarms).toEqual([expect.stringContaining(`its transactionId is ${OTHER_ID}, not ${ORDER.transactionId}`)]);
  });

  test('tells a look-up what was charged, in canonical form, if it is not told what must have been', async () => {
    const { lookUp, answer } = await answering(200, asked({ amount: '025', currency: 'eur' }));
    expect(await lookUp(KEY)).toEqual({ state: 'succeeded', charged: { amount: '25.00', currency: 'EUR' } });
    answer.body = asked({ amount: 25, currency: 'eur' });
    expect(await lookUp(KEY)).toEqual({ state: 'succeeded', charged: undefined });
    answer.body = asked({ amount: '0.00', currency: 'eur' });
    expect(await lookUp(KEY)).toMatchObject({ state: 'unknown' });
  });
});

/** Bug: the 404 page of an ingress was taken as "no record", so that a charged payment could be cancelled. Cause: its body was not read. */
describe('a 404 to a look-up', () => {
  const JSON_404 = '{"error":"no record"}';

  test.each(['', '404 page not found', '<html></html>', '[]', 'null', '"none"', '{"error":'])(
    'with the body %j proves nothing',
    async (body) => {
      const { lookUp, alarms } = await answering(404, body);
      expect(await lookUp(KEY)).toEqual(NO_PROOF);
      expect(alarms).toEqual([expect.stringContaining(NO_PROOF.cause)]);
    },
  );

  test.each<[string, Record<string, string>, object]>([
    ['the header Idempay-Contract', { 'Idempay-Contract': '2' }, {}],
    ['the reference', {}, { reference: KEY }],
    ['the reference', { 'Idempotency-Key': KEY }, {}],
  ])('without %s proves nothing after a reply that had it', async (what, headers, members) => {
    const sent = { status: 404, headers: {} as Record<string, string>, body: JSON_404 };
    const server = await startHttpServer((response) => response.writeHead(sent.status, sent.headers).end(sent.body));
    const { charge, lookUp, alarms } = processorAt(server);
    expect(await lookUp(KEY)).toEqual({ state: 'no record' });
    Object.assign(sent, { status: 200, headers, body: JSON.stringify({ status: 'succeeded', ...members }) });
    expect(await charge(CHARGE)).toEqual({ state: 'succeeded' });
    Object.assign(sent, { status: 404, headers: {}, body: JSON_404 });
    const cause = `the processor answered 404 to a look-up without ${what}, which earlier replies`;
    expect(await lookUp(KEY)).toEqual({ state: 'unknown', cause: expect.stringContaining(cause) });
    expect(alarms).toEqual([expect.stringContaining(cause)]);
    Object.assign(sent, { headers, body: JSON.stringify({ error: 'no record', ...members }) });
    expect(await lookUp(KEY)).toEqual({ state: 'no record' });
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
  const account = { account: 'shop-7', formerNames: ['http://older.example?no-user'] };
  const settings = { url: 'http://user:secret@psp.example/v1/', ...account, connections: 1, alarm: () => {} };
  const times = { timeoutMs: 10_000, dedupMs: 72_000_000 };
  const names = { name: 'http://psp.example/v1?account=shop-7', formerNames: ['http://older.example?no-user'] };
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
    expect(keptReason(cleanReason(`No such token: ${source}\n`), { source })).toBe('No such token: (the source)');
    expect(keptReason(cleanReason(`${'-'.repeat(400)}${source}${source}`), { source })).not.toContain('tok_');
  });

  test.each([
    [{ source: 'tok_1' }, 'tok_1, tok_1', '(the source), (the source)'],
    [{ returnUrl: 'https://a.example/?b=(c)' }, 'no https://a.example/?b=(c) here', 'no (the return address) here'],
    [{ source: 'a', returnUrl: 'https://a.example/' }, 'a https://a.example/', '(the source) (the return address)'],
    [{ source: 'https://a.example/1', returnUrl: 'https://a.example/' }, 'https://a.example/1', '(the source)'],
    [{ source: '$&' }, 'costs $& more', 'costs (the source) more'],
    [{ source: 'tok_1' }, '(the source)', '(the source)'],
  ])('of a payment with %j, %j is kept as %j, and is known again', (payer, text, kept) => {
    expect(keptReason(text, payer)).toBe(kept);
    expect(isKeptOf(kept, text)).toBe(true);
    expect(isKeptOf(kept, `${text} !`)).toBe(false);
    expect(isKeptOf(kept, 'seen on the statement')).toBe(false);
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
