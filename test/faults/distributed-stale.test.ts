import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { expectShown, untilFullService } from '../../testkit/client/full-service.js';
import type { Answer } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  deleteTransaction,
  givenTransaction,
  readTransaction,
} from '../../testkit/client/transactions.js';
import { APPEND_ONLY, executionOf, openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;
const HIT = 'transactionCache; hit';

type Write = (url: string, id: number) => Promise<Answer>;

const stores = await openDistributedStores(APPEND_ONLY);
afterAll(() => stores.close());
const { wires } = stores;
/** `writer` reaches both servers through the wires, `reader` directly. */
const { url: writer } = await stores.serve(wires.environment);
const { url: reader } = await stores.serve();
const names = await stores.keyNames();

/** This must never happen: a change was acknowledged, and a later read by id shows the row of before. */
describe('a cache entry older than an acknowledged write', () => {
  beforeEach(() => untilFullService(reader, writer));

  const flag: Write = (url, id) => changeStatus(url, id, 'FLAGGED');

  async function restartRedis(): Promise<void> {
    await stores.redis.kill();
    await stores.redis.start();
  }

  async function expectHit(id: number, status = 'PENDING'): Promise<void> {
    const answer = await readTransaction(reader, id);
    expect([answer.json<{ status: string }>().status, answer.headers['cache-status']]).toEqual([status, HIT]);
  }

  /** A transaction whose entry is in the cache. */
  async function cachedTransaction(): Promise<number> {
    const { transactionId: id } = await givenTransaction(reader);
    await readTransaction(reader, id);
    await expectHit(id);
    return id;
  }

  async function rowStatus(id: number): Promise<string | 404> {
    const [row] = await stores.sql<{ status: string }>('SELECT status FROM idempay.transactions WHERE id = $1', [id]);
    return row?.status ?? 404;
  }

  test('does not come back with the append-only file of a Redis that was killed while its status changed', async () => {
    const id = await cachedTransaction();
    await stores.redis.kill();
    expectError(await flag(writer, id), 503);
    expect(await rowStatus(id)).toBe('PENDING');
    // A change past the service: were the old entry ever served again, it would be seen at once.
    await stores.sql("UPDATE idempay.transactions SET status = 'ON_HOLD', version = version + 1 WHERE id = $1", [id]);
    await stores.redis.start();
    // Else the old entry is not there, and the test shows nothing.
    expect(await stores.redis.client.hget(names.cached(id).entry, 'transaction')).toContain('PENDING');

    await untilFullService(reader, writer);
    await expectShown([reader, writer], id, 'ON_HOLD');
    await expectHit(id, 'ON_HOLD');
  });

  test('is not stored by a reader whose token was given before a restart of Redis and a change', async () => {
    const { transactionId: id } = await givenTransaction(reader);
    // The row was read, and is on its way back to the reader behind the wire.
    const load = wires.postgres.hold(executionOf('find_transaction'), 'reply');
    const reading = readTransaction(writer, id);
    await load.reached;
    await restartRedis();
    await untilFullService(reader, writer);
    expect((await flag(reader, id)).status).toBe(200);
    load.release();
    await reading;
    await expectShown([reader, writer], id, 'FLAGGED');
  });

  const untilMarkIsOver = (id: number) =>
    until('the mark to be over', DEADLINE_MS, async () => {
      return (await stores.redis.client.exists(names.cached(id).marks)) === 0;
    });

  /** Fills the cache with the row before its change, which is still the current one. */
  async function fill(id: number): Promise<void> {
    await readTransaction(reader, id);
    await expectHit(id);
  }

  /** While the mark stands nothing is a hit. */
  async function fillAfterMark(id: number): Promise<void> {
    expect((await readTransaction(reader, id)).headers['cache-status']).toBe('transactionCache; fwd=bypass');
    await untilMarkIsOver(id);
    await fill(id);
  }

  async function changeAgain(id: number): Promise<void> {
    await expectShown([reader], id, 'FLAGGED');
    expect((await changeStatus(reader, id, 'ON_HOLD')).status).toBe(200);
    await untilMarkIsOver(id);
    await readTransaction(reader, id);
  }

  async function flushAndFill(id: number): Promise<void> {
    await stores.redis.client.flushall();
    await fill(id);
  }

  /** Held at a message to the store: its request does not arrive; or its reply, and then the process is stopped. */
  test.each<[string, Write, 'request' | 'reply', string, (id: number) => Promise<void>, acknowledged: string | 404]>([
    ['a change whose mark FLUSHALL took', flag, 'request', 'change_status', flushAndFill, 'FLAGGED'],
    ['a delete whose mark Redis lost', deleteTransaction, 'request', 'remove_transaction', restartRedis, 404],
    ['a change whose mark ended before its commit', flag, 'request', 'change_status', fillAfterMark, 'FLAGGED'],
    ['a process stopped between mark and commit', flag, 'reply', 'mark', fillAfterMark, 'FLAGGED'],
    ['a process stopped between commit and answer', flag, 'reply', 'change_status', changeAgain, 'ON_HOLD'],
  ])('is not left by %s', async (_title, write, what, message, meanwhile, acknowledged) => {
    const id = await cachedTransaction();
    const process = what === 'reply' ? await stores.start(wires.environment) : undefined;
    const at = process?.url ?? writer;
    const held =
      message === 'mark'
        ? wires.redis.hold(names.cached(id).marks, what)
        : wires.postgres.hold(executionOf(message), what);
    const writing = write(at, id);
    await held.reached;
    process?.signal('SIGSTOP');
    if (process) held.release();
    await meanwhile(id);
    held.release();
    process?.signal('SIGCONT');

    const { status } = await writing;
    // FLUSHALL takes the mark and no connection, so that the writer is as quick as ever.
    expect(meanwhile === flushAndFill ? [200] : [200, 204, 503]).toContain(status);
    // A statement that was held reaches PostgreSQL after its sender gave up; its connection is gone once it is done.
    await until('PostgreSQL to be at rest', DEADLINE_MS, async () => {
      const active = await stores.sql(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'idempay' AND state = 'active'",
      );
      return active.length === 0;
    });
    await untilFullService(reader, writer);
    // Acknowledged or not: whatever is in the row is what reads show.
    if (status !== 503 || acknowledged === 'ON_HOLD') expect(await rowStatus(id)).toBe(acknowledged);
    await expectShown([reader, at], id, await rowStatus(id));
  });
});
