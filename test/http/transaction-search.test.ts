import { describe, expect, it } from 'vitest';
import { tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, nextPage } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  createdIn,
  deleteTransaction,
  draft,
  givenTransaction,
  idsOf,
  newAccount,
  postBatch,
  quoted,
  readTransaction,
  STATUSES,
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const PATH = '/api/transactions/search';
type Found = Transaction & { readonly etag: string };

describeDeployments('the search of transactions', (deployment) => {
  const shared = shareService(deployment);
  const search = (parameters: Record<string, string> = {}, method = 'GET') =>
    ask(`${shared.url}${PATH}?${new URLSearchParams(parameters)}`, { method });

  /** All pages, by their links. */
  async function pagesOf(parameters: Record<string, string>): Promise<Found[][]> {
    const pages: Found[][] = [];
    for (let answer = await search(parameters); ; ) {
      expect(answer).toMatchObject({ status: 200, headers: { 'cache-control': 'no-store' } });
      pages.push(answer.json<Found[]>());
      const next = nextPage(answer);
      if (next === undefined) return pages;
      answer = await ask(`${shared.url}${next}`);
    }
  }

  async function givenMany(count: number, members: (index: number) => Record<string, unknown> = () => ({})) {
    const from = newAccount();
    const drafts = Array.from({ length: count }, (_, index) => draft({ fromAccount: from, ...members(index) }));
    const created: Transaction[] = [];
    for (let at = 0; at < count; at += 1_000)
      created.push(...createdIn(await postBatch(shared.url, drafts.slice(at, at + 1_000))));
    return { from, created: created.reverse() };
  }

  it('shows whole transactions, the newest first, each with the tag that If-Match takes', async () => {
    const from = newAccount();
    const created = [];
    for (const status of STATUSES) created.unshift(await givenTransaction(shared.url, { fromAccount: from, status }));
    const answer = await search({ from });
    expect(answer.text).toBe(
      JSON.stringify(created.map((transaction) => ({ ...transaction, etag: quoted(transactionTag(transaction)) }))),
    );
    expect(answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
    });
    expect(answer.headers.etag).toBeUndefined();
    const head = await search({ from }, 'HEAD');
    expect([head.status, head.text]).toEqual([200, '']);
    for (const { transactionId, etag } of answer.json<Found[]>()) {
      expect(quoted(tagOf(await readTransaction(shared.url, transactionId)))).toBe(etag);
      expect((await deleteTransaction(shared.url, transactionId, { 'If-Match': etag })).status).toBe(204);
    }
    expect((await search({ from })).text).toBe('[]');
  });

  it('shows each status as it is, and its new tag, at once after a change', async () => {
    const { transactionId, fromAccount: from } = await givenTransaction(shared.url, { fromAccount: newAccount() });
    for (const status of ['FLAGGED', 'ON_HOLD', 'PENDING']) {
      const [before] = (await search({ from })).json<Found[]>();
      await changeStatus(shared.url, transactionId, status);
      const [after] = (await search({ from })).json<Found[]>();
      expect(after).toMatchObject({ transactionId, status });
      expect((await search({ from, status })).json<Found[]>()).toEqual([after]);
      expect((await search({ from, status: before?.status ?? '' })).text).toBe('[]');
      const outdated = { 'If-Match': before?.etag ?? '' };
      expect((await changeStatus(shared.url, transactionId, 'BLOCKED', outdated)).status).toBe(412);
    }
  });

  it('goes on by links, with the same filters, until there are no more', async () => {
    const account = ` ${newAccount()}&\u{1f600}+%20"'`;
    const { created } = await givenMany(7, () => ({ fromAccount: account, toAccount: 'b&c' }));
    const searches: Record<string, string>[] = [
      { from: account },
      { from: account, to: 'b&c' },
      { from: account, status: 'PENDING' },
    ];
    for (const parameters of searches) {
      const pages = await pagesOf({ ...parameters, limit: '3' });
      expect(pages.map((page) => page.map(({ transactionId }) => transactionId))).toEqual([
        created.slice(0, 3).map(({ transactionId }) => transactionId),
        created.slice(3, 6).map(({ transactionId }) => transactionId),
        created.slice(6).map(({ transactionId }) => transactionId),
      ]);
    }
    expect(await search({ from: account, to: 'nobody' })).toMatchObject({ status: 200, text: '[]' });
  });

  it('ends a page without a result after five thousand rows, and finds it by the links', async () => {
    const { from, created } = await givenMany(6_000, (index) => (index === 0 ? { status: 'BLOCKED' } : {}));
    const pages = await pagesOf({ from, status: 'BLOCKED' });
    expect(pages.map((page) => page.map(({ transactionId }) => transactionId))).toEqual([
      [],
      [created.at(-1)?.transactionId],
    ]);
    expect(idsOf(await search({ from }))).toEqual(created.slice(0, 50).map(({ transactionId }) => transactionId));
  });

  it('of an account that cannot be is empty, and asks no store', async () => {
    for (const from of ['x'.repeat(65), '\u0000', 'a\nb']) {
      expect(await search({ from })).toMatchObject({ status: 200, text: '[]' });
    }
  });

  it('takes empty parameters for absent ones', async () => {
    const { from } = await givenMany(1);
    const all = { to: '', status: '', limit: '', cursor: '' };
    expect(idsOf(await search({ from, ...all }))).toHaveLength(1);
  });

  it('names what is wrong with a parameter', async () => {
    const wrong: [Record<string, string>, string][] = [
      [{ status: 'pending' }, `'status' must be one of ${STATUSES.join(', ')}.`],
      [{ limit: '0' }, "'limit' must be a whole number from 1 to 200."],
      [{ limit: '201' }, "'limit' must be a whole number from 1 to 200."],
      [{ limit: '1e2' }, "'limit' must be a whole number from 1 to 200."],
      [{ cursor: '007' }, "'cursor' must come from the Link header of the page before."],
      [{ cursor: '1000000000000000' }, "'cursor' must come from the Link header of the page before."],
      [{ state: 'PENDING' }, "'state' is not a query parameter of this path. Use from, to, status, limit, cursor."],
    ];
    for (const [parameters, message] of wrong) expectError(await search(parameters), 400, message);
    expectError(await ask(`${shared.url}${PATH}`, { method: 'POST' }), 405);
    expectError(await ask(`${shared.url}${PATH}?from=a&from=b`), 400);
  });

  describe('next to the list', () => {
    it('leaves its tag alone, and the list ignores the parameters of a search', async () => {
      const { from, created } = await givenMany(2);
      const list = await ask(`${shared.url}/api/transactions?from=${from}&status=FLAGGED&limit=1`);
      expect(idsOf(list)).toEqual(created.map(({ transactionId }) => transactionId).reverse());
      await search({ from, status: 'FLAGGED' });
      expect(tagOf(await ask(`${shared.url}/api/transactions?from=${from}`))).toBe(tagOf(list));
    });
  });
});
