import { Agent, cacheStores, interceptors } from 'undici';
import { describe, expect, it } from 'vitest';
import { expectNotModified } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  MOVABLE_STATUSES,
  newAccount,
  quoted,
  readTransaction,
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const HIT = 'transactionCache; hit';
const MISS = 'transactionCache; fwd=miss';

describeDeployments('the cache of single transactions', (deployment) => {
  const shared = shareService(deployment);
  const given = async (members = {}) => (await givenTransaction(shared.url, members)).transactionId;

  it('misses the first read and hits the next ones, with the same answer, from an entry under the id', async () => {
    const id = await given();
    await expectNoEntry(id);
    const first = await readFrom(MISS, id);
    await expectEntry(id, 'PENDING');
    for (let n = 0; n < 3; n++) {
      const next = await readFrom(HIT, id);
      expect(next.text).toBe(first.text);
      expect(next.headers.etag).toBe(first.headers.etag);
    }
  });

  it('says what it did also when the answer is 304 or has no body', async () => {
    const created = await givenTransaction(shared.url);
    const tag = transactionTag(created);
    for (const expected of [MISS, HIT]) {
      const answer = await readTransaction(shared.url, created.transactionId, { 'If-None-Match': quoted(tag) });
      expectNotModified(answer, tag);
      expect(answer.headers['cache-status']).toBe(expected);
    }
    const head = await readTransaction(shared.url, created.transactionId, {}, 'HEAD');
    expect(head.headers['cache-status']).toBe(HIT);
  });

  describe('after a status change', () => {
    it.each([false, true])('hits with the new status; read before: %s', async (isCached) => {
      const id = await given();
      if (isCached) await readFrom(MISS, id);
      // The status that it has already is as good as any other.
      for (const status of ['PENDING', 'PROCESSING', 'COMPLETED', 'CANCELLED']) {
        await changeStatus(shared.url, id, status);
        await expectEntry(id, status);
        expect((await readFrom(HIT, id)).json<Transaction>().status).toBe(status);
      }
    });

    it('that was refused still has the stored status', async () => {
      const created = await givenTransaction(shared.url, { status: 'FAILED' });
      await readFrom(MISS, created.transactionId);
      expectError(await changeStatus(shared.url, created.transactionId, 'PENDING'), 409);
      const condition = { 'If-Match': '"other"' };
      expectError(await changeStatus(shared.url, created.transactionId, 'FAILED', condition), 412);
      expect((await readTransaction(shared.url, created.transactionId)).json()).toEqual(created);
    });
  });

  it('forgets a deleted transaction, and holds nothing for an id that a request did not find', async () => {
    const id = await given();
    await readFrom(MISS, id);
    await deleteTransaction(shared.url, id);
    await expectNoEntry(id);
    for (const request of [
      readTransaction(shared.url, id),
      changeStatus(shared.url, id, 'FLAGGED'),
      deleteTransaction(shared.url, id),
    ]) {
      expectError(await request, 404);
      await expectNoEntry(id);
    }
  });

  it('does not remember that a transaction was not there', async () => {
    const last = await given();
    for (let id = last + 1; id <= last + 10; id++) {
      expectError(await readTransaction(shared.url, id), 404);
      await expectNoEntry(id);
    }
    const next = await givenTransaction(shared.url);
    // Otherwise this id was never asked for, and the test proves nothing.
    expect(next.transactionId).toBeLessThanOrEqual(last + 10);
    expect((await readTransaction(shared.url, next.transactionId)).json()).toEqual(next);
  });

  it('keeps the transactions apart', async () => {
    const created = await Promise.all(Array.from({ length: 30 }, () => givenTransaction(shared.url)));
    for (let round = 0; round < 2; round++) {
      const read = await Promise.all(created.map(({ transactionId }) => readTransaction(shared.url, transactionId)));
      expect(read.map((answer) => answer.json())).toEqual(created);
    }
  });

  /**
   * Bug: a client behind an HTTP cache was shown old statuses in a list. Cause: the cache kept the list, revalidated it with
   * its tag, and the tag says nothing about statuses. Fix: lists are not kept (decision T7).
   */
  it('does not make an HTTP cache show an old status in a list, or of one transaction', async () => {
    const agent = new Agent();
    // As a browser's own cache: it keeps what is private, too.
    const store = new cacheStores.MemoryCacheStore();
    const caching = agent.compose(interceptors.cache({ store, type: 'private' }));
    const read = async (path: string) =>
      (await caching.request({ origin: shared.url, path, method: 'GET' })).body.json();
    try {
      const account = newAccount();
      const id = await given({ fromAccount: account });
      for (const status of MOVABLE_STATUSES) {
        await changeStatus(shared.url, id, status);
        expect(await read(`/api/transactions?from=${account}`)).toMatchObject([{ status }]);
        expect(await read(`/api/transactions/${id}`)).toMatchObject({ status });
      }
    } finally {
      await agent.close();
    }
  });

  async function readFrom(cacheStatus: string, id: number): Promise<Answer> {
    const answer = await readTransaction(shared.url, id);
    expect(answer.status).toBe(200);
    expect(answer.headers['cache-status']).toBe(cacheStatus);
    return answer;
  }

  function entry(id: number): Promise<Answer> {
    return ask(`${shared.url}/api/health/redis/key/transactionCache::${id}`);
  }

  async function expectEntry(id: number, status: string): Promise<void> {
    const answer = await entry(id);
    expect(answer.status, answer.text).toBe(200);
    const held = answer.json<{ key: string; value: unknown; ttlSeconds: number }>();
    expect(held.key).toBe(`transactionCache::${id}`);
    // How an entry is written down is the service's own affair; that it is this one's, with this status, is not.
    expect(JSON.stringify(held.value)).toContain(String(id));
    expect(JSON.stringify(held.value)).toContain(status);
    expect(held.ttlSeconds).toBeGreaterThanOrEqual(1);
    expect(held.ttlSeconds).toBeLessThanOrEqual(300);
  }

  async function expectNoEntry(id: number): Promise<void> {
    expectError(await entry(id), 404, `Key 'transactionCache::${id}' not found.`);
  }
});

describeDeployments('a cache entry', (deployment) => {
  const shared = shareService(deployment, { TRANSACTION_CACHE_TTL_SECONDS: '1' });

  it('lives as long as it is set to, however often it is read, and is made anew after that', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    const cacheStatus = async () => (await readTransaction(shared.url, transactionId)).headers['cache-status'];
    expect(await cacheStatus()).toBe(MISS);
    expect(await cacheStatus()).toBe(HIT);
    await until('a miss once the entry has expired', 10_000, async () => (await cacheStatus()) === MISS);
    expect(await cacheStatus()).toBe(HIT);
  });
});
