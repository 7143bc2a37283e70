import { once } from 'node:events';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { givenTransaction, idsOf, listTransactions, newAccount } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import type { Service } from '../../testkit/processes/service.js';
import { storeTransactions } from '../../testkit/protocol/stored-rows.js';
import { runSql } from '../../testkit/servers/postgres.js';
import { patience } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

/** Some 14 MB: more than is read ahead and what the kernel holds for a client that takes nothing. */
const LONG_LIST = 22_000;
/** More than there are snapshots for long lists on the deployment. */
const STALLED = { embedded: { readers: 100, snapshots: 96 }, distributed: { readers: 6, snapshots: 3 } };
const MANY_READERS = 40;
/** A list of one page; it waited for eight seconds and more, until all readers were read ahead for and cut off. */
const SHORT_LIST = 300;
const SHORT_WITHIN_MS = 2_000;
/** Sooner than the half minute for which a client that stalled kept its snapshot before. */
const ANSWERED_WITHIN_MS = 25_000;
const BEGIN_DEADLINE_MS = 40_000;
/** Some 6 MB: more than the kernel holds for a client that takes nothing, and with that not more than is read ahead. */
const SHORTER_LIST = 9_000;
/** Sooner than a client that stalls is cut off for that alone. */
const DEADLINE_MS = 9_000;
/** Far sooner than that. */
const SOON_MS = 5_000;

/**
 * Bug: as many clients as there are snapshots could stop reading, and so block every list for everyone. Cause: a
 * snapshot was held for as long as its client took to read. Fix: `test/unit/list-reply.test.ts`.
 */
describeDeployments('clients that stop reading a long list', (deployment) => {
  let stores: Stores;
  let service: Service;
  let sockets: Socket[];

  beforeEach(async () => {
    stores = await deployment.open();
    await (await stores.start()).stop();
  });
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    await stores.close();
  });

  async function startWith(count: number): Promise<void> {
    await storeTransactions(stores, count);
    service = await stores.start();
  }

  /** They ask for the list of everything, and read no more than its beginning. Resolves when this number have that. */
  async function stallReaders(count: number, begun: number): Promise<void> {
    let reading = 0;
    sockets = Array.from({ length: count }, () => {
      const socket = openConnection(service.port, requestText('GET /api/transactions HTTP/1.1'));
      return socket.once('data', () => {
        socket.pause();
        reading += 1;
      });
    });
    await until('the lists to begin', BEGIN_DEADLINE_MS, () => reading >= begun);
  }

  it('do not deny lists to those who read them', async () => {
    await startWith(LONG_LIST);
    const account = newAccount();
    const { transactionId } = await givenTransaction(service.url, { fromAccount: account });
    const { readers, snapshots } = deployment.name === 'embedded' ? STALLED.embedded : STALLED.distributed;
    await stallReaders(readers, snapshots);
    // A client that gets 503 repeats; on a busy machine reading ahead for all the others takes a while.
    const list = await until('a list to be answered', ANSWERED_WITHIN_MS, async () => {
      const answer = await listTransactions(service.url, { from: account });
      return answer.status === 200 && answer;
    });
    expect(idsOf(list)).toEqual([transactionId]);
  });

  it('delay neither a short list nor a long one', async () => {
    await startWith(LONG_LIST);
    const account = newAccount();
    await inParallel(SHORT_LIST, 48, () => givenTransaction(service.url, { fromAccount: account }));
    await stallReaders(MANY_READERS, 1);
    for (let times = 0; times < 10; times += 1) {
      const begun = performance.now();
      const list = await listTransactions(service.url, { from: account });
      expect([list.status, idsOf(list).length]).toEqual([200, SHORT_LIST]);
      expect(performance.now() - begun).toBeLessThan(patience(SHORT_WITHIN_MS));
    }
    const newcomer = openConnection(service.port, requestText('GET /api/transactions HTTP/1.1'));
    sockets.push(newcomer);
    const begun = performance.now();
    const [head] = await once(newcomer, 'data');
    expect(String(head)).toMatch(/^HTTP\/1.1 200/);
    expect(performance.now() - begun).toBeLessThan(patience(SOON_MS));
  });

  it('hold no snapshot of a list of a few megabytes', async () => {
    await startWith(SHORTER_LIST);
    await stallReaders(3, 3);
    await until('no snapshot to be held', DEADLINE_MS, async () => {
      await inParallel(500, 48, () => givenTransaction(service.url));
      return isTidy(stores.environment);
    });
    for (const socket of sockets) expect(socket.destroyed).toBe(false);
  });

  it('hold no snapshot for requests behind one another when they are gone', async () => {
    await startWith(LONG_LIST);
    const list = requestText('GET /api/transactions HTTP/1.1');
    const socket = openConnection(service.port, list.repeat(3));
    sockets = [socket];
    await once(socket, 'data');
    socket.resetAndDestroy();
    await until('no snapshot to be held', SOON_MS, async () => {
      await inParallel(500, 48, () => givenTransaction(service.url));
      return isTidy(stores.environment);
    });
  });
});

/** In SQLite the log begins anew when nobody needs its old frames; PostgreSQL says who is in a transaction. */
async function isTidy({ DATA_DIR, DATABASE_URL }: Record<string, string>): Promise<boolean> {
  if (DATABASE_URL) {
    const inTransaction = "datname = current_database() AND state LIKE 'idle in transaction%'";
    return (await runSql(DATABASE_URL, `SELECT FROM pg_stat_activity WHERE ${inTransaction}`)).length === 0;
  }
  const database = new DatabaseSync(join(DATA_DIR ?? '', 'idempay.sqlite'));
  try {
    const row = database.prepare('PRAGMA wal_checkpoint(RESTART)').get() as Record<string, number>;
    // Busy is 1 while somebody still reads what the log held before.
    return row.busy === 0 && row.log === row.checkpointed;
  } finally {
    database.close();
  }
}
