import { describe, expect, test } from 'vitest';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { processorAt, startHttpServer } from '../../testkit/servers/processor-servers.js';

/** Contract 3 of `docs/reference/processor.md`: charges that are pending, and their ending (rules P24 and P25). */

const KEY = '0193a5b4-7c1e-7000-8000-000000000001';
const MONEY = { amount: '100.50', currency: 'USD' };
const CHARGE = { key: KEY, transactionId: 'TXN1795170621886000522918', ...MONEY };
const UNTIL = '2026-11-29T15:00:00Z';
const UNTIL_MS = Date.UTC(2026, 10, 29, 15);
const THIRD = { 'idempay-contract': '3' };

type Headers = Record<string, string>;
type Members = Record<string, unknown>;

/** A processor that answers every request alike. */
async function answering(status: number, members: Members, headers: Headers = THIRD) {
  const server = await startHttpServer((response) => response.writeHead(status, headers).end(JSON.stringify(members)));
  return Object.assign(processorAt(server), { received: server.received });
}

const CALLS = {
  'a charge': (processor: ProcessorClient) => processor.charge(CHARGE),
  'a look-up': (processor: ProcessorClient) => processor.lookUp(KEY, MONEY),
  'a look-up of an open payment': (processor: ProcessorClient) => processor.lookUp(KEY, MONEY, { id: 'pi_1' }),
  'an ending': (processor: ProcessorClient) => processor.end({ ...CHARGE, id: 'pi_1' }, MONEY),
};
type Call = keyof typeof CALLS;

/** The result of a call for one reply, and the alarms that it raises. */
async function resultOf(call: Call, status: number, members: Members, headers: Headers = THIRD) {
  const processor = await answering(status, members, headers);
  return { result: await CALLS[call](processor), alarms: processor.alarms };
}

const PENDING = { status: 'pending', until: UNTIL };
const SUCCEEDED = { status: 'succeeded' };
const DECLINED = { status: 'declined', reason: 'no cover' };

/** Every reply of the contract with the header of contract 3, and without it. */
const REPLIES: readonly (readonly [call: Call, status: number, body: Members, named: string, nameless: string])[] = [
  ['a charge', 200, SUCCEEDED, 'succeeded', 'succeeded'],
  ['a charge', 202, SUCCEEDED, 'succeeded', 'succeeded'],
  ['a charge', 402, DECLINED, 'declined', 'declined'],
  ['a charge', 202, PENDING, 'pending', 'unknown'],
  ['a charge', 200, PENDING, 'unknown', 'unknown'],
  ['a charge', 402, PENDING, 'unknown', 'unknown'],
  ['a charge', 202, { status: 'processing' }, 'unknown', 'unknown'],
  ['a look-up', 200, SUCCEEDED, 'succeeded', 'succeeded'],
  ['a look-up', 200, DECLINED, 'declined', 'declined'],
  ['a look-up', 404, { error: 'none' }, 'no record', 'no record'],
  ['a look-up', 200, PENDING, 'pending', 'unknown'],
  ['a look-up', 202, PENDING, 'unknown', 'unknown'],
  ['a look-up of an open payment', 200, SUCCEEDED, 'succeeded', 'unknown'],
  ['a look-up of an open payment', 200, DECLINED, 'declined', 'unknown'],
  ['a look-up of an open payment', 200, PENDING, 'pending', 'unknown'],
  ['a look-up of an open payment', 404, { error: 'none' }, 'no record', 'unknown'],
  ['a look-up of an open payment', 425, {}, 'unknown', 'unknown'],
  ['an ending', 200, SUCCEEDED, 'succeeded', 'other contract'],
  ['an ending', 200, DECLINED, 'declined', 'other contract'],
  ['an ending', 201, DECLINED, 'unknown', 'other contract'],
  ['an ending', 402, DECLINED, 'unknown', 'other contract'],
  ['an ending', 200, PENDING, 'unknown', 'other contract'],
  ['an ending', 202, PENDING, 'unknown', 'other contract'],
  ['an ending', 404, { error: 'none' }, 'unknown', 'other contract'],
  ['an ending', 405, {}, 'unknown', 'other contract'],
  ['an ending', 409, {}, 'cannot be ended', 'other contract'],
  ['an ending', 425, {}, 'unknown', 'other contract'],
  ['an ending', 501, {}, 'unknown', 'other contract'],
  // A gateway may say so before an adapter that knows endings.
  ['an ending', 401, {}, 'unknown', 'unknown'],
  ['an ending', 429, {}, 'unknown', 'unknown'],
  ['an ending', 503, {}, 'unknown', 'unknown'],
];

describe('a reply under contract 3', () => {
  test.each(REPLIES)('to %s, %i %j, is %s, and %s without its header', async (call, status, body, named, nameless) => {
    expect((await resultOf(call, status, body)).result.state).toBe(named);
    for (const headers of [{}, { 'idempay-contract': '2' }, { 'idempay-contract': '3, 1' }] as Headers[]) {
      expect((await resultOf(call, status, body, headers)).result.state).toBe(nameless);
    }
  });

  test.each<[string, string | undefined]>([
    ['3', 'pending'],
    [' 3 ', 'pending'],
    ['12', 'pending'],
    ['3, 3', 'pending'],
    ['3, 2', 'unknown'],
    ['3, x', 'unknown'],
    ['3.5', 'unknown'],
    ['-3', 'unknown'],
    ['0x3', 'unknown'],
    ['v3', 'unknown'],
    ['', 'unknown'],
  ])('names the contract by the header %j: %s', async (contract, state) => {
    expect((await resultOf('a charge', 202, PENDING, { 'idempay-contract': contract })).result.state).toBe(state);
  });

  test('says why it does not count for a payment that is open, without an alarm', async () => {
    const cause = expect.stringMatching(
      /answered 200 to a look-up without Idempay-Contract: 3, which counts for nothing/,
    );
    expect(await resultOf('a look-up of an open payment', 200, SUCCEEDED, {})).toEqual({
      result: { state: 'unknown', cause },
      alarms: [],
    });
    const ended = expect.stringMatching(/answered 404 to an ending without Idempay-Contract: 3/);
    expect(await resultOf('an ending', 404, {}, {})).toEqual({
      result: { state: 'other contract', cause: ended },
      alarms: [],
    });
  });

  test.each<[number, Headers]>([
    [404, THIRD],
    [400, THIRD],
    [422, THIRD],
    [401, THIRD],
    [401, {}],
    [403, {}],
  ])('that refuses an ending with %i and the headers %j raises an alarm', async (status, headers) => {
    expect((await resultOf('an ending', status, {}, headers)).alarms).toEqual([expect.stringContaining('look at')]);
  });

  test('that names another charge is no end', async () => {
    const other = { ...DECLINED, reference: '0193a5b4-7c1e-7000-8000-000000000002' };
    for (const members of [other, { ...SUCCEEDED, amount: '7.00', currency: 'USD' }]) {
      const { result, alarms } = await resultOf('an ending', 200, members);
      expect(result).toMatchObject({ state: 'unknown', cause: expect.stringContaining('names another charge') });
      expect(alarms).toHaveLength(1);
    }
    // After rows were lost, the ending may be of the charge of another transaction.
    const earlier = { ...DECLINED, transactionId: 'TXN1795170621886000522919' };
    expect((await resultOf('an ending', 200, earlier)).result.state).toBe('declined');
  });

  test('to a look-up that says pending gives the amount that it names', async () => {
    for (const call of ['a look-up', 'a look-up of an open payment'] as const) {
      expect((await resultOf(call, 200, { ...PENDING, ...MONEY })).result).toMatchObject({ charged: MONEY });
      expect((await resultOf(call, 200, PENDING)).result).toMatchObject({ state: 'pending', charged: undefined });
    }
  });

  test('that says reversed is no outcome, and raises an alarm', async () => {
    for (const call of ['a look-up', 'a look-up of an open payment', 'an ending'] as const) {
      const { result, alarms } = await resultOf(call, 200, { status: 'reversed', reason: 'returned' });
      expect(result).toMatchObject({ state: 'unknown', cause: expect.stringContaining('was reversed') });
      expect(alarms).toEqual([expect.stringContaining('look at the charge at the processor')]);
    }
    expect((await resultOf('a look-up', 200, { status: 'reversed', reason: 'returned' }, {})).alarms).toEqual([]);
  });
});

describe('the end of a pending charge', () => {
  const untilOf = async (until: unknown) => {
    const { result, alarms } = await resultOf('a charge', 202, { ...PENDING, until });
    return { untilMs: 'untilMs' in result ? result.untilMs : result, alarms };
  };

  test.each<[string, number]>([
    [UNTIL, UNTIL_MS],
    ['2026-11-29t15:00:00z', UNTIL_MS],
    ['2026-11-29T16:30:00+01:30', UNTIL_MS],
    ['2026-11-29T15:00:00.123456789Z', UNTIL_MS + 123],
    ['2026-11-29T15:00:00-00:00', UNTIL_MS],
    ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
    ['9999-12-31T23:59:59.999Z', Date.UTC(9999, 11, 31, 23, 59, 59, 999)],
    ['0000-01-01T00:00:00Z', Date.parse('0000-01-01T00:00:00Z')],
  ])('is read from %s', async (until, untilMs) => {
    expect(await untilOf(until)).toEqual({ untilMs, alarms: [] });
  });

  test.each([
    undefined,
    null,
    '',
    1_795_964_400,
    '1795964400',
    '2026-11-29',
    '2026-11-29T15:00:00',
    '2026-11-29 15:00:00Z',
    '2026-11-29T15:00Z',
    '2026-02-30T00:00:00Z',
    '2025-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-11-29T24:00:00Z',
    '2026-11-29T15:00:60Z',
    '2026-11-29T15:00:00+24:00',
    // The year would be 10000 in our answers, and -1, which no RFC 3339 text can say.
    '9999-12-31T23:59:59-00:01',
    '0000-01-01T00:00:00+00:01',
    '-000001-12-31T23:59:59Z',
    '+010000-01-01T00:00:00Z',
    'Sun, 29 Nov 2026 15:00:00 GMT',
    'P1D',
    [UNTIL],
  ])('is not known from %j: the charge is unknown, with an alarm', async (until) => {
    const { untilMs, alarms } = await untilOf(until);
    expect(untilMs).toMatchObject({ state: 'unknown', cause: expect.stringContaining('its until is no time') });
    expect(alarms).toEqual([expect.stringMatching(/its until is no time .*: look at the adapter/)]);
  });
});

describe('the action of a pending charge', () => {
  const withAction = (action: unknown, call: Call = 'a charge') =>
    resultOf(call, call === 'a charge' ? 202 : 200, { ...PENDING, action });
  const texts = (count: number, length: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`m${index}`, 'x'.repeat(length)]));

  test.each<[string, Members]>([
    ['nothing', {}],
    ['a page', { url: 'https://bank.example/confirm?x=1#y' }],
    ['a page on this machine', { url: 'http://127.0.0.1:8090/pages/1' }],
    ['a page on another name of this machine', { url: 'http://shop.localhost/' }],
    ['a value for the page', { clientSecret: 'pi_1_secret_2', type: 'use_stripe_sdk' }],
    ['an empty text', { url: 'https://bank.example', hint: '' }],
    ['as many members as may be', texts(20, 700)],
    ['a text as long as may be', { token: 'x'.repeat(8_000) }],
    ['a text as long as may be, beyond the BMP', { token: '\u{1f45f}'.repeat(4_000) }],
    ['a name as long as may be', { ['n'.repeat(100)]: '1' }],
    ['a name that objects have', JSON.parse('{"__proto__":"x","constructor":"y"}')],
  ])('is passed on with %s', async (_, action) => {
    for (const call of ['a charge', 'a look-up', 'a look-up of an open payment'] as const) {
      const { result, alarms } = await withAction(action, call);
      expect(JSON.stringify('action' in result && result.action)).toBe(JSON.stringify(action));
      expect(alarms).toEqual([]);
    }
  });

  const SECRET = 'not-in-a-log';
  test.each<[string, unknown]>([
    ['is null', null],
    ['is a text', `https://bank.example/${SECRET}`],
    ['is a list', [SECRET]],
    ['has a number', { url: 'https://bank.example', SECRET, amount: 1 }],
    ['has an object', { redirect: { url: SECRET } }],
    ['has null', { url: null, SECRET }],
    ['has an empty name', { '': SECRET }],
    ['has a name that is too long', { [SECRET.padEnd(101, 'x')]: '1' }],
    ['has a text that is too long', { token: SECRET.padEnd(8_001, 'x') }],
    ['has too many members', { ...texts(20, 1), SECRET }],
    ['is too long', { ...texts(3, 5_500), SECRET }],
    ['is too long in bytes', { SECRET, token: '\u{1f45f}'.repeat(4_200) }],
    ['leads to http', { url: `http://bank.example/${SECRET}` }],
    ['leads to another scheme', { url: `javascript:alert('${SECRET}')` }],
    ['leads to an app', { url: `bank://${SECRET}` }],
    ['leads to a path', { url: `/${SECRET}` }],
    ['leads nowhere', { url: '' }],
    ['leads to a name that only begins as one of this machine', { url: `http://localhost.example/${SECRET}` }],
  ])('that %s is unknown, with an alarm that does not quote it', async (_, action) => {
    for (const call of ['a charge', 'a look-up of an open payment'] as const) {
      const { result, alarms } = await withAction(action, call);
      expect(result).toMatchObject({ state: 'unknown', cause: expect.stringMatching(/is pending, but its action /) });
      expect(alarms).toEqual([expect.stringMatching(/its action .*: look at the adapter/)]);
      expect(JSON.stringify([result, alarms])).not.toContain(SECRET);
    }
  });
});

describe("the processor's own name of a charge", () => {
  const idOf = async (id: unknown, body: Members, call: Call, status: number, headers = THIRD as Headers) => {
    const { result, alarms } = await resultOf(call, status, { ...body, id }, headers);
    expect(alarms).toEqual([]);
    return 'id' in result ? result.id : undefined;
  };
  const REPLIES_WITH_ID = [
    ['a charge', 200, SUCCEEDED],
    ['a charge', 402, DECLINED],
    ['a charge', 202, PENDING],
    ['a look-up', 200, SUCCEEDED],
    ['a look-up of an open payment', 200, DECLINED],
    ['a look-up of an open payment', 200, PENDING],
    ['an ending', 200, SUCCEEDED],
    ['an ending', 200, DECLINED],
  ] as const;

  test.each(REPLIES_WITH_ID)('is read from the reply to %s, %i %j', async (call, status, body) => {
    for (const id of ['pi_3Nx', '!', '~'.repeat(255)]) expect(await idOf(id, body, call, status)).toBe(id);
    for (const id of [7, null, '', 'pi 3', 'pi_\u00e9', 'pi\n', '~'.repeat(256), ['pi_1'], {}]) {
      expect(await idOf(id, body, call, status)).toBeUndefined();
    }
  });

  test('is also read from adapters of earlier contracts, whose replies had it', async () => {
    expect(await idOf('ch_1', SUCCEEDED, 'a charge', 200, {})).toBe('ch_1');
  });
});

describe('a request under contract 3', () => {
  test('to charge has the address to which the payer comes back', async () => {
    const processor = await answering(202, PENDING);
    await processor.charge({ ...CHARGE, content: { source: 'tok_1', returnUrl: 'https://shop.example/back?o=1' } });
    await processor.charge(CHARGE);
    const [first = '', second = ''] = processor.received.map(({ body }) => body);
    expect(JSON.parse(first)).toMatchObject({ source: 'tok_1', returnUrl: 'https://shop.example/back?o=1' });
    expect(JSON.parse(second)).not.toHaveProperty('returnUrl');
    expect(processor.received.map(({ headers }) => headers['idempay-contract'])).toEqual(['3', '3']);
  });

  test('to look up names the charge if the payment is open and its name is known', async () => {
    const processor = await answering(200, PENDING);
    await processor.lookUp(KEY, MONEY);
    await processor.lookUp(KEY, MONEY, {});
    await processor.lookUp(KEY, MONEY, { id: 'pi_1&x=/?' });
    const path = `/charges/${KEY}`;
    expect(processor.received.map(({ url }) => url)).toEqual([path, path, `${path}?id=pi_1%26x%3D%2F%3F`]);
  });

  test('to end names the payment, and the charge if its name is known', async () => {
    const processor = await answering(200, DECLINED);
    await processor.end({ ...CHARGE, id: 'pi_1' });
    await processor.end({ ...CHARGE, key: 'a/b' });
    const about = { transactionId: CHARGE.transactionId, ...MONEY };
    expect(processor.received).toMatchObject([
      { method: 'POST', url: `/charges/${KEY}/ending`, body: JSON.stringify({ ...about, id: 'pi_1' }) },
      { method: 'POST', url: '/charges/a%2Fb/ending', body: JSON.stringify(about) },
    ]);
    expect(processor.received[0]?.headers).toMatchObject({
      'content-type': 'application/json',
      'idempay-contract': '3',
    });
  });

  test('that ends and gets no whole reply is unknown', async () => {
    const processor = processorAt(await startHttpServer((response) => response.destroy()));
    expect(await processor.end(CHARGE)).toMatchObject({ state: 'unknown' });
    expect([processor.isDown, processor.contract]).toEqual([true, 0]);
  });
});

test('a processor has the contract that its last whole reply named', async () => {
  const contracts: (string | undefined)[] = ['2', '3', undefined, '3', 'x', '7', 'cut'];
  const server = await startHttpServer((response) => {
    const contract = contracts.shift();
    if (contract === 'cut') return response.destroy();
    return response.writeHead(404, contract === undefined ? {} : { 'idempay-contract': contract }).end('{}');
  });
  const processor = processorAt(server);
  const seen = [processor.contract];
  while (contracts.length > 0) {
    await processor.lookUp(KEY);
    seen.push(processor.contract);
  }
  expect(seen).toEqual([0, 2, 3, 0, 3, 0, 7, 7]);
});
