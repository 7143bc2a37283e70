import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import {
  createdIn,
  deleteTransaction,
  draft,
  givenTransaction,
  idsOf,
  listTag,
  listTransactions,
  newAccount,
  postBatch,
  postTransaction,
  quoted,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const MOST = 1_000;
const LIMIT_BYTES = 1024 * 1024;

/** Bodies that ask for no good rows, by what the refusal says. */
const REFUSED: readonly [says: string, body: string][] = [
  ["'transactions' is required", '{}'],
  ["'transactions' is required", '{"transactions":[]}'],
  ["'transactions' is required", '{"transactions":{"0":{}}}'],
  ["'transactions' is required", '{"transactions":null}'],
  ["'transactions' is required", '{"rows":[{"fromAccount":"A","toAccount":"B","amount":1}]}'],
  ['The body must be a JSON object.', '[{"fromAccount":"A","toAccount":"B","amount":1}]'],
  ["'transactions' appears in the body more than once.", '{"transactions":[{}],"transactions":[{}]}'],
  ['transactions[0]: must be a JSON object.', '{"transactions":[[{"fromAccount":"A","toAccount":"B","amount":1}]]}'],
  ['transactions[0]: must be a JSON object.', '{"transactions":["A"]}'],
  ["transactions[0]: 'fromAccount' is required", '{"transactions":[{"a":{"fromAccount":"A"}}]}'],
];

/** Rule T10. */
describeDeployments('creating many transactions at once', (deployment) => {
  const shared = shareService(deployment);
  const rows = (count: number, fromAccount: string) =>
    Array.from({ length: count }, (_, index) =>
      draft({ fromAccount, toAccount: `to ${index}`, amount: `${index}.25` }),
    );
  const listed = async (from: string) => idsOf(await listTransactions(shared.url, { from }));

  it('answers 201 with the transactions in the order that was sent, as they are read and listed then', async () => {
    const account = newAccount();
    const answer = await postBatch(shared.url, [
      draft({ fromAccount: account, amount: '100.50', status: 'ON_HOLD' }),
      draft({ fromAccount: account, toAccount: 'C', amount: 0.0001 }),
    ]);
    const [first, second] = createdIn(answer);
    if (!first || !second) throw new Error('no two transactions');
    const id = first.transactionId;
    expect(answer.text).toBe(
      `{"transactions":[{"transactionId":${id},"fromAccount":"${account}","toAccount":"B","amount":100.5,"status":"ON_HOLD","createdAt":"${first.createdAt}"},` +
        `{"transactionId":${id + 1},"fromAccount":"${account}","toAccount":"C","amount":0.0001,"status":"PENDING","createdAt":"${first.createdAt}"}]}`,
    );
    expect(answer.headers).toMatchObject({ 'cache-control': 'no-store' });
    expect(answer.headers.etag).toBeUndefined();
    expect((await readTransaction(shared.url, id)).json()).toEqual(first);
    const list = await listTransactions(shared.url, { from: account });
    expect(list.json()).toEqual([first, second]);
  });

  it('takes a thousand rows, and refuses one more with nothing created', async () => {
    const account = newAccount();
    expectError(
      await postBatch(shared.url, rows(MOST + 1, account)),
      400,
      "'transactions' has more than 1000 rows. Send at most 1000 in one request.",
    );
    expect(await listed(account)).toEqual([]);
    const batch = rows(MOST, account).map((row, index) => ({ ...row, amount: `${index + 1}` }));
    const created = createdIn(await postBatch(shared.url, batch));
    expect(created.map(({ amount }) => amount)).toEqual(batch.map(({ amount }) => Number(amount)));
    expect(await listed(account)).toEqual(created.map(({ transactionId }) => transactionId));
  });

  it('has the tag of a list right after batches, single creates and deletes between them', async () => {
    const account = newAccount();
    const expectTag = async (filter: { from?: string }) => {
      const list = await listTransactions(shared.url, filter);
      expect(list.headers.etag).toBe(quoted(listTag(idsOf(list))));
      return String(list.headers.etag);
    };
    for (const count of [3, 40, 1]) {
      const before = await expectTag({ from: account });
      const created = createdIn(await postBatch(shared.url, rows(count + 1, account).slice(1)));
      const stale = await listTransactions(shared.url, { from: account }, { 'If-None-Match': before });
      expect(stale.status).toBe(200);
      await givenTransaction(shared.url, { fromAccount: account });
      await expectTag({ from: account });
      await deleteTransaction(shared.url, created[0]?.transactionId ?? 0);
      const tag = await expectTag({});
      expect((await listTransactions(shared.url, {}, { 'If-None-Match': tag })).status).toBe(304);
    }
  });

  it.each([
    [0, 'amount', '0'],
    [2, 'toAccount', ''],
    [4, 'status', 'DONE'],
  ])('names row %d and its %s when it is wrong, and creates nothing', async (index, member, value) => {
    const account = newAccount();
    const batch = rows(5, account).map((row, at) => ({
      ...row,
      amount: '1',
      ...(at === index && { [member]: value }),
    }));
    const before = await listTransactions(shared.url);
    expectError(await postBatch(shared.url, batch), 400, new RegExp(`^transactions\\[${index}\\]: '${member}' `));
    expect(await listed(account)).toEqual([]);
    expect((await listTransactions(shared.url)).headers.etag).toBe(before.headers.etag);
  });

  it('sees a member that a row has twice', async () => {
    const row = '{"fromAccount":"A","toAccount":"B","amount":1,"\\u0061mount":2}';
    const body = `{"transactions":[{"fromAccount":"A","toAccount":"B","amount":1},${row}]}`;
    expectError(await postBatch(shared.url, body), 400, "transactions[1]: 'amount' appears more than once.");
  });

  it.each(REFUSED)('says "%s" to %s', async (says, body) => {
    expectError(await postBatch(shared.url, body), 400, new RegExp(`^${says.replace(/[[\]]/g, '\\$&')}`));
  });

  it('ignores unknown members of the body and of rows, whatever they hold', async () => {
    const row =
      '{"x":[{"amount":7}],"fromAccount":"A","toAccount":"B","amount":1.50,"transactions":[1],"y":{"amount":2}}';
    const created = createdIn(await postBatch(shared.url, `{"a":[[1]],"transactions":[${row}],"b":{"amount":3}}`));
    expect(created).toMatchObject([{ fromAccount: 'A', amount: 1.5 }]);
  });

  it('takes a body of a megabyte and no more; every other endpoint keeps its limit', async () => {
    const bodyOf = (bytes: number) => {
      const body = JSON.stringify({ transactions: [draft()], filler: '' });
      return body.replace('"filler":""', `"filler":"${'x'.repeat(bytes - body.length)}"`);
    };
    expect((await postBatch(shared.url, bodyOf(LIMIT_BYTES))).status).toBe(201);
    const tooLong = 'The request body must not exceed 1048576 bytes, with all its members.';
    expectError(await postBatch(shared.url, bodyOf(LIMIT_BYTES + 1)), 413, tooLong);
    const usual = 'The request body must not exceed 16384 bytes, with all its members.';
    expectError(await postTransaction(shared.url, bodyOf(20_000)), 413, usual);
  });

  it('takes the longest rows there can be', async () => {
    const [from, to] = ['\u{1f4b3}'.repeat(64), '\u{1f4b0}'.repeat(64)];
    const batch = Array.from({ length: MOST }, () => draft({ fromAccount: from, toAccount: to, amount: '1' }));
    const created = createdIn(await postBatch(shared.url, batch));
    expect(created).toHaveLength(MOST);
    expect(created.at(-1)).toMatchObject({ fromAccount: from, toAccount: to });
  });

  it.each(['GET', 'PUT', 'DELETE', 'HEAD'])('answers 405 to %s', async (method) => {
    const answer = await ask(`${shared.url}/api/transactions/batch`, { method });
    expect([answer.status, answer.headers.allow]).toEqual([405, 'POST']);
  });
});
