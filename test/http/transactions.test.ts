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
const UNKNOWN_IDS = [
  ...['1', '999999999999999', '9007199254740993', '9223372036854775807', '9223372036854775808'],
  ...['1000000000000000000000000000001', '9'.repeat(120)],
];
const NO_IDS = [
  ...['007', '0100000000000001', '00', '0', '+1', '%2B1', '-1', '-0', '1.0', '1e3', '0x10', '1_000', '1%20', '%201'],
  ...['%EF%BC%91', 'abc', 'NaN', '1;DROP'],
];

describeDeployments('creating, reading and deleting transactions', (deployment) => {
  const shared = shareService(deployment);

  it('answers a create with 201, the place, the tag and the transaction, in exactly this text', async () => {
    const before = Date.now();
    const answer = await postTransaction(shared.url, { fromAccount: 'A', toAccount: 'B', amount: '100.50' });
    const after = Date.now();

    expect(answer.status).toBe(201);
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    const created = answer.json<Transaction>();
    const { transactionId, createdAt } = created;
    expect(answer.text).toBe(
      `{"transactionId":${transactionId},"fromAccount":"A","toAccount":"B","amount":100.5,` +
        `"status":"PENDING","createdAt":"${createdAt}"}`,
    );
    const { pathname } = new URL(answer.headers.location ?? '', shared.url);
    expect(pathname).toBe(`/api/transactions/${transactionId}`);
    expect(answer.headers.etag).toBe(quoted(transactionTag(created)));
    expect(createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    // A second of room on both sides: the store's clock may decide, and it may keep whole seconds.
    expect(Date.parse(createdAt)).toBeGreaterThanOrEqual(before - 1000);
    expect(Date.parse(createdAt)).toBeLessThanOrEqual(after + 1000);
  });

  it('reads a created transaction at its place, with the same text and tag; HEAD is GET without the body', async () => {
    const created = await postTransaction(shared.url, draft({ status: 'ON_HOLD' }));
    const { transactionId } = created.json<Transaction>();
    const read = await readTransaction(shared.url, transactionId);
    expect(read.status).toBe(200);
    expect(read.headers['content-type']).toMatch(/^application\/json\b/);
    expect(read.text).toBe(created.text);
    expect(read.headers.etag).toBe(created.headers.etag);

    const head = await readTransaction(shared.url, transactionId, {}, 'HEAD');
    expect([head.status, head.text]).toEqual([200, '']);
    for (const name of ['etag', 'cache-control']) expect(head.headers[name]).toBe(read.headers[name]);
    expect((await readTransaction(shared.url, UNKNOWN_IDS[0] as string, {}, 'HEAD')).status).toBe(404);
  });

  it.each(['PENDING', 'COMPLETED', 'FAILED', 'CANCELLED'])(
    'deletes a transaction that is %s with 204 and no body; afterwards the id is unknown',
    async (status) => {
      const account = newAccount();
      const { transactionId } = await givenTransaction(shared.url, { fromAccount: account, status });
      // A media type for a body that is not there is no reason to refuse.
      const headers = { 'Content-Type': 'application/json', 'Content-Length': '0' };
      const deleted = await deleteTransaction(shared.url, transactionId, status === 'PENDING' ? headers : {});
      expect([deleted.status, deleted.text]).toEqual([204, '']);
      await expectUnknown(transactionId);
      expect(idsOf(await listTransactions(shared.url, { from: account }))).toEqual([]);
    },
  );

  it.each(UNKNOWN_IDS)('finds no transaction %s, and says so with the id as it was sent', expectUnknown);

  it.each(NO_IDS)('refuses %s as an id', async (id) => {
    expectError(await readTransaction(shared.url, id), 400);
    expectError(await putStatus(shared.url, id, { status: 'FLAGGED' }), 400);
    expectError(await deleteTransaction(shared.url, id), 400);
  });

  it('never takes a leading zero for the id behind it', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    expectError(await deleteTransaction(shared.url, `0${transactionId}`), 400);
    expect((await readTransaction(shared.url, transactionId)).status).toBe(200);
  });

  async function expectUnknown(id: string | number): Promise<void> {
    expectUnknownTransaction(await readTransaction(shared.url, id), id);
    expectUnknownTransaction(await putStatus(shared.url, id, { status: 'FLAGGED' }), id);
    expectUnknownTransaction(await deleteTransaction(shared.url, id), id);
  }
});

describeDeployments('transaction ids', (deployment) => {
  const shared = shareService(deployment);

  it('start at 100000000000001 and grow', async () => {
    expect((await givenTransaction(shared.url)).transactionId).toBe(FIRST_ID);
    expect((await givenTransaction(shared.url)).transactionId).toBeGreaterThan(FIRST_ID);
  });

  it('are unique, of 15 digits and in the order of the list when creates race', async () => {
    const account = newAccount();
    const create = async () => (await givenTransaction(shared.url, { fromAccount: account })).transactionId;
    const ids = await Promise.all(Array.from({ length: 200 }, create));
    expect(ids.every((id) => String(id).length === 15)).toBe(true);
    const listed = idsOf(await listTransactions(shared.url, { from: account }));
    expect(listed).toEqual([...new Set(ids)].sort((a, b) => a - b));
    expect(listed).toHaveLength(ids.length);
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
      const before = await stores.serve();
      const kept = await givenTransaction(before.url);
      const deleted = await givenTransaction(before.url);
      await deleteTransaction(before.url, deleted.transactionId);
      const next = await givenTransaction(before.url);
      expect(next.transactionId).toBeGreaterThan(deleted.transactionId);
      await deleteTransaction(before.url, next.transactionId);
      await before.stop();

      const after = await stores.serve();
      expect(idsOf(await listTransactions(after.url))).toEqual([kept.transactionId]);
      expect((await givenTransaction(after.url)).transactionId).toBeGreaterThan(next.transactionId);
    } finally {
      await stores.close();
    }
  });
});
