import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { credentialOf, keyFileOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import type { Answer } from '../../testkit/client/http-client.js';
import { scrape, valuesBy } from '../../testkit/client/metrics.js';
import {
  changeStatus,
  createdIn,
  deleteTransaction,
  draft,
  idsOf,
  keyed,
  listTransactions,
  newAccount,
  postBatch,
  postTransaction,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { untilPast } from '../../testkit/time/until.js';

const AT_ONCE = 20;
const MISMATCH = /^This Idempotency-Key has created something else/;
const INVALID = /^Idempotency-Key must be 1 to 64 visible ASCII characters/;

/** Rule T9. */
describeDeployments('creating with a key of the client', (deployment) => {
  const shared = shareService(deployment);
  const rows = (count: number, fromAccount: string) =>
    Array.from({ length: count }, (_, index) => draft({ fromAccount, amount: `${index + 1}.50` }));
  const listed = async (from: string) => idsOf(await listTransactions(shared.url, { from }));

  function expectSame(repeat: Answer, first: Answer): void {
    expect(repeat.headers['idempotent-replayed']).toBe('true');
    expect({ ...repeat, headers: lasting(repeat), json: undefined }).toEqual({
      ...{ ...first, headers: lasting(first), json: undefined },
    });
  }
  const lasting = ({ headers }: Answer) => {
    const { location, etag, 'content-type': type, 'cache-control': cache } = headers;
    return { location, etag, type, cache };
  };

  it('creates once; a repeat gets the same status, place, tag and text, and says that it is one', async () => {
    const account = newAccount();
    const body = draft({ fromAccount: account });
    const key = randomUUID();
    const first = await postTransaction(shared.url, body, keyed(key));
    expect(first.status).toBe(201);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expectSame(await postTransaction(shared.url, body, keyed(key)), first);
    expect(await listed(account)).toEqual([first.json<Transaction>().transactionId]);
  });

  it('creates a batch once; a repeat gets the same text', async () => {
    const account = newAccount();
    const batch = rows(3, account);
    const key = randomUUID();
    const first = await postBatch(shared.url, batch, keyed(key));
    expect(createdIn(first)).toHaveLength(3);
    expectSame(await postBatch(shared.url, batch, keyed(key)), first);
    expect(await listed(account)).toEqual(createdIn(first).map(({ transactionId }) => transactionId));
  });

  it.each([
    ['one', 1],
    ['a batch', 50],
  ])('lets one of twenty creates of %s at once create, and tells the others what it did', async (_what, count) => {
    const account = newAccount();
    const key = randomUUID();
    const answers = await Promise.all(
      Array.from({ length: AT_ONCE }, () =>
        count === 1
          ? postTransaction(shared.url, draft({ fromAccount: account }), keyed(key))
          : postBatch(shared.url, rows(count, account), keyed(key)),
      ),
    );
    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers[0]?.status).toBe(201);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect(await listed(account)).toHaveLength(count);
  });

  it('repeats the first result also after its transaction was changed, and deleted', async () => {
    const body = draft({ fromAccount: newAccount() });
    const key = randomUUID();
    const first = await postTransaction(shared.url, body, keyed(key));
    const { transactionId } = first.json<Transaction>();
    await changeStatus(shared.url, transactionId, 'FLAGGED');
    expectSame(await postTransaction(shared.url, body, keyed(key)), first);
    await deleteTransaction(shared.url, transactionId);
    expectSame(await postTransaction(shared.url, body, keyed(key)), first);
    expect((await readTransaction(shared.url, transactionId)).status).toBe(404);
  });

  it('takes the same rows written in another way for a repeat, and other rows for a mismatch', async () => {
    const fromAccount = newAccount();
    const key = randomUUID();
    const send = (body: unknown) => postTransaction(shared.url, body, keyed(key));
    const first = await send(`{"fromAccount":"${fromAccount}","toAccount":"B","amount":"10.50"}`);
    expectSame(
      await send(`{"status":"PENDING", "amount":1.05e1,"toAccount":"\\u0042","fromAccount":"${fromAccount}"}`),
      first,
    );
    for (const other of [{ amount: '10.51' }, { toAccount: 'C' }, { fromAccount: 'D' }, { status: 'FLAGGED' }]) {
      expectError(await send(draft({ fromAccount, amount: '10.50', ...other })), 422, MISMATCH);
    }
    expectError(await send(draft({ fromAccount, amount: '-1' })), 400, /amount/);
    expectSame(await send(draft({ fromAccount, amount: '10.5' })), first);
    expect(await listed(fromAccount)).toHaveLength(1);
  });

  it('takes rows in another order, or fewer, for a mismatch', async () => {
    const account = newAccount();
    const batch = rows(3, account);
    const key = randomUUID();
    await postBatch(shared.url, batch, keyed(key));
    for (const other of [[...batch].reverse(), batch.slice(1)])
      expectError(await postBatch(shared.url, other, keyed(key)), 422, MISMATCH);
    expect(await listed(account)).toHaveLength(3);
  });

  it('keeps the keys of its two endpoints apart, and those of different letters', async () => {
    const account = newAccount();
    const key = `k${randomUUID()}`;
    const one = (name: string) => postTransaction(shared.url, draft({ fromAccount: account }), keyed(name));
    const answers = [await one(key), await one(key.toUpperCase()), await one(`${key}"`)];
    answers.push(await postBatch(shared.url, [draft({ fromAccount: account })], keyed(key)));
    expect(answers.map(({ status, headers }) => [status, headers['idempotent-replayed']])).toEqual(
      Array(4).fill([201, undefined]),
    );
    expect(await listed(account)).toHaveLength(4);
  });

  it('takes the quoted form of a key for the bare one', async () => {
    const body = draft({ fromAccount: newAccount() });
    const key = randomUUID();
    const first = await postTransaction(shared.url, body, keyed(`"${key}"`));
    expectSame(await postTransaction(shared.url, body, keyed(` ${key} `)), first);
  });

  it.each(['', '""', 'a b', 'x'.repeat(65), '\u00e9', '"unclosed', `"${'x'.repeat(65)}"`])(
    'refuses the key %j before it looks at the body',
    async (key) => {
      for (const send of [postTransaction, postBatch]) {
        expectError(await send(shared.url, 'no JSON', { ...keyed(key), 'Content-Type': 'text/plain' }), 400, INVALID);
      }
    },
  );

  it('refuses a key that is sent twice', async () => {
    const twice = { 'Idempotency-Key': ['a', 'b'] };
    expectError(await postTransaction(shared.url, draft(), twice), 400, INVALID);
  });

  it.each(['!', '~'.repeat(64), 'a,b;c="d"', '"a\\"b\\\\c"'])('takes the key %j', async (key) => {
    const own = `${key}`;
    const body = draft({ fromAccount: newAccount() });
    const first = await postTransaction(shared.url, body, keyed(own));
    expect(first.status).toBe(201);
    expectSame(await postTransaction(shared.url, body, keyed(own)), first);
  });

  it('judges a precondition for the first request only: a repeat is told the result', async () => {
    const body = draft({ fromAccount: newAccount() });
    const list = await listTransactions(shared.url);
    const headers = { ...keyed(randomUUID()), 'If-Match': String(list.headers.etag) };
    const [first, ...others] = await Promise.all([1, 2, 3].map(() => postTransaction(shared.url, body, headers)));
    const texts = [first, ...others].map((answer) => `${answer?.status} ${answer?.text}`);
    expect(new Set(texts).size, texts.join()).toBe(1);
    expect(first?.status).toBe(201);
    expectError(await postTransaction(shared.url, draft(), headers), 422, MISMATCH);
    expectError(await postTransaction(shared.url, body, { ...headers, ...keyed(randomUUID()) }), 412);
  });

  it('leaves a key unused when the request was refused', async () => {
    const account = newAccount();
    const key = randomUUID();
    expectError(await postBatch(shared.url, [draft(), draft({ amount: '0' })], keyed(key)), 400);
    expectError(await postBatch(shared.url, rows(2, account), { ...keyed(key), 'If-Match': '"other"' }), 412);
    const answer = await postBatch(shared.url, rows(2, account), keyed(key));
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, undefined]);
  });

  it('counts what was created, repeated and refused', async () => {
    const before = valuesBy(await scrape(shared.url), 'idempay_transaction_creates_total', 'result');
    const key = randomUUID();
    const body = draft({ fromAccount: newAccount() });
    for (const each of [body, body, { ...body, amount: '9' }]) await postTransaction(shared.url, each, keyed(key));
    await postBatch(shared.url, rows(5, newAccount()));
    const after = valuesBy(await scrape(shared.url), 'idempay_transaction_creates_total', 'result');
    const moved = Object.fromEntries(Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]));
    expect(moved).toEqual({ created: 2, replayed: 1, mismatch: 1 });
  });

  it('repeats across a restart', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const first = await stores.serve();
    const [key, body] = [randomUUID(), draft()];
    const created = await postTransaction(first.url, body, keyed(key));
    await first.stop();
    const { url } = await stores.serve();
    expectSame(await postTransaction(url, body, keyed(key)), created);
  });

  it('forgets a key after IDEMPOTENCY_TTL_SECONDS', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const { url } = await stores.serve({ IDEMPOTENCY_TTL_SECONDS: '1' });
    const [key, body] = [randomUUID(), draft()];
    const first = await postTransaction(url, body, keyed(key));
    await untilPast(1_000);
    const later = await postTransaction(url, body, keyed(key));
    expect([later.status, later.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(later.json<Transaction>().transactionId).toBeGreaterThan(first.json<Transaction>().transactionId);
  });

  it('keeps the keys of two clients apart, and gives those of one client to all its secrets', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-keys-'));
    const [shop, rotated, rival] = ['shop', 'shop', 'rival'].map((name) => credentialOf(name, ['transactions:write']));
    if (!shop || !rotated || !rival) throw new Error('no credentials');
    const file = join(folder, 'keys.json');
    await writeFile(file, keyFileOf(shop, rotated, rival));
    const stores = await deployment.open();
    onTestFinished(async () => {
      await stores.close();
      await rm(folder, { recursive: true });
    });
    const { url } = await stores.serve({ AUTH: 'required', API_KEYS_FILE: file });
    const [key, body] = [randomUUID(), draft()];
    const send = (client: typeof shop, what: unknown = body) =>
      postTransaction(url, what, { ...client.headers, ...keyed(key) });
    const first = await send(shop);
    const other = await send(rival, draft({ amount: '7' }));
    expect([other.status, other.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expectSame(await send(rotated), first);
    expectSame(await send(rival, draft({ amount: '7' })), other);
  });
});
