import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { processorAt, startByteServer, startHttpServer } from '../../testkit/servers/processor-servers.js';

/** Refunds under contract 3 of `docs/reference/processor.md` (rule P26). */

const KEY = 'f193a5b4-7c1e-8000-8000-000000000001';
const PAYMENT = '0193a5b4-7c1e-7000-8000-000000000001';
const OTHER = '0193a5b4-7c1e-7000-8000-000000000002';
const TRANSACTION_ID = 'TXN1795170621886000522918';
const MONEY = { amount: '7.50', currency: 'USD' };
const REFUND = { key: KEY, transactionId: TRANSACTION_ID, payment: PAYMENT, ...MONEY };
const UNTIL = '2026-11-29T15:00:00Z';
const THIRD = { 'idempay-contract': '3' };

type Headers = Record<string, string>;
type Members = Record<string, unknown>;

const CALLS = {
  'a refund': (processor: ProcessorClient) => processor.refund(REFUND),
  'a look-up of a refund': (processor: ProcessorClient) => processor.lookUpRefund(KEY, PAYMENT, MONEY),
};
type Call = keyof typeof CALLS;
const BOTH = Object.keys(CALLS) as Call[];

/** A processor that answers every request alike: as `answer` says at that moment. */
async function answering(status: number, body: string | Buffer, headers: Headers = THIRD) {
  const answer = { status, body, headers };
  const server = await startHttpServer((response) =>
    response.writeHead(answer.status, answer.headers).end(answer.body),
  );
  return Object.assign(processorAt(server), { received: server.received, answer });
}

/** The meaning of one reply to a call, and the alarms that it raises. */
async function resultOf(call: Call, status: number, members: Members, headers: Headers = THIRD) {
  const processor = await answering(status, JSON.stringify(members), headers);
  return { result: await CALLS[call](processor), alarms: processor.alarms };
}

const PENDING = { status: 'pending', until: UNTIL };
const SUCCEEDED = { status: 'succeeded' };
const DECLINED = { status: 'declined', reason: 'too old' };

const REPLIES: readonly (readonly [call: Call, status: number, body: Members, state: string])[] = [
  ['a refund', 200, SUCCEEDED, 'succeeded'],
  ['a refund', 201, SUCCEEDED, 'succeeded'],
  ['a refund', 202, SUCCEEDED, 'succeeded'],
  ['a refund', 402, SUCCEEDED, 'unknown'],
  ['a refund', 402, DECLINED, 'declined'],
  ['a refund', 200, DECLINED, 'unknown'],
  ['a refund', 422, DECLINED, 'unknown'],
  ['a refund', 202, PENDING, 'pending'],
  ['a refund', 200, PENDING, 'unknown'],
  ['a refund', 409, {}, 'unknown'],
  ['a refund', 425, {}, 'unknown'],
  ['a refund', 404, { error: 'no such charge' }, 'unknown'],
  ['a refund', 501, {}, 'unknown'],
  ['a look-up of a refund', 200, SUCCEEDED, 'succeeded'],
  ['a look-up of a refund', 201, SUCCEEDED, 'unknown'],
  ['a look-up of a refund', 200, DECLINED, 'declined'],
  ['a look-up of a refund', 402, DECLINED, 'unknown'],
  ['a look-up of a refund', 200, PENDING, 'pending'],
  ['a look-up of a refund', 202, PENDING, 'unknown'],
  ['a look-up of a refund', 200, { status: 'processing' }, 'unknown'],
  ['a look-up of a refund', 404, { error: 'none' }, 'no record'],
  ['a look-up of a refund', 409, {}, 'unknown'],
];

describe('a reply about a refund', () => {
  test.each(REPLIES)('to %s, %i %j, is %s, and unknown without contract 3', async (call, status, body, state) => {
    expect((await resultOf(call, status, body)).result.state).toBe(state);
    for (const headers of [{}, { 'idempay-contract': '2' }, { 'idempay-contract': '3, 1' }] as Headers[]) {
      const { result } = await resultOf(call, status, body, headers);
      expect(result).toEqual({
        state: 'unknown',
        cause: `the processor answered ${status} to ${call} without Idempay-Contract: 3, which counts for nothing about a refund`,
      });
    }
  });

  test('says what it found, a look-up with which amount, and has no member besides', async () => {
    const full = { ...MONEY, reference: KEY, charge: PAYMENT, transactionId: TRANSACTION_ID, id: 're_1' };
    for (const call of BOTH) {
      const sent = call === 'a refund';
      const charged = sent ? {} : { charged: MONEY };
      expect(await resultOf(call, 200, { ...SUCCEEDED, ...full })).toEqual({
        result: { state: 'succeeded', id: 're_1', ...charged },
        alarms: [],
      });
      expect((await resultOf(call, sent ? 402 : 200, { ...DECLINED, ...full })).result).toEqual({
        state: 'declined',
        reason: 'too old',
        id: 're_1',
      });
      expect((await resultOf(call, sent ? 202 : 200, { ...PENDING, ...full })).result).toEqual({
        state: 'pending',
        untilMs: Date.parse(UNTIL),
        id: 're_1',
        ...charged,
      });
      expect((await resultOf(call, 200, { ...SUCCEEDED, id: 'not a name' })).result).toEqual({ state: 'succeeded' });
    }
  });

  test.each<[string, unknown]>([
    ['a page', { url: 'https://bank.example' }],
    ['what would be no action of a charge', { url: 'javascript:alert(1)', amount: 1 }],
  ])('that is pending and has %s as its action is pending without it', async (_, action) => {
    for (const call of BOTH) {
      expect(await resultOf(call, call === 'a refund' ? 202 : 200, { ...PENDING, action })).toEqual({
        result: { state: 'pending', untilMs: Date.parse(UNTIL) },
        alarms: [],
      });
    }
  });

  test.each([undefined, '2026-02-30T00:00:00Z', 7])(
    'that is pending until %j is unknown, with an alarm',
    async (until) => {
      for (const call of BOTH) {
        const { result, alarms } = await resultOf(call, call === 'a refund' ? 202 : 200, { status: 'pending', until });
        const problem = 'says that the refund is pending, but its until is no time as RFC 3339 has it';
        expect(result).toMatchObject({ state: 'unknown', cause: expect.stringContaining(problem) });
        expect(alarms).toEqual([expect.stringContaining(`${problem}: look at the adapter`)]);
      }
    },
  );

  test('that says reversed is no outcome, and raises an alarm', async () => {
    for (const call of BOTH) {
      const { result, alarms } = await resultOf(call, 200, { status: 'reversed', reason: 'account closed' });
      expect(result).toMatchObject({
        state: 'unknown',
        cause: expect.stringContaining('says that the refund was reversed, which settles nothing'),
      });
      expect(alarms).toEqual([expect.stringContaining('look at the refund at the processor')]);
    }
  });

  test.each([200, 402])('with status %i and a body that says nothing is unknown, without an alarm', async (status) => {
    for (const body of [
      '',
      '{"__proto__":{"status":"succeeded"}}',
      '{"status":"declined"}',
      '{"status":"declined","reason":{"code":51}}',
      '{"status":"succeeded"',
      Buffer.from([...Buffer.from('{"status":"succeeded","x":"'), 0xff, 0x22, 0x7d]),
      `{"status":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
    ]) {
      const processor = await answering(status, body);
      for (const call of BOTH) {
        const cause = `the processor answered ${status} to ${call}, which settles nothing`;
        expect(await CALLS[call](processor)).toEqual({ state: 'unknown', cause });
      }
      expect(processor.alarms).toEqual([]);
    }
  });

  test('with any status and any other body is no outcome', async () => {
    const processor = await answering(200, '');
    const anyStatus = fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(200, 201, 202, 402, 404));
    const anyBody = fc.oneof(fc.json(), fc.string({ unit: 'binary' }));
    await fc.assert(
      fc.asyncProperty(anyStatus, anyBody, async (status, body) => {
        Object.assign(processor.answer, { status, body });
        expect(await processor.refund(REFUND)).toMatchObject({ state: 'unknown' });
        const { state } = await processor.lookUpRefund(KEY, PAYMENT, MONEY);
        expect(['unknown', ...(status === 404 ? ['no record'] : [])]).toContain(state);
      }),
      { numRuns: 60 },
    );
  });

  test.each([
    [400, 'look at PROCESSOR_URL'],
    [401, 'look at the user and password'],
    [403, 'look at the user and password'],
    [422, 'look at PROCESSOR_URL'],
  ])('that refuses it with %i raises an alarm, whatever contract it names', async (status, place) => {
    for (const call of BOTH) {
      for (const headers of [THIRD, {}]) {
        const { result, alarms } = await resultOf(call, status, { error: 'no' }, headers as Headers);
        expect(result.state).toBe('unknown');
        expect(alarms).toEqual([expect.stringContaining(place)]);
      }
    }
  });

  test('that has no path for refunds raises an alarm', async () => {
    for (const headers of [THIRD, {}]) {
      const { alarms } = await resultOf('a refund', 404, { error: 'no route' }, headers as Headers);
      expect(alarms).toEqual([
        expect.stringMatching(/answered 404 to a refund.*: look at the adapter, and at whatever/),
      ]);
    }
  });

  test('that is a 404 proves nothing without a JSON object, and without the reference that earlier replies named', async () => {
    const page = await answering(404, '<html></html>');
    const cause = 'the processor answered 404 to a look-up of a refund without a body that is a JSON object';
    expect(await page.lookUpRefund(KEY, PAYMENT, MONEY)).toMatchObject({
      state: 'unknown',
      cause: expect.stringContaining(cause),
    });
    expect(page.alarms).toEqual([expect.stringContaining(cause)]);

    const named = await answering(404, JSON.stringify({ error: 'none', reference: KEY }));
    expect((await named.lookUpRefund(KEY, PAYMENT, MONEY)).state).toBe('no record');
    named.answer.body = '{"error":"none"}';
    expect(await named.lookUpRefund(KEY, PAYMENT, MONEY)).toMatchObject({
      state: 'unknown',
      cause: expect.stringContaining('without the reference, which earlier replies named'),
    });
  });
});

describe('a reply that names another refund', () => {
  test.each<[string, Members, Headers]>([
    [`its reference is ${OTHER}, not ${KEY}`, { reference: OTHER }, {}],
    [`its reference is ${PAYMENT}, not ${KEY}`, { reference: PAYMENT }, {}],
    [`its reference is ${OTHER}, not ${KEY}`, { reference: KEY }, { 'Idempotency-Key': OTHER }],
    [`its charge is ${OTHER}, not ${PAYMENT}`, { reference: KEY, charge: OTHER }, {}],
    [`its charge is ${KEY}, not ${PAYMENT}`, { charge: KEY }, {}],
    ['its amount is 100.50 USD, not 7.50 USD', { amount: '100.50', currency: 'USD' }, {}],
    ['its amount is 7.50 EUR, not 7.50 USD', { amount: '7.50', currency: 'eur' }, {}],
    ['its amount is that of no payment', { amount: '0', currency: 'USD' }, {}],
  ])('as %s is unknown, with an alarm', async (difference, members, headers) => {
    for (const call of BOTH) {
      for (const body of [SUCCEEDED, DECLINED, PENDING]) {
        const { result, alarms } = await resultOf(call, 200, { ...body, ...members }, { ...THIRD, ...headers });
        const cause = `the processor answered 200 to ${call}, and names another refund: ${difference}`;
        expect(result).toMatchObject({ state: 'unknown', cause: expect.stringContaining(cause) });
        expect(alarms).toEqual([expect.stringMatching(/: look at the adapter, and at whatever stands between/)]);
      }
    }
  });

  test('by another transaction id is unknown to a refund, and believed of a look-up', async () => {
    const other = { ...SUCCEEDED, transactionId: 'TXN1795170621886000522919' };
    expect((await resultOf('a refund', 200, other)).result.state).toBe('unknown');
    expect((await resultOf('a look-up of a refund', 200, other)).result.state).toBe('succeeded');
  });

  test.each<[string, Members, charged?: typeof MONEY]>([
    ['its reference in upper case', { reference: KEY.toUpperCase() }],
    ['its charge in upper case', { charge: PAYMENT.toUpperCase() }],
    ['a charge of its own naming', { charge: 'ch_7' }],
    ['a charge that is an object', { charge: { id: OTHER } }],
    ['the amount in another form', { amount: '07.5', currency: 'usd' }, MONEY],
    ['the amount as a number', { amount: 750, currency: 'usd' }],
  ])('is not one that has %s', async (_, members, charged) => {
    for (const call of BOTH) {
      expect(await resultOf(call, 200, { ...SUCCEEDED, ...members })).toEqual({
        result: { state: 'succeeded', ...(call === 'a look-up of a refund' && { charged }) },
        alarms: [],
      });
    }
  });

  test('is not one about a charge, whose replies may name what they like as its charge', async () => {
    const processor = await answering(200, JSON.stringify({ ...SUCCEEDED, charge: OTHER }));
    expect(await processor.lookUp(PAYMENT, MONEY)).toMatchObject({ state: 'succeeded' });
    expect(processor.alarms).toEqual([]);
  });
});

describe('a request for a refund', () => {
  test('is one POST under the key of the refund, with its payment and its money', async () => {
    const processor = await answering(200, JSON.stringify(SUCCEEDED));
    await processor.refund({ ...REFUND, chargeId: 'pi_1', reason: 'a shoe came back' });
    await processor.refund(REFUND);
    const about = { transactionId: TRANSACTION_ID, ...MONEY };
    expect(processor.received).toMatchObject([
      {
        method: 'POST',
        url: '/refunds',
        headers: { 'idempotency-key': KEY, 'content-type': 'application/json', 'idempay-contract': '3' },
        body: JSON.stringify({ charge: PAYMENT, id: 'pi_1', ...about, reason: 'a shoe came back' }),
      },
      { url: '/refunds', body: JSON.stringify({ charge: PAYMENT, ...about }) },
    ]);
  });

  test('to look it up names its payment, and the refund if its name is known', async () => {
    const processor = await answering(404, '{"error":"none"}');
    await processor.lookUpRefund(KEY, PAYMENT, MONEY);
    await processor.lookUpRefund(KEY, PAYMENT, MONEY, {});
    await processor.lookUpRefund('a/b', 'c&d', MONEY, { id: 're_1&x=/?' });
    const path = `/refunds/${KEY}?charge=${PAYMENT}`;
    expect(processor.received.map(({ method, url }) => `${method} ${url}`)).toEqual([
      `GET ${path}`,
      `GET ${path}`,
      'GET /refunds/a%2Fb?charge=c%26d&id=re_1%26x%3D%2F%3F',
    ]);
    expect(processor.received[0]?.headers).not.toHaveProperty('idempotency-key');
  });

  test('that certainly never left is not sent', async () => {
    const server = await startHttpServer(() => {});
    const processor = processorAt({ port: server.port, protocol: 'https:' }, 2_000);
    expect(await processor.refund(REFUND)).toMatchObject({ state: 'not sent' });
    expect(await processor.lookUpRefund(KEY, PAYMENT, MONEY)).toMatchObject({ state: 'unknown' });
  });

  test('whose reply is lost or cut is unknown', async () => {
    const head = 'HTTP/1.1 200 OK\r\nidempay-contract: 3\r\ncontent-length: 22\r\n\r\n';
    for (const reply of ['', head, `${head}{"status":"succeeded"`]) {
      const server = await startByteServer((socket) => (reply === '' ? socket.destroy() : socket.end(reply)));
      const processor = processorAt(server);
      expect(await processor.refund(REFUND)).toMatchObject({ state: 'unknown' });
      expect(await processor.lookUpRefund(KEY, PAYMENT, MONEY)).toMatchObject({ state: 'unknown' });
      expect([processor.isDown, processor.contract]).toEqual([true, 0]);
    }
  });
});

test('a refund tells as a charge does which contract the processor has, and that it moves no money', async () => {
  const processor = await answering(404, '{}', { 'idempay-contract': '2', 'Moves-Money': 'no' });
  await processor.refund(REFUND);
  expect([processor.contract, processor.movesMoney]).toEqual([2, false]);
  processor.answer.headers = { 'idempay-contract': '4' };
  await processor.lookUpRefund(KEY, PAYMENT, MONEY);
  expect([processor.contract, processor.movesMoney]).toEqual([4, true]);
});
