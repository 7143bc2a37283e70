import { Agent, cacheStores, interceptors } from 'undici';
import { describe, expect, it } from 'vitest';
import { expectNotModified, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import type { Answer } from '../../testkit/client/http-client.js';
import { keyRecord } from '../../testkit/client/payment-answers.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  MOVABLE_STATUSES,
  newAccount,
  quoted,
  readTransaction,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { alongside, inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const HIT = 'transactionCache; hit';
const MISS = 'transactionCache; fwd=miss';
/** The state of a transaction after each of its writes. */
const LIFE = [...MOVABLE_STATUSES, ...MOVABLE_STATUSES, 'deleted'];
const READS_PER_WRITE = 10;
/** Less than the second that an entry lives. */
const SURELY_ALIVE_MS = 900;

describeDeployments('the cache of single transactions', (deployment) => {
  const shared = shareService(deployment);
  const given = async (members = {}) => (await givenTransaction(shared.url, members)).transactionId;
  const entry = (id: number) => keyRecord(shared.url, `transactionCache::${id}`);

  async function readFrom(cacheStatus: string, id: number): Promise<Answer> {
    const answer = await readTransaction(shared.url, id);
    expect([answer.status, answer.headers['cache-status']]).toEqual([200, cacheStatus]);
    return answer;
  }

  async function expectEntry(id: number, status: string): Promise<void> {
    const answer = await entry(id);
    expect(answer.status, answer.text).toBe(200);
    const held = answer.json<{ key: string; value: unknown; ttlSeconds: number }>();
    expect(held.key).toBe(`transactionCache::${id}`);
    // How an entry is written down is the service's own affair; that it is this one's, with this status, is not.
    for (const part of [String(id), status]) expect(JSON.stringify(held.value)).toContain(part);
    expect(held.ttlSeconds).toBeGreaterThanOrEqual(1);
    expect(held.ttlSeconds).toBeLessThanOrEqual(300);
  }

  async function expectNoEntry(id: number): Promise<void> {
    expectError(await entry(id), 404, `Key 'transactionCache::${id}' not found.`);
  }

  it('misses the first read and hits the next ones, with the same answer, also for a 304 and HEAD', async () => {
    const id = await given();
    await expectNoEntry(id);
    const first = await readFrom(MISS, id);
    await expectEntry(id, 'PENDING');
    const next = await readFrom(HIT, id);
    expect([next.text, next.headers.etag]).toEqual([first.text, first.headers.etag]);
    const notModified = await readTransaction(shared.url, id, { 'If-None-Match': quoted(tagOf(first)) });
    expectNotModified(notModified, tagOf(first));
    const head = await readTransaction(shared.url, id, {}, 'HEAD');
    for (const { headers } of [notModified, head]) expect(headers['cache-status']).toBe(HIT);
  });

  it.each([false, true])('hits with the new status after a status change; read before: %s', async (isCached) => {
    const id = await given();
    if (isCached) await readFrom(MISS, id);
    // The status that it has already is as good as any other.
    for (const status of ['PENDING', 'PROCESSING', 'CANCELLED']) {
      await changeStatus(shared.url, id, status);
      await expectEntry(id, status);
      expect((await readFrom(HIT, id)).json<Transaction>().status).toBe(status);
    }
  });

  it('forgets a deleted transaction, and holds nothing for an id that a request did not find', async () => {
    const id = await given();
    await readFrom(MISS, id);
    await deleteTransaction(shared.url, id);
    await expectNoEntry(id);
    for (const request of [readTransaction, deleteTransaction]) {
      expectError(await request(shared.url, id), 404);
      await expectNoEntry(id);
    }
    expectError(await changeStatus(shared.url, id, 'FLAGGED'), 404);
    await expectNoEntry(id);
  });

  it('does not remember that a transaction was not there', async () => {
    const last = await given();
    for (let id = last + 1; id <= last + 10; id++) expectError(await readTransaction(shared.url, id), 404);
    const next = await givenTransaction(shared.url);
    // Otherwise this id was never asked for, and the test proves nothing.
    expect(next.transactionId).toBeLessThanOrEqual(last + 10);
    expect((await readTransaction(shared.url, next.transactionId)).json()).toEqual(next);
  });

  /**
   * Bug: a client behind an HTTP cache was shown old statuses in a list. Cause: the cache kept the list, revalidated it with
   * its tag, and the tag says nothing about statuses. Fix: lists are not kept (rule T7).
   */
  it('does not make an HTTP cache show an old status in a list, or of one transaction', async () => {
    const agent = new Agent();
    // As a browser's own cache: it keeps what is private, too.
    const store = new cacheStores.MemoryCacheStore();
    const caching = agent.compose(interceptors.cache({ store, type: 'private' }));
    const read = async (path: string) =>
      (await caching.request({ origin: shared.url, path, method: 'GET' })).body.json();
    const account = newAccount();
    const id = await given({ fromAccount: account });
    for (const status of MOVABLE_STATUSES) {
      await changeStatus(shared.url, id, status);
      expect(await read(`/api/transactions?from=${account}`)).toMatchObject([{ status }]);
      expect(await read(`/api/transactions/${id}`)).toMatchObject({ status });
    }
    await agent.close();
  });

  describe('a read by id', () => {
    it('that starts after a change or delete was acknowledged never shows what was before it', async () => {
      await inParallel(6, 6, async () => {
        const id = await given();
        let [begun, acknowledged, reads] = [0, 0, 0];
        const read = async () => {
          const oldest = acknowledged;
          const answer = await readTransaction(shared.url, id);
          const shown = answer.status === 404 ? 'deleted' : answer.json<Transaction>().status;
          expect(LIFE.slice(oldest, begun + 1), `what writes ${oldest} to ${begun} made`).toContain(shown);
          reads += 1;
        };
        // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the writer and its readers share the counts by which a read is judged.
        await alongside(3, read, async () => {
          for (const state of LIFE.slice(1)) {
            begun += 1;
            const isDelete = state === 'deleted';
            const write = isDelete ? deleteTransaction(shared.url, id) : changeStatus(shared.url, id, state);
            expect((await write).status).toBe(isDelete ? 204 : 200);
            acknowledged = begun;
            await read();
            const enough = reads + READS_PER_WRITE;
            await until('reads after the write', 20_000, () => reads >= enough);
          }
        });
      });
    });

    it('that is concurrent with other reads and a change leaves no old entry in the cache', async () => {
      for (let round = 0; round < 25; round++) {
        const created = await givenTransaction(shared.url);
        const reads = () => Array.from({ length: 8 }, () => readTransaction(shared.url, created.transactionId));
        if (round % 2 === 0) for (const answer of await Promise.all(reads())) expect(answer.json()).toEqual(created);
        const [changed] = await Promise.all([changeStatus(shared.url, created.transactionId, 'FLAGGED'), ...reads()]);
        expect(changed.status).toBe(200);
        expect((await readTransaction(shared.url, created.transactionId)).text).toBe(changed.text);
      }
    });
  });
});

describeDeployments('a cache entry', (deployment) => {
  const shared = shareService(deployment, { TRANSACTION_CACHE_TTL_SECONDS: '1' });

  it('lives as long as it is set to, however often it is read, and is made anew after that', async () => {
    const cacheStatus = async (id: number) => (await readTransaction(shared.url, id)).headers['cache-status'];
    /** The statuses of two reads, if an entry that the first has made surely lived at the second. */
    const readTwice = async (id: number) => {
      const begunMs = performance.now();
      const statuses = [await cacheStatus(id), await cacheStatus(id)];
      return performance.now() - begunMs < SURELY_ALIVE_MS && statuses;
    };
    const { id, statuses } = await until('two reads in time', 10_000, async () => {
      const { transactionId: id } = await givenTransaction(shared.url);
      const statuses = await readTwice(id);
      return statuses && { id, statuses };
    });
    expect(statuses).toEqual([MISS, HIT]);
    const later = await until('a miss once the entry has expired', 10_000, async () => {
      const again = await readTwice(id);
      return again && again[0] === MISS && again;
    });
    expect(later).toEqual([MISS, HIT]);
  });
});
