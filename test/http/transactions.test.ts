import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import {
  deleteTransaction,
  draft,
  expectUnknownTransaction,
  givenTransaction,
  idsOf,
  listTransactions,
  newAccount,
  postTransaction,
  putStatus,
  quoted,
  readTransaction,
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const FIRST_ID = 100_000_000_000_001;
const UNKNOWN_ID = 999_999_999_999_998;

describeDeployments('creating, reading and deleting transactions', (deployment) => {
  const shared = shareService(deployment);

  it('answers a create with 201, the place, the tag and the transaction, in exactly this text', async () => {
    const answer = await postTransaction(shared.url, { fromAccount: 'A', toAccount: 'B', amount: '100.50' });

    expect(answer.status).toBe(201);
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    const created = answer.json<Transaction>();
    expect(answer.text).toBe(
      `{"transactionId":${created.transactionId},"fromAccount":"A","toAccount":"B","amount":100.5,` +
        `"status":"PENDING","createdAt":"${created.createdAt}"}`,
    );
    expect(new URL(answer.headers.location ?? '', shared.url).pathname).toBe(
      `/api/transactions/${created.transactionId}`,
    );
    expect(answer.headers.etag).toBe(quoted(transactionTag(created)));
  });

  it('says when a transaction was created, in UTC', async () => {
    const before = Date.now();
    const created = await givenTransaction(shared.url);
    const after = Date.now();

    expect(created.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    // A second of room on both sides: the store's clock may decide, and it may keep whole seconds.
    expect(Date.parse(created.createdAt)).toBeGreaterThanOrEqual(before - 1000);
    expect(Date.parse(created.createdAt)).toBeLessThanOrEqual(after + 1000);
  });

  it('reads a created transaction at its place, with the same text and tag', async () => {
    const created = await postTransaction(shared.url, draft({ status: 'ON_HOLD' }));
    const read = await readTransaction(shared.url, created.json<Transaction>().transactionId);

    expect(read.status).toBe(200);
    expect(read.headers['content-type']).toMatch(/^application\/json\b/);
    expect(read.text).toBe(created.text);
    expect(read.headers.etag).toBe(created.headers.etag);
  });

  it('answers HEAD for one transaction as GET, without the body', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    const get = await readTransaction(shared.url, transactionId);
    const head = await readTransaction(shared.url, transactionId, {}, 'HEAD');

    expect(head.status).toBe(200);
    expect(head.text).toBe('');
    expect(head.headers.etag).toBe(get.headers.etag);
    expect(head.headers['cache-control']).toBe(get.headers['cache-control']);
    expect((await readTransaction(shared.url, UNKNOWN_ID, {}, 'HEAD')).status).toBe(404);
  });

  it('deletes with 204 and no body; afterwards the id is unknown', async () => {
    const account = newAccount();
    const { transactionId } = await givenTransaction(shared.url, { fromAccount: account });

    const deleted = await deleteTransaction(shared.url, transactionId);
    expect(deleted.status).toBe(204);
    expect(deleted.text).toBe('');

    expectUnknownTransaction(await readTransaction(shared.url, transactionId), transactionId);
    expectUnknownTransaction(await deleteTransaction(shared.url, transactionId), transactionId);
    expectUnknownTransaction(await putStatus(shared.url, transactionId, { status: 'FLAGGED' }), transactionId);
    expect(idsOf(await listTransactions(shared.url, { from: account }))).toEqual([]);
  });

  it('deletes also when the request names a media type for the body that it does not have', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    const headers = { 'Content-Type': 'application/json', 'Content-Length': '0' };

    expect((await deleteTransaction(shared.url, transactionId, headers)).status).toBe(204);
  });

  it.each(['COMPLETED', 'FAILED', 'CANCELLED'])('deletes a transaction that is %s', async (status) => {
    const { transactionId } = await givenTransaction(shared.url, { status });
    expect((await deleteTransaction(shared.url, transactionId)).status).toBe(204);
  });

  it.each([
    '1',
    '999999999999999',
    '9007199254740993',
    '9223372036854775807',
    '9223372036854775808',
    '1000000000000000000000000000001',
    '9'.repeat(120),
  ])('knows no transaction %s, and says so with the id as it was sent', async (id) => {
    expectUnknownTransaction(await readTransaction(shared.url, id), id);
    expectUnknownTransaction(await putStatus(shared.url, id, { status: 'FLAGGED' }), id);
    expectUnknownTransaction(await deleteTransaction(shared.url, id), id);
  });

  it.each([
    '007',
    '0100000000000001',
    '+1',
    '%2B1',
    '-1',
    '0',
    '-0',
    '00',
    '1.0',
    '1e3',
    '0x10',
    '1_000',
    '1%20',
    '%201',
    '%EF%BC%91',
    'abc',
    'NaN',
    '1;DROP',
  ])('refuses %s as an id', async (id) => {
    expectError(await readTransaction(shared.url, id), 400);
    expectError(await putStatus(shared.url, id, { status: 'FLAGGED' }), 400);
    expectError(await deleteTransaction(shared.url, id), 400);
  });

  it('never takes a leading zero for the id behind it', async () => {
    const { transactionId } = await givenTransaction(shared.url);

    expectError(await deleteTransaction(shared.url, `0${transactionId}`), 400);
    expect((await readTransaction(shared.url, transactionId)).status).toBe(200);
  });
});

describeDeployments('transaction ids', (deployment) => {
  const shared = shareService(deployment);

  it('start at 100000000000001 and grow', async () => {
    const first = await givenTransaction(shared.url);
    const second = await givenTransaction(shared.url);

    expect(first.transactionId).toBe(FIRST_ID);
    expect(second.transactionId).toBeGreaterThan(FIRST_ID);
  });

  it('are unique, of 15 digits and in the order of the list when creates race', async () => {
    const account = newAccount();
    const created = await Promise.all(
      Array.from({ length: 200 }, () => givenTransaction(shared.url, { fromAccount: account })),
    );
    const ids = created.map((transaction) => transaction.transactionId);

    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.every((id) => String(id).length === 15)).toBe(true);
    expect(idsOf(await listTransactions(shared.url, { from: account }))).toEqual(ids.sort((a, b) => a - b));
  });

  it('grow between two creates of which the second began after the first was answered', async () => {
    const ids: number[] = [];
    for (let n = 0; n < 20; n++) {
      const pair = await Promise.all([givenTransaction(shared.url), givenTransaction(shared.url)]);
      ids.push(...pair.map((transaction) => transaction.transactionId).sort((a, b) => a - b));
    }
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
  });

  it('are not used again after a delete, nor after a delete and a restart', async () => {
    const stores = await deployment.open();
    try {
      const before = await stores.start();
      const kept = await givenTransaction(before.url);
      const deleted = await givenTransaction(before.url);
      await deleteTransaction(before.url, deleted.transactionId);
      const next = await givenTransaction(before.url);
      expect(next.transactionId).toBeGreaterThan(deleted.transactionId);
      await deleteTransaction(before.url, next.transactionId);
      await before.stop();

      const after = await stores.start();
      expect(idsOf(await listTransactions(after.url))).toEqual([kept.transactionId]);
      expect((await givenTransaction(after.url)).transactionId).toBeGreaterThan(next.transactionId);
    } finally {
      await stores.close();
    }
  });
});
