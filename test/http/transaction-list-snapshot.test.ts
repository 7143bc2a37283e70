import { expect, it } from 'vitest';
import { expectNotModified, tagOf } from '../../testkit/client/entity-tags.js';
import type { Answer } from '../../testkit/client/http-client.js';
import { requestText, sendAndVanish } from '../../testkit/client/raw-http.js';
import {
  changeStatus,
  deleteTransaction,
  type Filter,
  givenTransaction,
  idsOf,
  listTag,
  listTransactions,
  newAccount,
  quoted,
} from '../../testkit/client/transactions.js';
import { alongside, inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const MANY = 1000;

/** Different lists read while they change: enough for a torn snapshot to show, and few enough for a slow machine. */
const DISTINCT_LISTS = 40;

describeDeployments('lists that are long or read while they change', (deployment) => {
  const shared = shareService(deployment);

  it('the tag and the list come from one snapshot while creates, deletes and status changes race', async () => {
    const account = newAccount();
    const filters: Filter[] = [{ from: account }, {}, { from: account, to: 'B' }];
    const distinct = new Set<string>();

    const write = async () => {
      const { transactionId } = await givenTransaction(shared.url, { fromAccount: account });
      const chance = transactionId % 3;
      if (chance === 0) await changeStatus(shared.url, transactionId, 'FLAGGED');
      if (chance !== 1) await deleteTransaction(shared.url, transactionId);
    };
    const read = async (filter: Filter) => {
      const list = await listTransactions(shared.url, filter);
      expectConsistent(list);
      distinct.add(tagOf(list));
      const again = await listTransactions(shared.url, filter, { 'If-None-Match': quoted(tagOf(list)) });
      if (again.status === 304) expect(tagOf(again)).toBe(tagOf(list));
      else expectConsistent(again);
    };
    await alongside(4, write, async () => {
      while (distinct.size < DISTINCT_LISTS) await Promise.all(filters.map(read));
    });

    for (const filter of filters) expectConsistent(await listTransactions(shared.url, filter));
  });

  it('a list holds every create acknowledged before it was asked for, and no acknowledged delete', async () => {
    const account = newAccount();
    const present = new Set<number>();
    const gone = new Set<number>();

    const client = async (n: number) => {
      const { transactionId } = await givenTransaction(shared.url, { fromAccount: account });
      if (n % 2 === 0) {
        await deleteTransaction(shared.url, transactionId);
        gone.add(transactionId);
      } else {
        present.add(transactionId);
      }
      const [mustHold, mustMiss] = [[...present], [...gone]];
      const listed = new Set(idsOf(await listTransactions(shared.url, { from: account })));
      expect(mustHold.filter((id) => !listed.has(id))).toEqual([]);
      expect(mustMiss.filter((id) => listed.has(id))).toEqual([]);
    };
    await inParallel(200, 12, client);
  });

  it('a list of a thousand transactions is complete, in order and rightly tagged', async () => {
    const account = newAccount();
    const created = await inParallel(MANY, 48, () => givenTransaction(shared.url, { fromAccount: account }));
    const ids = created.map((transaction) => transaction.transactionId).sort((a, b) => a - b);

    for (const filter of [{ from: account }, { from: account, to: 'B' }]) {
      const list = await listTransactions(shared.url, filter);
      expect(idsOf(list)).toEqual(ids);
      expect(tagOf(list)).toBe(listTag(ids));
      const condition = { 'If-None-Match': quoted(listTag(ids)) };
      expectNotModified(await listTransactions(shared.url, filter, condition), listTag(ids), 'no-store');
    }

    const everything = await listTransactions(shared.url);
    expectConsistent(everything);
    expect(idsOf(everything)).toEqual(expect.arrayContaining(ids));

    const removed = new Set(ids.filter((_, n) => n % 100 === 0));
    await inParallel(removed.size, 16, (n) => deleteTransaction(shared.url, [...removed][n] as number));
    const rest = ids.filter((id) => !removed.has(id));
    const list = await listTransactions(shared.url, { from: account });
    expect(idsOf(list)).toEqual(rest);
    expect(tagOf(list)).toBe(listTag(rest));
  });

  it('a long list costs the others nothing when its readers want no body or go away', async () => {
    const plain = await listTransactions(shared.url);
    // Otherwise it is not the long one, and the test proves nothing.
    expect(idsOf(plain).length).toBeGreaterThan(MANY / 2);

    for (let n = 0; n < 20; n++) {
      const head = await listTransactions(shared.url, {}, {}, 'HEAD');
      expect(head.status).toBe(200);
      expect(head.text).toBe('');
      expect(head.headers.etag).toBe(plain.headers.etag);
    }
    const bytes = requestText('GET /api/transactions HTTP/1.1', []);
    await inParallel(40, 10, () => sendAndVanish(shared.service.port, bytes));

    const after = await listTransactions(shared.url);
    expect(after.status).toBe(200);
    expect(after.text).toBe(plain.text);
  });
});

function expectConsistent(list: Answer): void {
  expect(list.status).toBe(200);
  const ids = idsOf(list);
  expect(tagOf(list)).toBe(listTag(ids));
  expect(ids.every((id, n) => n === 0 || id > (ids[n - 1] as number))).toBe(true);
}
