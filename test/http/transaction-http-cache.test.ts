import { Agent, cacheStores, interceptors } from 'undici';
import { afterEach, expect, it } from 'vitest';
import { tagOf } from '../../testkit/client/entity-tags.js';
import {
  changeStatus,
  givenTransaction,
  listTransactions,
  MOVABLE_STATUSES,
  newAccount,
  type Transaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/**
 * Bug: a client behind an HTTP cache was shown old statuses in a list. Cause: the cache kept the list, revalidated it with its
 * tag, and the tag says nothing about statuses. Fix: lists are not kept (decisions T7).
 */
describeDeployments('an HTTP cache between client and service', (deployment) => {
  const shared = shareService(deployment);
  const agents: Agent[] = [];
  afterEach(() => Promise.all(agents.splice(0).map((agent) => agent.close())));

  /** As a browser's own cache: it keeps what is private, too. */
  function cachingClient(): (path: string) => Promise<unknown> {
    const agent = new Agent();
    agents.push(agent);
    const store = new cacheStores.MemoryCacheStore();
    const caching = agent.compose(interceptors.cache({ store, type: 'private' }));
    return async (path) => {
      const { body } = await caching.request({ origin: shared.url, path, method: 'GET' });
      return body.json();
    };
  }

  it('never shows an old status in a list, or of one transaction', async () => {
    const read = cachingClient();
    const account = newAccount();
    const { transactionId } = await givenTransaction(shared.url, { fromAccount: account });
    for (const status of MOVABLE_STATUSES) {
      await changeStatus(shared.url, transactionId, status);
      const list = (await read(`/api/transactions?from=${account}`)) as Transaction[];
      expect(list.map((transaction) => transaction.status)).toEqual([status]);
      expect(await read(`/api/transactions/${transactionId}`)).toMatchObject({ status });
    }
  });

  it('does not keep a client from asking with If-None-Match itself', async () => {
    const account = newAccount();
    await givenTransaction(shared.url, { fromAccount: account });
    const list = await listTransactions(shared.url, { from: account });
    const condition = { 'If-None-Match': `"${tagOf(list)}"` };
    expect((await listTransactions(shared.url, { from: account }, condition)).status).toBe(304);
  });
});
