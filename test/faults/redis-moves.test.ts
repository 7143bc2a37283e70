import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { expectShown, untilFullService } from '../../testkit/client/full-service.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { type DistributedStores, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { until } from '../../testkit/time/until.js';

/**
 * Bug: a read by id showed the version before an acknowledged change while the entry lived. Cause: the address of Redis led to a promoted
 * replica and then back to the first master, which was never demoted. It had the same replication id as before, so its entries counted, and
 * it had never heard of the writes between. Fix: changes of the master are recorded in PostgreSQL as epochs. An entry counts in its own
 * epoch only, a connection is looked at before the cache is used over it, and a change commits only in the epoch of its mark.
 */

const SYNC_DEADLINE_MS = 20_000;
/** A process that kept its connection learns of the move by the question of each second. */
const LEARNT_DEADLINE_MS = 10_000;
const HIT = 'transactionCache; hit';

describe('an address of Redis that moves and comes back', () => {
  let stores: DistributedStores;
  let first: RedisServer;
  let second: RedisServer;
  /** The address, of one process each, so that one may see a move that the other does not see. */
  let wires: [TcpProxy, TcpProxy];
  let urls: [string, string];

  beforeAll(async () => {
    stores = await openDistributedStores();
    first = stores.redis;
    second = await startRedis(['--repl-diskless-sync-delay', '0']);
    wires = [await startTcpProxy(first.port), await startTcpProxy(first.port)];
    const services = await Promise.all(wires.map((wire) => stores.serve({ REDIS_URL: wire.through(first.url) })));
    urls = services.map(({ url }) => url) as [string, string];
  });
  afterAll(async () => {
    await stores?.close();
    await Promise.all([second?.close(), ...(wires ?? []).map((wire) => wire.close())]);
  });

  beforeEach(async () => {
    await second.client.replicaof('127.0.0.1', first.port);
    await until('the replica to be in step', SYNC_DEADLINE_MS, async () =>
      (await second.client.info('replication')).includes('master_link_status:up'),
    );
    await moveTo(first);
  });

  async function moveTo(server: RedisServer, moved: readonly TcpProxy[] = wires): Promise<void> {
    for (const wire of moved) wire.leadTo(server.port);
    const reached = urls.filter((_, index) => moved.includes(wires[index] as TcpProxy));
    await untilFullService(...reached);
  }
  const promoteSecond = () => second.client.replicaof('NO', 'ONE');
  const readAt = async (url: string, id: number) => {
    const { status, headers, text } = await readTransaction(url, id);
    return { shown: status === 200 ? JSON.parse(text).status : status, cache: headers['cache-status'] };
  };

  /** Read until it is a hit: after a move the cache is used when the new connection has been looked at. */
  async function cachedTransaction(): Promise<number> {
    const { transactionId: id } = await givenTransaction(urls[0]);
    for (const url of urls) {
      await until('a hit', LEARNT_DEADLINE_MS, async () => (await readAt(url, id)).cache === HIT);
    }
    return id;
  }

  test('shows no entry of the first master that is older than a change or a delete at the other one', async () => {
    const [changed, deleted, alone] = [await cachedTransaction(), await cachedTransaction(), await cachedTransaction()];
    await promoteSecond();
    await moveTo(second);
    expect((await changeStatus(urls[0], changed, 'FLAGGED')).status).toBe(200);
    expect((await deleteTransaction(urls[1], deleted)).status).toBe(204);
    await moveTo(first);
    // Else the old entries are not there, and the test shows nothing.
    const names = await stores.keyNames();
    for (const id of [changed, deleted, alone]) {
      expect(await first.client.hget(names.cached(id).entry, 'transaction')).toContain('PENDING');
    }
    await expectShown(urls, changed, 'FLAGGED');
    await expectShown(urls, deleted, 404);
    await until('a hit', LEARNT_DEADLINE_MS, async () => (await readAt(urls[0], changed)).cache === HIT);
    await expectShown(urls, changed, 'FLAGGED');
  });

  test('shows none either at a process that never reached the other one', async () => {
    const id = await cachedTransaction();
    await promoteSecond();
    wires[1].cutOff();
    await moveTo(second, [wires[0]]);
    expect((await changeStatus(urls[0], id, 'FLAGGED')).status).toBe(200);
    wires[0].leadTo(first.port);
    wires[1].heal();
    // From the first read on, whatever it takes its answer from.
    for (let reads = 0; reads < 50; reads += 1) {
      for (const url of urls) expect((await readAt(url, id)).shown).toBe('FLAGGED');
    }
    await untilFullService(...urls);
    await expectShown(urls, id, 'FLAGGED');
  });

  test('is left within seconds by a process whose connections the move did not cut', async () => {
    const id = await cachedTransaction();
    await promoteSecond();
    await moveTo(second, [wires[0]]);
    // While the processes see different masters, the epoch may change before the commit: then the change is refused, and repeated.
    await until(
      'the change',
      LEARNT_DEADLINE_MS,
      async () => (await changeStatus(urls[0], id, 'FLAGGED')).status === 200,
    );
    await until(
      'the change to be shown',
      LEARNT_DEADLINE_MS,
      async () => (await readAt(urls[1], id)).shown === 'FLAGGED',
    );
    await moveTo(second);
    await expectShown(urls, id, 'FLAGGED');
  });

  test('lets no change through whose mark is at the first master when others already read at the second', async () => {
    const id = await cachedTransaction();
    await promoteSecond();
    const held = stores.wires.postgres;
    const { url: writer, stop } = await stores.serve({
      REDIS_URL: first.url,
      DATABASE_URL: stores.wires.environment.DATABASE_URL,
    });
    await until(
      'the writer to be at the first',
      LEARNT_DEADLINE_MS,
      async () => (await readAt(writer, id)).cache === HIT,
    );
    const commit = held.hold('\0change_status\0', 'request');
    const writing = changeStatus(writer, id, 'FLAGGED');
    await commit.reached;
    // The mark stands at the first master. Now the others fill the second, of which the mark knows nothing.
    await moveTo(second);
    await until('a hit at the second', LEARNT_DEADLINE_MS, async () => (await readAt(urls[0], id)).cache === HIT);
    commit.release();
    const { status } = await writing;
    const shown = status === 200 ? 'FLAGGED' : 'PENDING';
    const [row] = await stores.sql('SELECT status FROM idempay.transactions WHERE id = $1', [id]);
    expect([status, row]).toEqual([503, { status: shown }]);
    await expectShown(urls, id, shown);
    await stop();
  });
});
