import { describe, expect, it } from 'vitest';
import { expectNotModified } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
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

  it('misses the first read and hits the next ones, with the same answer', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    const first = await readFrom(MISS, transactionId);
    for (let n = 0; n < 3; n++) {
      const next = await readFrom(HIT, transactionId);
      expect(next.text).toBe(first.text);
      expect(next.headers.etag).toBe(first.headers.etag);
    }
  });

  it('says what it did also when the answer is 304 or has no body', async () => {
    const created = await givenTransaction(shared.url);
    const tag = transactionTag(created);
    const condition = { 'If-None-Match': quoted(tag) };

    for (const expected of [MISS, HIT]) {
      const answer = await readTransaction(shared.url, created.transactionId, condition);
      expectNotModified(answer, tag);
      expect(answer.headers['cache-status']).toBe(expected);
    }
    const head = await readTransaction(shared.url, created.transactionId, {}, 'HEAD');
    expect(head.headers['cache-status']).toBe(HIT);
  });

  it('shows its entry under the name of the cache and the id', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    expectNoEntry(await entry(transactionId), transactionId);

    await readFrom(MISS, transactionId);
    await expectEntry(transactionId, 'PENDING');
  });

  describe('after a status change', () => {
    it('hits with the new status, and never had to be asked before', async () => {
      const { transactionId } = await givenTransaction(shared.url);
      await changeStatus(shared.url, transactionId, 'FLAGGED');
      await expectEntry(transactionId, 'FLAGGED');
      expect((await readFrom(HIT, transactionId)).json<Transaction>().status).toBe('FLAGGED');
    });

    it('hits with the new status in place of the old one', async () => {
      const { transactionId } = await givenTransaction(shared.url);
      await readFrom(MISS, transactionId);
      for (const status of ['PROCESSING', 'COMPLETED', 'CANCELLED']) {
        await changeStatus(shared.url, transactionId, status);
        expect((await readFrom(HIT, transactionId)).json<Transaction>().status).toBe(status);
        await expectEntry(transactionId, status);
      }
    });

    it('to the status that it has holds the entry, as after any other', async () => {
      const { transactionId } = await givenTransaction(shared.url);
      await changeStatus(shared.url, transactionId, 'PENDING');
      await expectEntry(transactionId, 'PENDING');
      expect((await readFrom(HIT, transactionId)).json<Transaction>().status).toBe('PENDING');
    });

    it('that was refused still tells the truth', async () => {
      const created = await givenTransaction(shared.url, { status: 'FAILED' });
      await readFrom(MISS, created.transactionId);
      expectError(await changeStatus(shared.url, created.transactionId, 'PENDING'), 409);
      const condition = { 'If-Match': '"other"' };
      expectError(await changeStatus(shared.url, created.transactionId, 'FAILED', condition), 412);
      expect((await readTransaction(shared.url, created.transactionId)).json()).toEqual(created);
    });
  });

  it('forgets a deleted transaction', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    await readFrom(MISS, transactionId);
    await deleteTransaction(shared.url, transactionId);

    expectNoEntry(await entry(transactionId), transactionId);
    expectError(await readTransaction(shared.url, transactionId), 404);
    expectNoEntry(await entry(transactionId), transactionId);
  });

  it('does not remember that a transaction was not there', async () => {
    const { transactionId: last } = await givenTransaction(shared.url);
    for (let id = last + 1; id <= last + 10; id++) {
      expectError(await readTransaction(shared.url, id), 404);
      expectNoEntry(await entry(id), id);
    }
    const next = await givenTransaction(shared.url);
    // Otherwise this id was never asked for, and the test proves nothing.
    expect(next.transactionId).toBeLessThanOrEqual(last + 10);
    expect((await readTransaction(shared.url, next.transactionId)).json()).toEqual(next);
  });

  it('holds nothing for an id that a change or a delete did not find', async () => {
    const { transactionId } = await givenTransaction(shared.url);
    await readFrom(MISS, transactionId);
    await deleteTransaction(shared.url, transactionId);

    expectError(await changeStatus(shared.url, transactionId, 'FLAGGED'), 404);
    expectNoEntry(await entry(transactionId), transactionId);
    expectError(await deleteTransaction(shared.url, transactionId), 404);
    expectNoEntry(await entry(transactionId), transactionId);
  });

  it('keeps the transactions apart', async () => {
    const created = await Promise.all(Array.from({ length: 30 }, () => givenTransaction(shared.url)));
    for (let round = 0; round < 2; round++) {
      const read = await Promise.all(created.map(({ transactionId }) => readTransaction(shared.url, transactionId)));
      expect(read.map((answer) => answer.json())).toEqual(created);
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

  function expectNoEntry(answer: Answer, id: number): void {
    expectError(answer, 404, `Key 'transactionCache::${id}' not found.`);
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
