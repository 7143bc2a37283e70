import { beforeAll, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, givenPaid, UNKNOWN_KEY, untilPaid } from '../../testkit/client/payment-answers.js';
import {
  expectHeadAsGet,
  JSON_UTF8,
  listPayments,
  readPayment,
  type ShownPayment,
  shownPaymentOf,
} from '../../testkit/client/payment-records.js';
import { alongside, inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { untilPast } from '../../testkit/time/until-past.js';

const DEFAULT_LIMIT = 50;
const DAY_MS = 86_400_000;
const WIDTH = 8;

const BAD_VALUES = {
  state: ['PENDING', 'FAILED', 'COMPLETED,DECLINED', '%27'],
  from: ['yesterday', '2026-02-30', '2026-11-20T13:00:00', '1795170621886'],
  to: ['2026-13-01', '2026-04-31T12:00:00%2B02:00', '2026-11-20T25:00:00Z'],
  limit: ['0', '501', '-1', '1.5', 'all'],
  cursor: ['abc', `${UNKNOWN_KEY}0`, '%00'],
};

describeDeployments('GET /api/payments with payments in every state', (deployment) => {
  const shared = shareProcessedService(deployment);
  /** Three keys for each state, generated in turn. */
  const [paid, declined, unclear]: [string[], string[], string[]] = [[], [], []];

  beforeAll(async () => {
    const { url, processor } = shared();
    for (let count = 0; count < 3; count += 1) {
      for (const keys of [paid, declined, unclear]) keys.push(await generateKey(url));
    }
    for (const key of paid) expectFirst(await pay(url, key));
    await processor.behave({ declineRate: 1 });
    for (const key of declined) expectError(await pay(url, key), 402);
    await processor.behave({ declineRate: 0, refuseWith: 503 });
    for (const key of unclear) expectError(await pay(url, key), 504);
  });

  it('lists them, the newest key first, each as it is shown by itself, and no key that has not paid', async () => {
    const { url } = shared();
    expect((await readPayment(url, await generateKey(url))).status).toBe(200);
    const { payments, next } = await listPayments(url);
    expect(next).toBeUndefined();
    expect(keysOf(payments)).toEqual([...paid, ...declined, ...unclear].sort().reverse());
    for (const payment of payments) {
      if (payment.state !== 'PROCESSING') expect(payment).toEqual(await shownPaymentOf(url, payment.idempotencyKey));
    }
  });

  it.each([
    ['COMPLETED', paid],
    ['DECLINED', declined],
    ['PROCESSING', unclear],
  ])('lists those that are %s, written in any case', async (state, keys) => {
    for (const written of [state, state.toLowerCase(), `${state[0]}${state.slice(1).toLowerCase()}`]) {
      const { payments } = await listPayments(shared().url, `?state=${written}`);
      expect(keysOf(payments), written).toEqual([...keys].sort().reverse());
      expect(payments.every((payment) => payment.state === state)).toBe(true);
    }
  });

  it('follows a payment from one state to the other', async () => {
    const { url, processor } = shared();
    await processor.behave({ refuseWith: null });
    const [key] = unclear as [string];
    await untilPaid(url, key);
    expect(keysOf((await listPayments(url, '?state=PROCESSING')).payments)).not.toContain(key);
    expect(keysOf((await listPayments(url, '?state=COMPLETED')).payments)).toContain(key);
  });
});

describeDeployments('GET /api/payments with payments that were completed one by one', (deployment) => {
  const shared = shareService(deployment);
  /** Oldest first. */
  let all: ShownPayment[];
  let newestFirst: ShownPayment[];

  beforeAll(async () => {
    expect(await listPayments(shared.url), 'the list of a new service').toEqual({ payments: [], next: undefined });
    const keys: string[] = [];
    for (let count = 0; count < DEFAULT_LIMIT + 10; count += 1) {
      keys.push(await generateKey(shared.url));
      // So that each has a millisecond of its own.
      await untilPast(1);
    }
    // In another order than the keys': what counts is when the key was generated.
    await inParallel(keys.length, WIDTH, async (index) => {
      expectFirst(await pay(shared.url, keys.at(-1 - index) as string));
    });
    all = await Promise.all(keys.map((key) => shownPaymentOf(shared.url, key)));
    newestFirst = [...all].reverse();
  });

  it.each(['', '?', '?state=&from=&to=&limit=&cursor='])(
    'lists 50 of them, and links to the others: %j',
    async (query) => {
      const { payments, next } = await listPayments(shared.url, query);
      expect(payments).toEqual(newestFirst.slice(0, DEFAULT_LIMIT));
      const rest = await listPayments(shared.url, next);
      expect(rest).toEqual({ payments: newestFirst.slice(DEFAULT_LIMIT), next: undefined });
    },
  );

  it.each([1, 7, 30, 60, 500])('pages through them by %i', async (limit) => {
    const pages = await pagesFrom(shared.url, `?limit=${limit}`);
    expect(pages.flat()).toEqual(newestFirst);
    expect(pages.map(({ length }) => length)).toEqual(
      Array.from({ length: Math.ceil(all.length / limit) }, (_, page) => Math.min(limit, all.length - page * limit)),
    );
  });

  it('lists those whose key was generated at or after a moment, and before another', async () => {
    const [first, third, fifth] = [all[0], all[2], all[4]].map((payment) => payment?.createdAt);
    const keys = keysOf(all);
    for (const [query, expected] of [
      [`from=${first}&to=${third}`, [keys[1], keys[0]]],
      [`to=${third}`, [keys[1], keys[0]]],
      [`from=${third}&to=${fifth}&limit=1`, [keys[3]]],
      [`from=${third}&limit=500`, keys.slice(2).reverse()],
      [`from=${third}&to=${third}`, []],
      [`from=${fifth}&to=${first}`, []],
    ] as const) {
      expect(keysOf((await listPayments(shared.url, `?${query}`)).payments), query).toEqual(expected);
    }
  });

  it('reads a moment with an offset, also where its plus sign is not escaped', async () => {
    const { createdAt } = all[2] as ShownPayment;
    const inDelhi = `${new Date(Date.parse(createdAt) + 5.5 * 3_600_000).toISOString().slice(0, -1)}+05:30`;
    const expected = await listPayments(shared.url, `?to=${createdAt}`);
    for (const written of [inDelhi, inDelhi.replace('+', '%20'), inDelhi.replace('+', '%2B'), inDelhi.toLowerCase()]) {
      expect(await listPayments(shared.url, `?to=${written}`), written).toEqual(expected);
    }
  });

  it('reads a day as its beginning in UTC', async () => {
    const midnight = Date.parse(`${newestFirst[0]?.createdAt.slice(0, 10)}T00:00:00Z`);
    const [today, tomorrow] = [midnight, midnight + DAY_MS].map((ms) => new Date(ms).toISOString().slice(0, 10));
    const isOfToday = ({ createdAt }: ShownPayment) => Date.parse(createdAt) >= midnight;
    const listed = async (query: string) => (await listPayments(shared.url, `?limit=500&${query}`)).payments;
    expect(await listed(`from=${today}`)).toEqual(newestFirst.filter(isOfToday));
    expect(await listed(`to=${today}`)).toEqual(newestFirst.filter((payment) => !isOfToday(payment)));
    expect(await listed(`to=${tomorrow}`)).toEqual(newestFirst);
    expect(await listed(`from=${tomorrow}`)).toEqual([]);
  });

  it('keeps the selection through the pages', async () => {
    const { createdAt } = all[2] as ShownPayment;
    const withOffset = createdAt.replace('Z', '+00:00');
    for (const from of [createdAt, withOffset, encodeURIComponent(withOffset)]) {
      const pages = await pagesFrom(shared.url, `?state=completed&from=${from}&limit=9`);
      expect(pages.flat()).toEqual(all.slice(2).reverse());
    }
  });

  it('has no next page after the last payment, also where that fills its page', async () => {
    const { payments, next } = await listPayments(shared.url, `?limit=${all.length}`);
    expect(payments).toHaveLength(all.length);
    expect(next).toBeUndefined();
  });

  it('answers HEAD as GET, and does not look at If-None-Match', async () => {
    await expectHeadAsGet(`${shared.url}/api/payments`, ['content-type', 'cache-control', 'link']);
    const answer = await ask(`${shared.url}/api/payments?limit=1`, { headers: { 'If-None-Match': '*' } });
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe(JSON_UTF8);
  });

  /** Bug: `?status=PROCESSING` listed all payments. Cause: what was not known was ignored. Fix: it is refused. */
  it.each(['status', 'State', 'page', 'processor', '__proto__', 'state%20'])(
    'refuses the parameter %s, which it does not know, and names it and those that it knows',
    async (name) => {
      const message = `'${decodeURIComponent(name)}' is no query parameter of this path. Use state, from, to, limit, cursor.`;
      expectError(await ask(`${shared.url}/api/payments?limit=1&${name}=x&${name}=y`), 400, message);
    },
  );

  it.each(Object.entries(BAD_VALUES))('refuses a wrong %s: %j', async (name, values) => {
    for (const value of values) {
      expectError(await ask(`${shared.url}/api/payments?${name}=${value}`), 400, new RegExp(`^'${name}' must `));
    }
  });

  it.each(['state=COMPLETED', 'from=2026-11-20', 'to=2026-11-20', 'limit=5', `cursor=${UNKNOWN_KEY}`])(
    'refuses a parameter that is given twice: %s',
    async (parameter) => {
      const answer = await ask(`${shared.url}/api/payments?${parameter}&${parameter}`);
      expectError(answer, 400, new RegExp(`'${parameter.split('=')[0]}' .*single text`));
    },
  );

  /** Last, for it adds payments of its own. */
  it('pages through them without gap or repetition while others are made', async () => {
    const made: string[] = [];
    await alongside(
      2,
      async () => {
        made.push((await givenPaid(shared.url)).key);
      },
      async () => {
        for (let round = 0; round < 3; round += 1) {
          const before = [...made];
          const keys = keysOf((await pagesFrom(shared.url, '?limit=5')).flat());
          expect(keys).toEqual([...new Set(keys)].sort().reverse());
          expect(keys).toEqual(expect.arrayContaining([...keysOf(all), ...before]));
        }
      },
    );
    expect(made.length).toBeGreaterThan(0);
  });
});

/** All pages, followed as the `Link` header says, word for word. */
async function pagesFrom(url: string, query: string): Promise<(readonly ShownPayment[])[]> {
  const pages: (readonly ShownPayment[])[] = [];
  for (let target: string | undefined = query; target !== undefined; ) {
    const { payments, next } = await listPayments(url, target);
    pages.push(payments);
    target = next;
  }
  return pages;
}

function keysOf(payments: readonly ShownPayment[]): string[] {
  return payments.map(({ idempotencyKey }) => idempotencyKey);
}
