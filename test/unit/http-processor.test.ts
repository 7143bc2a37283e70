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

/** A processor that gives everyone the same answer. */
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

/** Statuses that settle nothing, whatever their body says. */
const UNSETTLING = [300, 304, 402, 405, 406, 407, 408, 410, 412, 413, 415, 418, 428, 429, 431, 451, 500, 501, 502];
const MORE_UNSETTLING = [503, 504, 507, 511, 599];

describe('a charge over HTTP', () => {
  test('is one POST under the idempotency key, with the transaction and the money as text', async () => {
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
    expect(JSON.parse(body)).toEqual({
      transactionId: 'TXN1795170621886000522918',
      amount: '100.50',
      currency: 'USD',
    });
  });

  test.each([200, 201, 202, 203, 226, 299])('that is answered %i succeeded, succeeded', async (status) => {
    const { charge, alarms } = await answering(status, SUCCEEDED);
    expect(await charge(CHARGE)).toEqual({ state: 'succeeded' });
    expect(alarms).toEqual([]);
  });

  test('may be answered with more members, a byte order mark, and any media type or none', async () => {
    const body = '\uFEFF { "id": 7, "status" : "succeeded", "nested": {"status": "declined"} } ';
    const heads: Record<string, string>[] = [{}, { 'content-type': 'text/html' }, { 'content-encoding': 'identity' }];
    for (const headers of heads) {
      expect(await (await answering(200, body, headers)).charge(CHARGE)).toEqual({ state: 'succeeded' });
    }
  });

  test('that is answered 402 declined, is declined with its reason', async () => {
    const { charge, alarms } = await answering(402, DECLINED);
    expect(await charge(CHARGE)).toEqual({ state: 'declined', reason: 'insufficient funds' });
    expect(alarms).toEqual([]);
  });

  test('keeps a reason that can be stored and shown', async () => {
    const reason = JSON.stringify(`\u0000 card\r\nblocked \ud800 ${'x'.repeat(600)}`);
    const { charge } = await answering(402, `{"status":"declined","reason":${reason}}`);
    expect(await charge(CHARGE)).toEqual({ state: 'declined', reason: `card  blocked \uFFFD ${'x'.repeat(484)}` });
  });

  test.each([409, 425])('that is answered %i is still at work: unknown', async (status) => {
    for (const body of ['', PROCESSING, SUCCEEDED, DECLINED]) {
      const { charge, alarms } = await answering(status, body);
      const cause = `the processor answered ${status} to a charge: still at work`;
      expect(await charge(CHARGE)).toEqual({ state: 'unknown', cause });
      expect(alarms).toEqual([]);
    }
  });

  test('that is answered 200 processing, is unknown', async () => {
    const { charge } = await answering(200, PROCESSING);
    expect(await charge(CHARGE)).toMatchObject({ state: 'unknown', cause: expect.stringContaining('still at work') });
  });

  test.each([
    [400, 'look at PROCESSOR_URL'],
    [401, 'look at the user and password in PROCESSOR_URL'],
    [403, 'look at the user and password in PROCESSOR_URL'],
    [404, 'look at the path of PROCESSOR_URL'],
    [422, 'look at PROCESSOR_URL'],
  ])('that is answered %i is unknown, and the alarm says to %s', async (status, lookAt) => {
    for (const body of ['', SUCCEEDED, DECLINED]) {
      const { charge, alarms } = await answering(status, body);
      const cause = `the processor answered ${status} to a charge`;
      expect(await charge(CHARGE)).toMatchObject({ state: 'unknown', cause: expect.stringContaining(cause) });
      expect(alarms).toEqual([expect.stringContaining(cause)]);
      expect(alarms[0]).toContain(lookAt);
    }
  });

  test('that is refused with a page too long to read sounds the alarm all the same', async () => {
    const { charge, alarms } = await answering(403, 'x'.repeat(100_000));
    expect(await charge(CHARGE)).toMatchObject({ state: 'unknown' });
    expect(alarms).toHaveLength(1);
  });

  test.each(NONSENSE)('that is answered 200 or 402 with %s is unknown', async (_what, body) => {
    for (const status of [200, 402]) {
      const { charge, alarms } = await answering(status, body);
      const cause = `the processor answered ${status} to a charge, which settles nothing`;
      expect(await charge(CHARGE)).toEqual({ state: 'unknown', cause });
      expect(alarms).toEqual([]);
    }
  });

  test.each([...UNSETTLING, ...MORE_UNSETTLING])('that is answered %i is unknown, without an alarm', async (status) => {
    for (const body of ['', SUCCEEDED, ...(status === 402 ? [] : [DECLINED])]) {
      const { charge, alarms } = await answering(status, body);
      expect(await charge(CHARGE)).toMatchObject({ state: 'unknown', cause: expect.stringContaining(String(status)) });
      expect(alarms).toEqual([]);
    }
  });

  test('is never a decline by a status that says success, nor by any other but 402', async () => {
    for (const status of [200, 201, 400, 409, 500]) {
      expect(await (await answering(status, DECLINED)).charge(CHARGE)).toMatchObject({ state: 'unknown' });
    }
  });
});

describe('a look-up over HTTP', () => {
  test('is one GET of the key, without a body', async () => {
    const { lookUp, received } = await answering(200, SUCCEEDED);
    await lookUp(KEY);
    expect(received).toHaveLength(1);
    expect(received[0]).toMatchObject({ method: 'GET', url: `/charges/${KEY}`, body: '' });
    expect(received[0]?.headers).not.toHaveProperty('idempotency-key');
    expect(received[0]?.headers).toHaveProperty('accept-encoding', 'identity');
  });

  test('keeps a reference inside its path segment', async () => {
    const { lookUp, received } = await answering(404, '');
    await lookUp('../a?b#c d');
    expect(received[0]?.url).toBe('/charges/..%2Fa%3Fb%23c%20d');
  });

  test('finds what succeeded and what was declined in a 200', async () => {
    expect(await (await answering(200, SUCCEEDED)).lookUp(KEY)).toEqual({ state: 'succeeded' });
    const { lookUp } = await answering(200, '{"status":"declined","reason":"\\u0007"}');
    expect(await lookUp(KEY)).toEqual({ state: 'declined', reason: 'no reason given' });
  });

  test('finds no record in a 404, whatever its body, and sounds no alarm', async () => {
    for (const body of ['', SUCCEEDED, '<html>not here</html>']) {
      const { lookUp, alarms } = await answering(404, body);
      expect(await lookUp(KEY)).toEqual({ state: 'no record' });
      expect(alarms).toEqual([]);
    }
  });

  test('takes a 404 that breaks off for no answer', async () => {
    const server = await startHttpServer((response) => {
      response.writeHead(404, { 'content-length': 10 }).write('half');
      setImmediate(() => response.destroy());
    });
    const { lookUp, alarms } = processorAt(server);
    expect(await lookUp(KEY)).toMatchObject({ state: 'unknown', cause: expect.stringContaining('404') });
    expect(alarms).toEqual([]);
  });

  test('of a charge still at work is unknown', async () => {
    for (const [status, body] of [
      [409, ''],
      [425, SUCCEEDED],
      [200, PROCESSING],
    ] as const) {
      const { lookUp, alarms } = await answering(status, body);
      expect(await lookUp(KEY)).toMatchObject({ state: 'unknown', cause: expect.stringContaining('still at work') });
      expect(alarms).toEqual([]);
    }
  });

  test.each([400, 401, 403, 422])('that is answered %i is unknown, and the alarm sounds', async (status) => {
    const { lookUp, alarms } = await answering(status, SUCCEEDED);
    const cause = `the processor answered ${status} to a look-up`;
    expect(await lookUp(KEY)).toEqual({ state: 'unknown', cause: expect.stringContaining(cause) });
    expect(alarms).toEqual([expect.stringMatching(`${cause}.*PROCESSOR_URL`)]);
  });

  test.each(NONSENSE)('that is answered 200 with %s is unknown', async (_what, body) => {
    const { lookUp, alarms } = await answering(200, body);
    expect(await lookUp(KEY)).toMatchObject({ state: 'unknown', cause: expect.stringContaining('settles nothing') });
    expect(alarms).toEqual([]);
  });

  test.each([201, 202, 205, 206, ...UNSETTLING, ...MORE_UNSETTLING])(
    'that is answered %i is unknown',
    async (status) => {
      for (const body of ['', SUCCEEDED, DECLINED]) {
        const { lookUp, alarms } = await answering(status, body);
        expect(await lookUp(KEY)).toMatchObject({ state: 'unknown', cause: expect.stringContaining(String(status)) });
        expect(alarms).toEqual([]);
      }
    },
  );
});

test('whatever a processor answers, only a status and a body that agree are an outcome', async () => {
  let answer = { status: 200, body: '' };
  const server = await startHttpServer((response) => response.writeHead(answer.status).end(answer.body));
  const { charge, lookUp } = processorAt(server);
  const anyStatus = fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(200, 201, 402, 404));
  const anyBody = fc.oneof(
    fc.json(),
    fc.string({ unit: 'binary' }),
    fc
      .record(
        { status: fc.constantFrom('succeeded', 'declined', 'processing'), reason: fc.string() },
        { requiredKeys: [] },
      )
      .map((body) => JSON.stringify(body)),
  );
  await fc.assert(
    fc.asyncProperty(anyStatus, anyBody, async (status, body) => {
      answer = { status, body };
      const said = (() => {
        try {
          return JSON.parse(body)?.status;
        } catch {
          return undefined;
        }
      })();
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

describe('the URL of a processor', () => {
  test('may have a path, with or without a slash at its end', async () => {
    const server = await startHttpServer((response) => response.end(SUCCEEDED));
    for (const path of ['/v1/pay', '/v1/pay/']) {
      const { charge, lookUp } = processorAt({ port: server.port, path });
      await charge(CHARGE);
      await lookUp(KEY);
    }
    const paths = ['/v1/pay/charges', `/v1/pay/charges/${KEY}`];
    expect(server.received.map(({ url }) => url)).toEqual([...paths, ...paths]);
  });

  test('may name a user and a password, which are sent as Basic credentials with every request', async () => {
    const server = await startHttpServer((response) => response.end(SUCCEEDED));
    const { charge, lookUp } = processorAt({ port: server.port, userInfo: 'idempay:p%40ss%3Aw%C3%B6rd@' });
    await charge(CHARGE);
    await lookUp(KEY);
    const expected = `Basic ${Buffer.from('idempay:p@ss:wörd').toString('base64')}`;
    expect(server.received.map(({ headers }) => headers.authorization)).toEqual([expected, expected]);
  });

  test('names the processor, with its account and without user, password and last slash', async () => {
    const settings = { timeoutMs: 1, dedupMs: 0, connections: 1, alarm: () => {} };
    const namesOf = (url: string, account?: string) => {
      const { name, formerName } = createHttpProcessor({ ...settings, url, account });
      return [name, formerName];
    };
    const named = ['http://psp.example/v1?account=shop-7', 'http://psp.example/v1'];
    expect(namesOf('http://user:secret@psp.example/v1/', 'shop-7')).toEqual(named);
    expect(namesOf('HTTPS://PSP.example:443')).toEqual(['https://psp.example?no-user', 'https://psp.example']);
  });

  test('does not show in the cause of an unknown outcome with its password', async () => {
    const server = await startHttpServer((response) => response.writeHead(401).end());
    const { charge, alarms } = processorAt({ port: server.port, userInfo: 'user:hunter2@' });
    const result = await charge(CHARGE);
    expect(JSON.stringify([result, alarms])).not.toContain('hunter2');
  });
});

test('an HTTP processor declares its times: a call ends within its time-out, and repeats are known as long as it was told', () => {
  const settings = { url: 'http://psp.example', dedupMs: 72_000_000, connections: 1, alarm: () => {} };
  const patient = createHttpProcessor({ ...settings, timeoutMs: 10_000 });
  expect(patient).toMatchObject({ timeoutMs: 10_000, dedupMs: 72_000_000, typicalMs: 1_000 });
  const hasty = createHttpProcessor({ ...settings, timeoutMs: 50 });
  expect(hasty).toMatchObject({ timeoutMs: 50, typicalMs: 50 });
});
