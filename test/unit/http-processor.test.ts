import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Charge } from '#idempay/payments/ports/processor.js';
import { createHttpProcessor } from '#idempay/payments/processors/http.js';
import { processorAt, type Received, startHttpServer } from '../../testkit/servers/processor-servers.js';

const KEY = '0193a5b4-7c1e-7000-8000-000000000001';
const CHARGE: Charge = {
  reference: KEY,
  transactionId: 'TXN1795170621886000522918',
  amount: '100.50',
  currency: 'USD',
};

const SUCCEEDED = '{"status":"succeeded"}';
const DECLINED = '{"status":"declined","reason":"insufficient funds"}';
const PROCESSING = '{"status":"processing"}';
const SETTINGS = { url: 'http://psp.example', timeoutMs: 1, dedupMs: 72_000_000, connections: 1, alarm: () => {} };

/** A processor that answers every request alike. */
async function answering(status: number, body: string | Buffer, headers: Record<string, string> = {}) {
  const server = await startHttpServer((response) => response.writeHead(status, headers).end(body));
  return { ...processorAt(server), received: server.received };
}

/** Bodies that say nothing that we know. */
const NONSENSE: readonly [what: string, body: string | Buffer][] = [
  ['nothing', ''],
  ['white space', ' \n'],
  ['null', 'null'],
  ['a string', '"succeeded"'],
  ['a list', '[{"status":"succeeded"}]'],
  ['an empty object', '{}'],
  ['another status', '{"status":"pending"}'],
  ['a status in another case', '{"status":"Succeeded"}'],
  ['a status of another type', '{"status":["succeeded"]}'],
  ['a status a level too deep', '{"charge":{"status":"succeeded"}}'],
  ['an inherited status', '{"__proto__":{"status":"succeeded"}}'],
  ['a decline without its reason', '{"status":"declined"}'],
  ['a decline whose reason is null', '{"status":"declined","reason":null}'],
  ['a decline whose reason is an object', '{"status":"declined","reason":{"code":51}}'],
  ['half an object', '{"status":"succeeded"'],
  ['an object and more', '{"status":"succeeded"}{"status":"succeeded"}'],
  ['HTML', '<html><body>{"status":"succeeded"}</body></html>'],
  ['bytes that are not UTF-8', Buffer.from([...Buffer.from('{"status":"succeeded","x":"'), 0xff, 0x22, 0x7d])],
  ['JSON nested thousands deep', `{"status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`],
];

const STATUSES = `
  200 201 202 203 205 206 226 299 300 304 400 401 402 403 404 405 406 407 408 409 410 412 413 415 418 422 425 428 429 431
  451 500 501 502 503 504 507 511 599`;

/** Where the alarm sends the operator. */
const LOOK_AT: Readonly<Record<number, string>> = {
  400: 'look at PROCESSOR_URL',
  401: 'look at the user and password in PROCESSOR_URL',
  403: 'look at the user and password in PROCESSOR_URL',
  404: 'look at the path of PROCESSOR_URL',
  422: 'look at PROCESSOR_URL',
};

type Call = 'a charge' | 'a look-up';

/** The contract of `docs/processor.md`: what an answer to a call means. */
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
    for (const body of status === 304 ? [''] : ['', SUCCEEDED, DECLINED, PROCESSING]) {
      const { charge, lookUp, alarms } = await answering(status, body);
      const charged = meaningOf('a charge', status, body);
      expect(await charge(CHARGE), body).toEqual(charged);
      const lookAt = LOOK_AT[status];
      const heard = lookAt ? [expect.stringContaining(`${charged.cause}: ${lookAt}`)] : [];
      expect(alarms).toEqual(heard);
      const found = meaningOf('a look-up', status, body);
      expect(await lookUp(KEY), body).toEqual(found);
      const again =
        lookAt && found.state === 'unknown' ? [expect.stringMatching(`${found.cause}: .*PROCESSOR_URL`)] : [];
      expect(alarms).toEqual([...heard, ...again]);
    }
  });

  test.each(NONSENSE)('with status 200 or 402 and %s is unknown, without an alarm', async (_what, body) => {
    for (const status of [200, 402]) {
      const { charge, lookUp, alarms } = await answering(status, body);
      expect(await charge(CHARGE)).toEqual(meaningOf('a charge', status, ''));
      expect(await lookUp(KEY)).toEqual(meaningOf('a look-up', status, ''));
      expect(alarms).toEqual([]);
    }
  });

  test('is an outcome only where status and body agree, whatever they are', async () => {
    let answer = { status: 200, body: '' };
    const server = await startHttpServer((response) => response.writeHead(answer.status).end(answer.body));
    const { charge, lookUp } = processorAt(server);
    const anyStatus = fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(200, 201, 402, 404));
    const status = fc.constantFrom('succeeded', 'declined', 'processing');
    const object = fc.record({ status, reason: fc.string() }, { requiredKeys: [] });
    const anyBody = fc.oneof(
      fc.json(),
      fc.string({ unit: 'binary' }),
      object.map((body) => JSON.stringify(body)),
    );
    await fc.assert(
      fc.asyncProperty(anyStatus, anyBody, async (status, body) => {
        answer = { status, body };
        const said = statusIn(body);
        const charged = await charge(CHARGE);
        if (charged.state === 'succeeded') expect([Math.floor(status / 100), said]).toEqual([2, 'succeeded']);
        if (charged.state === 'declined') expect([status, said]).toEqual([402, 'declined']);
        const found = await lookUp(KEY);
        if (found.state === 'succeeded') expect([status, said]).toEqual([200, 'succeeded']);
        if (found.state === 'declined') expect([status, said]).toEqual([200, 'declined']);
        if (found.state === 'no record') expect(status).toBe(404);
      }),
      { numRuns: 300 },
    );
  });

  test('may have more members, a byte order mark, and any media type or none', async () => {
    const body = '\uFEFF { "id": 7, "status" : "succeeded", "nested": {"status": "declined"} } ';
    const heads: Record<string, string>[] = [{}, { 'content-type': 'text/html' }, { 'content-encoding': 'identity' }];
    for (const headers of heads) {
      expect(await (await answering(200, body, headers)).charge(CHARGE)).toEqual({ state: 'succeeded' });
    }
  });

  test('gives a decline a reason that can be stored and shown', async () => {
    const reason = JSON.stringify(`\u0000 card\r\nblocked \ud800 ${'x'.repeat(600)}`);
    const { charge } = await answering(402, `{"status":"declined","reason":${reason}}`);
    expect(await charge(CHARGE)).toEqual({ state: 'declined', reason: `card  blocked \uFFFD ${'x'.repeat(484)}` });
    const { lookUp } = await answering(200, '{"status":"declined","reason":"\\u0007"}');
    expect(await lookUp(KEY)).toEqual({ state: 'declined', reason: 'no reason given' });
  });

  test('that refuses a charge with a page too long to read causes the alarm all the same', async () => {
    const { charge, alarms } = await answering(403, 'x'.repeat(100_000));
    expect(await charge(CHARGE)).toMatchObject({ state: 'unknown' });
    expect(alarms).toHaveLength(1);
  });

  test('to a look-up is no answer when a 404 breaks off', async () => {
    const server = await startHttpServer((response) => {
      response.writeHead(404, { 'content-length': 10 }).write('half');
      setImmediate(() => response.destroy());
    });
    const { lookUp, alarms } = processorAt(server);
    expect(await lookUp(KEY)).toMatchObject({ state: 'unknown', cause: expect.stringContaining('404') });
    expect(alarms).toEqual([]);
  });
});

function statusIn(body: string): unknown {
  try {
    return JSON.parse(body)?.status;
  } catch {
    return undefined;
  }
}

describe('a request to the processor', () => {
  test('to charge is one POST under the idempotency key, with the transaction and the money as text', async () => {
    const { charge, received } = await answering(200, SUCCEEDED);
    await charge(CHARGE);
    expect(received).toHaveLength(1);
    const { method, url, headers, body } = received[0] as Received;
    expect(`${method} ${url}`).toBe('POST /charges');
    expect(headers).toMatchObject({
      'idempotency-key': KEY,
      'content-type': 'application/json',
      'content-length': String(body.length),
      accept: 'application/json',
      'accept-encoding': 'identity',
    });
    expect(headers).not.toHaveProperty('authorization');
    const { transactionId, amount, currency } = CHARGE;
    expect(JSON.parse(body)).toEqual({ transactionId, amount, currency });
  });

  test('to look up is one GET of the key, without a body and with the reference inside its path segment', async () => {
    const { lookUp, received } = await answering(404, '');
    await lookUp(KEY);
    expect(received).toMatchObject([{ method: 'GET', url: `/charges/${KEY}`, body: '' }]);
    expect(received[0]?.headers).not.toHaveProperty('idempotency-key');
    expect(received[0]?.headers).toHaveProperty('accept-encoding', 'identity');
    await lookUp('../a?b#c d');
    expect(received[1]?.url).toBe('/charges/..%2Fa%3Fb%23c%20d');
  });

  test.each(['/v1/pay', '/v1/pay/'])('goes below the path %s of the URL', async (path) => {
    const server = await startHttpServer((response) => response.end(SUCCEEDED));
    const { charge, lookUp } = processorAt({ port: server.port, path });
    await charge(CHARGE);
    await lookUp(KEY);
    expect(server.received.map(({ url }) => url)).toEqual(['/v1/pay/charges', `/v1/pay/charges/${KEY}`]);
  });

  test('has the user and the password of the URL as Basic credentials, which no cause or alarm shows', async () => {
    const server = await startHttpServer((response) => response.writeHead(401).end());
    const { charge, lookUp, alarms } = processorAt({ port: server.port, userInfo: 'idempay:p%40ss%3Aw%C3%B6rd@' });
    const results = [await charge(CHARGE), await lookUp(KEY)];
    const expected = `Basic ${Buffer.from('idempay:p@ss:wörd').toString('base64')}`;
    expect(server.received.map(({ headers }) => headers.authorization)).toEqual([expected, expected]);
    expect(JSON.stringify([results, alarms])).not.toMatch(/p@ss|p%40ss/);
  });
});

test('an HTTP processor is named with its account and without user, password and last slash', () => {
  const namesOf = (url: string, account?: string) => {
    const { name, formerName } = createHttpProcessor({ ...SETTINGS, url, account });
    return [name, formerName];
  };
  const named = ['http://psp.example/v1?account=shop-7', 'http://psp.example/v1'];
  expect(namesOf('http://user:secret@psp.example/v1/', 'shop-7')).toEqual(named);
  expect(namesOf('HTTPS://PSP.example:443')).toEqual(['https://psp.example?no-user', 'https://psp.example']);
});

test('an HTTP processor declares its times: those of the settings, and a second as typical, or less', () => {
  const patient = createHttpProcessor({ ...SETTINGS, timeoutMs: 10_000 });
  expect(patient).toMatchObject({ timeoutMs: 10_000, dedupMs: 72_000_000, typicalMs: 1_000 });
  expect(createHttpProcessor({ ...SETTINGS, timeoutMs: 50 })).toMatchObject({ timeoutMs: 50, typicalMs: 50 });
});
