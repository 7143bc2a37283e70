import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KeyNames } from '#idempay/deployments/distributed/redis/key-names.js';
import { expectError } from '../../testkit/client/error-body.js';
import {
  changeStatus,
  deleteTransaction,
  expectUnknownTransaction,
  givenTransaction,
  readTransaction,
  type Status,
  type Transaction,
} from '../../testkit/client/transactions.js';
import {
  APPEND_ONLY,
  type DistributedStores,
  executionOf,
  openDistributedStores,
  openWires,
} from '../../testkit/deployments/distributed-stores.js';
import type { Service } from '../../testkit/processes/service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const CACHE_ENTRY = 'transaction';

/** What must never happen: a change was acknowledged, and a later read by id shows what was before it. */
describe('a cache entry older than an acknowledged write', () => {
  let stores: DistributedStores;
  let wires: Awaited<ReturnType<typeof openWires>>;
  /** `writer` reaches both servers through the wires, `reader` directly. */
  let writer: Pick<ServiceInProcess, 'url'>;
  let reader: ServiceInProcess;
  let names: KeyNames;

  beforeEach(async () => {
    stores = await openDistributedStores(APPEND_ONLY);
    wires = await openWires(stores);
    [writer, reader] = [await stores.serve(wires.environment), await stores.serve()];
    names = await stores.keyNames();
    // Redis knows the scripts from here on: each step is one command and one reply.
    const { transactionId: id } = await givenTransaction(writer.url);
    await readTransaction(writer.url, id);
    expect((await changeStatus(writer.url, id, 'FLAGGED')).status).toBe(200);
  });
  afterEach(async () => {
    await stores.close();
    await wires.close();
  });

  /** One that can be stopped. */
  async function startWriter(): Promise<Service> {
    const process = await stores.start(wires.environment);
    writer = process;
    return process;
  }

  const entryOf = (id: number) => names.cached(id).entry;
  const marksOf = (id: number) => names.cached(id).marks;

  async function read(url: string, id: number): Promise<{ status: Status | 404; cache: unknown }> {
    const answer = await readTransaction(url, id);
    const status = answer.status === 404 ? 404 : answer.json<Transaction>().status;
    return { status, cache: answer.headers['cache-status'] };
  }

  async function rowStatus(id: number): Promise<Status> {
    const [row] = await stores.sql<{ status: Status }>('SELECT status FROM idempay.transactions WHERE id = $1', [id]);
    return row?.status as Status;
  }

  /** A transaction whose entry is in the cache, shown by a hit. */
  async function cachedTransaction(): Promise<number> {
    const { transactionId: id } = await givenTransaction(reader.url);
    await read(reader.url, id);
    expect(await read(reader.url, id)).toEqual({ status: 'PENDING', cache: 'transactionCache; hit' });
    return id;
  }

  /** Both processes are connected to Redis again, so that a change goes through. */
  async function backInService(id: number, status: Status): Promise<void> {
    for (const { url } of [reader, writer]) {
      await until('a status change to be taken', DEADLINE_MS, async () => {
        return (await changeStatus(url, id, status)).status === 200;
      });
    }
  }

  it('does not come back with the append-only file of a Redis that was killed while its status changed', async () => {
    const id = await cachedTransaction();
    const other = (await givenTransaction(reader.url)).transactionId;
    await stores.redis.kill();
    expectError(await changeStatus(writer.url, id, 'FLAGGED'), 503);
    expect(await rowStatus(id)).toBe('PENDING');
    // A change past the service: were the old entry ever served again, it would be seen at once.
    await stores.sql("UPDATE idempay.transactions SET status = 'ON_HOLD', version = version + 1 WHERE id = $1", [id]);
    await stores.redis.start();
    // Else the old entry is not there, and the test shows nothing.
    expect(await stores.redis.client.hget(entryOf(id), CACHE_ENTRY)).toContain('PENDING');

    await backInService(other, 'FLAGGED');
    for (const { url } of [reader, writer]) expect((await read(url, id)).status).toBe('ON_HOLD');
    expect(await read(reader.url, id)).toEqual({ status: 'ON_HOLD', cache: 'transactionCache; hit' });
  });

  it('is not stored by a reader whose token was given by the Redis before its restart', async () => {
    const { transactionId: id } = await givenTransaction(reader.url);
    const other = (await givenTransaction(reader.url)).transactionId;
    // The row was read, and is on its way back to the reader behind the wire.
    const load = wires.postgres.hold(executionOf('find_transaction'), 'reply');
    const reading = readTransaction(writer.url, id);
    await load.reached;
    await stores.redis.kill();
    await stores.redis.start();
    await backInService(other, 'FLAGGED');
    expect((await changeStatus(reader.url, id, 'FLAGGED')).status).toBe(200);
    load.release();
    await reading;

    for (const { url } of [reader, writer, reader]) expect((await read(url, id)).status).toBe('FLAGGED');
  });

  it('is not stored by a reader that read before the change and fills after it', async () => {
    const { transactionId: id } = await givenTransaction(reader.url);
    const load = wires.postgres.hold(executionOf('find_transaction'), 'reply');
    const reading = readTransaction(writer.url, id);
    await load.reached;
    expect((await changeStatus(reader.url, id, 'FLAGGED')).status).toBe(200);
    await stores.redis.client.del(entryOf(id));
    load.release();
    await reading;

    for (const { url } of [writer, reader]) expect((await read(url, id)).status).toBe('FLAGGED');
  });

  it('is not left when FLUSHALL takes the mark between mark and commit and a reader fills the old row', async () => {
    const id = await cachedTransaction();
    const change = wires.postgres.hold(executionOf('change_status'), 'request');
    const changing = changeStatus(writer.url, id, 'FLAGGED');
    await change.reached;
    await stores.redis.client.flushall();
    await read(reader.url, id);
    expect(await read(reader.url, id)).toEqual({ status: 'PENDING', cache: 'transactionCache; hit' });
    change.release();
    expect((await changing).status).toBe(200);

    for (const { url } of [reader, writer]) expect((await read(url, id)).status).toBe('FLAGGED');
  });

  it('is not left by a delete whose mark is lost with a restart of Redis before the commit', async () => {
    const id = await cachedTransaction();
    const other = (await givenTransaction(reader.url)).transactionId;
    const removal = wires.postgres.hold(executionOf('remove_transaction'), 'request');
    const removing = deleteTransaction(writer.url, id);
    await removal.reached;
    await stores.redis.kill();
    await stores.redis.start();
    removal.release();
    // Acknowledged or not: the row is gone or not, and every read agrees with the row.
    const { status } = await removing;
    expect([204, 503]).toContain(status);
    await backInService(other, 'FLAGGED');
    const gone = (await rowStatus(id)) === undefined;
    if (status === 204) expect(gone).toBe(true);
    for (const { url } of [reader, writer]) {
      const answer = await readTransaction(url, id);
      if (gone) expectUnknownTransaction(answer, id);
      else expect(answer.json<Transaction>().status).toBe('PENDING');
    }
  });

  it('is not left by a change that was held on its way to PostgreSQL until its mark was over', async () => {
    const id = await cachedTransaction();
    const change = wires.postgres.hold(executionOf('change_status'), 'request');
    const changing = changeStatus(writer.url, id, 'FLAGGED');
    await change.reached;
    await expectFilledAfterMark(id);
    change.release();
    await expectAgreement(id, (await changing).status);
  }, 60_000);

  it('is not left by a process that was stopped between mark and commit for longer than the mark lives', async () => {
    const id = await cachedTransaction();
    const stopped = await startWriter();
    const mark = wires.redis.hold(marksOf(id), 'reply');
    const changing = changeStatus(writer.url, id, 'FLAGGED');
    await mark.reached;
    stopped.signal('SIGSTOP');
    mark.release();
    await expectFilledAfterMark(id);
    stopped.signal('SIGCONT');
    await expectAgreement(id, (await changing).status);
  }, 60_000);

  it('is not left by a process that was stopped between commit and acknowledgement for longer', async () => {
    const id = await cachedTransaction();
    const stopped = await startWriter();
    const change = wires.postgres.hold(executionOf('change_status'), 'reply');
    const changing = changeStatus(writer.url, id, 'FLAGGED');
    await change.reached;
    stopped.signal('SIGSTOP');
    change.release();
    expect((await read(reader.url, id)).status).toBe('FLAGGED');
    expect((await changeStatus(reader.url, id, 'ON_HOLD')).status).toBe(200);
    await until('the mark to be over', DEADLINE_MS, async () => (await stores.redis.client.exists(marksOf(id))) === 0);
    await read(reader.url, id);
    stopped.signal('SIGCONT');
    await changing;
    for (const { url } of [reader, writer, reader]) expect((await read(url, id)).status).toBe('ON_HOLD');
  }, 60_000);

  /** While the mark stands nothing is a hit; after it the old row, which still is the row, is in the cache again. */
  async function expectFilledAfterMark(id: number): Promise<void> {
    expect(await read(reader.url, id)).toEqual({ status: 'PENDING', cache: 'transactionCache; fwd=bypass' });
    await until('the mark to be over', DEADLINE_MS, async () => (await stores.redis.client.exists(marksOf(id))) === 0);
    await read(reader.url, id);
    expect(await read(reader.url, id)).toEqual({ status: 'PENDING', cache: 'transactionCache; hit' });
  }

  /** An acknowledged change is in the row; and whatever is in the row, now and a little later, is what reads show. */
  async function expectAgreement(id: number, answered: number): Promise<void> {
    expect([200, 503]).toContain(answered);
    // A statement that was held reaches PostgreSQL after its sender gave up; its connection is gone once it is done.
    await until('PostgreSQL to be at rest', DEADLINE_MS, async () => {
      const active = await stores.sql(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'idempay' AND state = 'active'",
      );
      return active.length === 0;
    });
    const row = await rowStatus(id);
    if (answered === 200) expect(row).toBe('FLAGGED');
    for (const { url } of [reader, writer, reader]) expect((await read(url, id)).status).toBe(row);
  }
});
