import {
  ConflictError,
  InvalidRequestError,
  MismatchError,
  NotFoundError,
  type Transaction,
  UnavailableError,
  UnexpectedAnswerError,
  UnknownChangeError,
} from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import {
  allOf,
  failureOf,
  json,
  KEY,
  NOTHING_PAID,
  page,
  refusal,
  refused,
  reset,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const ID = 100000000000001;
const WANTED = { fromAccount: 'alice', toAccount: 'bob', amount: '12.34' };
const row = (transactionId: number, more: object = {}) => ({
  ...{ transactionId, ...WANTED, amount: 12.34, status: 'PENDING', createdAt: 'now' },
  ...more,
});
const transaction = (status = 'PENDING', tag = `"${status}"`, code = 200, more = {}) =>
  json(row(ID, { status }), code, { etag: tag, ...more });
const created = (more = {}) => transaction('PENDING', '"PENDING"', 201, more);
const NOTHING_CHANGED = 'The transaction cannot be created at the moment; nothing was changed. Retry in a few seconds.';
const half = (text: string, status = 200) =>
  new Response(text, { status, headers: { 'content-type': 'application/json' } });
/** As the service answers a conditional read of what is unchanged. */
const unchanged = (etag: string) => new Response(null, { status: 304, headers: { etag, idempay: '1' } });
const removed = () => new Response(null, { status: 204, headers: { idempay: '1' } });
const gone = () => refusal(404, `Transaction not found for id: ${ID}`);

describe('create', () => {
  test.each<[string, () => Step]>([
    ['a lost connection', reset],
    ['500', () => refusal(500)],
    ['400 of a gateway', () => page(400)],
    ['401 of a gateway', () => json({ status: 401, error: 'Unauthorized', message: 'No.' }, 401)],
    ['a redirect', () => page(307, { location: 'https://other' })],
    ['200', () => transaction()],
    ['201 of another transaction', () => json({ transactionId: 1 }, 201)],
    ['503 of unknown effect', () => refusal(503, 'It is not known whether the transaction was created.')],
    ['503 of a proxy', () => page(503, { 'retry-after': '1' })],
    ['half of a 201', () => half('{"transactionId":1000', 201)],
    ['no answer in time', () => 'never'],
  ])('without a key is not sent again after %s', async (_, step) => {
    const { idempay, sent } = scripted([step()]);
    const error = await failureOf(UnknownChangeError, idempay.transactions.create(WANTED));
    expect(error.idempotencyKey).toBeUndefined();
    expect(sent).toHaveLength(1);
  });

  test('without a key is sent again where nothing was done', async () => {
    const nothing = refusal(503, NOTHING_CHANGED, { 'retry-after': '2' });
    const { idempay, sent } = scripted([refused(), refusal(429), nothing, created()]);
    const result = await idempay.transactions.create(WANTED);
    expect(result).toMatchObject({ transaction: { transactionId: ID }, replayed: false });
    expect(sent).toHaveLength(4);
  });

  test('with a key is sent again, and its error has the key', async () => {
    const replay = created({ 'idempotent-replayed': 'true' });
    const { idempay, sent } = scripted([reset(), refusal(503), refusal(500), replay]);
    const result = await idempay.transactions.create(WANTED, { idempotencyKey: 'order-7' });
    expect(result.replayed).toBe(true);
    expect(sent.map(({ headers }) => headers.get('idempotency-key'))).toEqual(Array(4).fill('order-7'));
    const { idempay: other } = scripted(Array.from({ length: 60 }, reset));
    const late = other.transactions.create(WANTED, { idempotencyKey: 'order-7', deadlineMs: 9_000 });
    expect(await failureOf(UnknownChangeError, late)).toMatchObject({ idempotencyKey: 'order-7' });
  });

  test('with a key is not sent again once the service may have forgotten the key', async () => {
    const { idempay, sent, clock } = scripted(Array.from({ length: 60 }, reset), { keyLifeMs: 3_000 });
    const endsAt = clock.now() + 3_000;
    const creating = idempay.transactions.create(WANTED, { idempotencyKey: 'order-7', deadlineMs: 60_000 });
    expect((await failureOf(UnknownChangeError, creating)).message).toContain('may forget the key');
    expect(sent.length).toBeGreaterThan(1);
    expect(Math.max(...sent.map(({ atMs }) => atMs))).toBeLessThan(endsAt);
  });

  test('with a key of something else is a mismatch; a key that is none is not sent', async () => {
    const { idempay } = scripted([refusal(422, publicErrors.creationMismatch().message)]);
    const error = await failureOf(MismatchError, idempay.transactions.create(WANTED, { idempotencyKey: 'order-7' }));
    expect(error.key).toBe('order-7');
    for (const idempotencyKey of ['', 'a b', 'é', 'x'.repeat(65)]) {
      await failureOf(InvalidRequestError, scripted([]).idempay.transactions.create(WANTED, { idempotencyKey }));
    }
  });

  // The bug: a caller in JavaScript whose order has no key yet passed null, and all such creates shared the key "null". The cause: values were
  // made text by the test of their form. The fix: what is no text is refused, as tags and credentials are.
  test.each([null, 7, {}])('with %j in place of a key or a tag is refused', async (value) => {
    const { transactions } = scripted([]).idempay;
    const given = value as never;
    await failureOf(InvalidRequestError, transactions.create(WANTED, { idempotencyKey: given }));
    await failureOf(InvalidRequestError, transactions.createBatch([WANTED], { idempotencyKey: given }));
    await failureOf(InvalidRequestError, transactions.changeStatus(ID, 'FLAGGED', { ifMatch: given }));
    await failureOf(InvalidRequestError, transactions.remove(ID, { ifMatch: given }));
  });

  test('of a batch gives all of them', async () => {
    const { idempay, sent } = scripted([json({ transactions: [row(ID)] }, 201)]);
    const result = await idempay.transactions.createBatch([WANTED], { idempotencyKey: 'file-1' });
    expect(result).toEqual({ transactions: [row(ID)], replayed: false });
    expect([sent[0]?.path, sent[0]?.body]).toEqual([
      '/api/transactions/batch',
      JSON.stringify({ transactions: [WANTED] }),
    ]);
  });
});

describe('a read by id', () => {
  test('is conditional from the second time on, and never older than the service', async () => {
    const { idempay, sent } = scripted([transaction(), unchanged('"PENDING"'), transaction('FLAGGED')]);
    const first = await idempay.transactions.get(ID);
    const second = await idempay.transactions.get(ID);
    const third = await idempay.transactions.get(ID);
    expect([second === first, third.status]).toEqual([true, 'FLAGGED']);
    expect(sent.map(({ headers }) => headers.get('if-none-match'))).toEqual([null, '"PENDING"', '"PENDING"']);
    expect(() => Object.assign(first, { status: 'FAILED' })).toThrow(TypeError);
  });

  test('forgets what is gone, and the least recently used beyond its bound', async () => {
    const steps = [transaction(), gone(), transaction(), json(row(2), 200, { etag: '"2"' }), transaction()];
    const { idempay, sent } = scripted(steps, { remembered: 1 });
    await idempay.transactions.get(ID);
    await failureOf(NotFoundError, idempay.transactions.get(ID));
    await idempay.transactions.get(ID);
    await idempay.transactions.get(2);
    await idempay.transactions.get(ID);
    const conditions = sent.map(({ headers }) => headers.get('if-none-match'));
    expect(conditions).toEqual([null, '"PENDING"', null, null, null]);
  });

  test('repeats half of an answer, and what is momentary', async () => {
    const { idempay } = scripted([half('{"transactionId":1000'), refusal(503), reset(), transaction()]);
    expect(await idempay.transactions.get(ID)).toMatchObject({ transactionId: ID });
    const never = scripted(Array.from({ length: 60 }, () => refusal(503))).idempay.transactions.get(ID);
    await failureOf(UnavailableError, never);
  });

  test('repeats what a gateway found too early, and waits as long as it was asked to, however many digits that has', async () => {
    const early = scripted([page(425), transaction()]);
    await early.idempay.transactions.get(ID);
    expect(early.sent).toHaveLength(2);
    for (const seconds of ['9999999999', '9'.repeat(400)]) {
      const { idempay, sent } = scripted([page(503, { 'retry-after': seconds }), transaction()]);
      const error = await failureOf(UnavailableError, idempay.transactions.get(ID));
      expect([sent.length, error.retryAfterSeconds]).toEqual([1, 2 ** 31]);
    }
  });
});

describe('a change of status', () => {
  test('of a transaction that was read has its tag as If-Match; of an id it has none', async () => {
    const { idempay, sent } = scripted([transaction(), transaction('FLAGGED'), transaction('ON_HOLD'), transaction()]);
    const read = await idempay.transactions.get(ID);
    const flagged = await idempay.transactions.changeStatus(read, 'FLAGGED');
    await idempay.transactions.changeStatus(flagged, 'ON_HOLD');
    await idempay.transactions.changeStatus(ID, 'PENDING');
    expect(sent.map(({ headers }) => headers.get('if-match'))).toEqual([null, '"PENDING"', '"FLAGGED"', null]);
    expect(idempay.transactions.tagOf(flagged)).toBe('"FLAGGED"');
  });

  test('of a copy, or of one from a list, is refused instead of changed without a condition', async () => {
    const list = json([row(ID)], 200, { etag: '"l"' });
    const { idempay, sent } = scripted([transaction(), list]);
    const read = await idempay.transactions.get(ID);
    await failureOf(InvalidRequestError, idempay.transactions.changeStatus({ ...read }, 'FLAGGED'));
    for await (const listed of idempay.transactions.list()) {
      await failureOf(InvalidRequestError, idempay.transactions.changeStatus(listed, 'FLAGGED'));
    }
    expect(sent).toHaveLength(2);
  });

  test('that meets another tag is a conflict; after an attempt that may have been done nobody knows whose change it was', async () => {
    const conflict = [refusal(412)];
    await failureOf(
      ConflictError,
      scripted(conflict).idempay.transactions.changeStatus(ID, 'FLAGGED', { ifMatch: '"x"' }),
    );
    const { idempay } = scripted([transaction(), reset(), refusal(412)]);
    const read = await idempay.transactions.get(ID);
    const error = await failureOf(UnknownChangeError, idempay.transactions.changeStatus(read, 'PROCESSING'));
    expect(error.cause).toBeInstanceOf(ConflictError);
  });
});

describe('a removal', () => {
  test('that finds nothing after an attempt without an answer is done; before, nothing was there', async () => {
    await scripted([reset(), gone()]).idempay.transactions.remove(ID);
    await scripted([removed()]).idempay.transactions.remove(ID);
    await failureOf(NotFoundError, scripted([gone()]).idempay.transactions.remove(ID));
  });

  test('of one that another changed is a conflict, also after an attempt without an answer', async () => {
    const { idempay } = scripted([transaction(), reset(), refusal(412)]);
    const read = await idempay.transactions.get(ID);
    await failureOf(ConflictError, idempay.transactions.remove(read));
  });
});

describe('lists', () => {
  const rows = [row(1, { fromAccount: '}],[{"\\"' }), row(2, { fromAccount: 'ünïcödé 😀' })];
  const stream = (body: string | ReadableStream) =>
    new Response(body, { headers: { 'content-type': 'application/json' } });

  test('are read as they come, wherever the pieces end', async () => {
    const bytes = new TextEncoder().encode(JSON.stringify(rows));
    for (let size = 1; size <= bytes.length; size += 1) {
      const body = new ReadableStream({
        start(stream) {
          for (let at = 0; at < bytes.length; at += size) stream.enqueue(bytes.slice(at, at + size));
          stream.close();
        },
      });
      const { idempay } = scripted([stream(body)]);
      expect(await allOf(idempay.transactions.list())).toEqual(rows);
    }
  });

  test('that break off end in an error, and not in a shorter list', async () => {
    const text = JSON.stringify(rows);
    for (const part of ['', text.slice(0, -1), text.slice(0, 30)]) {
      const { idempay } = scripted([stream(part)]);
      await failureOf(UnavailableError, allOf(idempay.transactions.list()));
    }
  });

  test('of another form end in an error, and not in another list', async () => {
    const whole = JSON.stringify(rows);
    const wrong = [
      '<html></html>',
      '[1,2,3]',
      '[[]]',
      '{}',
      '"[]"',
      'null',
      '[{}]',
      `${whole}x`,
      `${whole}[]`,
      `[${whole}]`,
    ];
    for (const text of [...wrong, whole.replace('},{', '}{'), whole.replace('},{', '},,{'), `[,${whole.slice(1)}`]) {
      const { idempay } = scripted([stream(text)]);
      await failureOf(UnexpectedAnswerError, allOf(idempay.transactions.list()));
    }
    for (const answer of [page(200), page(404), page(302), new Response('[]'), json([], 201)]) {
      await failureOf(UnexpectedAnswerError, allOf(scripted([answer]).idempay.transactions.list()));
    }
    expect(await allOf(scripted([stream(' [ ]\n')]).idempay.transactions.list())).toEqual([]);
    expect(await allOf(scripted([stream(`\n${JSON.stringify(rows, null, 2)} `)]).idempay.transactions.list())).toEqual(
      rows,
    );
  });

  test('of ids are conditional, for each filter', async () => {
    const list = json(rows, 200, { etag: '"l"' });
    const { idempay, sent } = scripted([list, unchanged('W/"l"'), json([])]);
    const first = await idempay.transactions.ids({ from: 'alice' });
    const second = await idempay.transactions.ids({ from: 'alice' });
    expect([first, second === first]).toEqual([[1, 2], true]);
    await idempay.transactions.ids();
    expect(sent.map(({ headers }) => headers.get('if-none-match'))).toEqual([null, '"l"', null]);
  });

  test('and exports can be iterated again, and are then asked anew', async () => {
    const { idempay, sent } = scripted([json(rows), json([row(3)])]);
    const list = idempay.transactions.list({ from: 'alice', to: '' });
    expect([await allOf(list), await allOf(list)]).toEqual([rows, [row(3)]]);
    expect(sent.map(({ path }) => path)).toEqual(Array(2).fill('/api/transactions?from=alice'));
    const lines = () =>
      new Response('{"end":true,"count":0}\n', { headers: { 'content-type': 'application/x-ndjson' } });
    const exporting = scripted([lines(), lines()]);
    const exported = exporting.idempay.payments.export('2026-11-25');
    expect([await allOf(exported), await allOf(exported), exporting.sent.length]).toEqual([[], [], 2]);
  });

  test('that a search finds come in pages, and can be changed by the tag that each has', async () => {
    const found = (id: number) => ({ ...row(id), etag: `"tag ${id}"` });
    const link = { link: '</api/transactions/search?status=PENDING&limit=1&cursor=2>; rel="next"' };
    const search = [json([found(2)], 200, link), json([found(1)])];
    const { idempay, sent } = scripted([...search, ...search.map((answer) => answer.clone()), transaction('FLAGGED')]);
    const list = idempay.transactions.search({ from: '', status: 'PENDING', limit: 1 });
    const [newest, oldest] = await allOf(list);
    expect([newest, oldest, await allOf(list.pages())]).toEqual([found(2), found(1), [[found(2)], [found(1)]]]);
    expect(sent.slice(0, 2).map(({ path }) => path)).toEqual([
      '/api/transactions/search?status=PENDING&limit=1',
      '/api/transactions/search?status=PENDING&limit=1&cursor=2',
    ]);
    const { transactions } = idempay;
    expect(transactions.tagOf(oldest as Transaction)).toBe('"tag 1"');
    await failureOf(UnknownChangeError, transactions.changeStatus(oldest as Transaction, 'FLAGGED', { deadlineMs: 1 }));
    expect(sent.at(-1)?.headers.get('if-match')).toBe('"tag 1"');
  });

  test('of payments follow their pages', async () => {
    const payments = [{ idempotencyKey: KEY, state: 'COMPLETED', ...NOTHING_PAID }];
    const link = { link: '</api/payments?state=COMPLETED&limit=1&cursor=abc>; rel="next"' };
    const { idempay, sent } = scripted([json(payments, 200, link), json(payments)]);
    const filter = { state: 'COMPLETED', limit: 1, from: new Date(0) } as const;
    expect(await allOf(idempay.payments.list(filter))).toHaveLength(2);
    expect(sent.map(({ path }) => path)).toEqual([
      '/api/payments?state=COMPLETED&from=1970-01-01T00%3A00%3A00.000Z&limit=1',
      '/api/payments?state=COMPLETED&from=1970-01-01T00%3A00%3A00.000Z&limit=1&cursor=abc',
    ]);
  });

  test.each(['<http://[>; rel="next"', '</api/payments>; rel="next"', '</api/payments?cursor=>; rel="next"'])(
    'are not taken for whole where the link to the next page has no cursor: %s',
    async (link) => {
      const { idempay } = scripted([
        json([{ idempotencyKey: KEY, state: 'COMPLETED', ...NOTHING_PAID }], 200, { link }),
      ]);
      await failureOf(UnexpectedAnswerError, allOf(idempay.payments.list()));
    },
  );
});
