import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ask, pay, transactionIdOf } from '../../testkit/client/http-client.js';
import { postTransaction, type Transaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { type PostgresServer, startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { type Standby, startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

const DATABASE = 'idempay';
const CLIENTS = 12;
const CHARGE_MS = 150;
/** Until then the standby receives everything, then it lags, and at last it is promoted. */
const IN_STEP_MS = 2_000;
const LAG_MS = 1_500;
const AFTER_MS = 3_000;
const DEADLINE_MS = 60_000;
const TEST_MS = 240_000;
const MAX_KEYS = 2_000;

interface PaidKey {
  readonly key: string;
  readonly ids: Set<string>;
  lastStatus: number;
}

/**
 * A real primary and a standby that follows it asynchronously, is cut off from it under load, and is promoted. The charge
 * log of the reference processor is the judge. It charges whatever arrives; half of the tests say so to the service.
 */
describe('a failover of PostgreSQL that loses the newest rows', () => {
  let redis: RedisServer;
  let primary: PostgresServer;
  let standby: Standby;
  let replication: TcpProxy;
  let wire: TcpProxy;
  let processor: ReferenceProcessor;
  let services: Service[];

  beforeEach(async () => {
    services = [];
    [redis, primary, processor] = await Promise.all([startRedis(), startPostgres(), startReferenceProcessor()]);
    await primary.createDatabase(DATABASE);
    [replication, wire] = await Promise.all([startTcpProxy(primary.port), startTcpProxy(primary.port)]);
    standby = await startStandby(primary, portOf(replication));
  }, TEST_MS);
  afterEach(async () => {
    await Promise.all(services.map((service) => service.kill()));
    await standby?.close();
    await Promise.all([redis?.close(), primary?.close(), processor?.close(), replication?.close(), wire?.close()]);
  });

  function start(environment: Record<string, string>): Promise<Service> {
    const usual = { PROCESSOR_URL: processor.url, LOCK_TTL_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '1900' };
    const stores = { REDIS_URL: redis.url, DATABASE_URL: wire.through(primary.url(DATABASE)) };
    return startService({ ...usual, ...stores, ...environment });
  }

  it.each([
    ['does not deduplicate', false, '0'],
    ['deduplicates', true, '3600'],
  ])(
    'charges no key twice where the processor %s, and gives no transaction id twice',
    async (_title, deduplicate, dedupSeconds) => {
      const environment = { PROCESSOR_DEDUP_SECONDS: dedupSeconds };
      services = await Promise.all([start(environment), start(environment)]);
      await processor.behave({ latencyMs: CHARGE_MS, deduplicate });
      await until('the standby to have the schema', DEADLINE_MS, () =>
        standby.has(DATABASE, 'SELECT FROM idempay.deployment WHERE timeline IS NOT NULL'),
      );

      const keys: PaidKey[] = [];
      const created: number[] = [];
      const stop = new AbortController();
      const load = loadUntil(stop.signal, keys, created);
      await pause(IN_STEP_MS);
      replication.strand();
      await pause(LAG_MS);
      const createdBefore = created.length;
      await failOver();
      // In the middle of what it does: its charges go on, and nobody settles them.
      await services[0]?.kill();
      await pause(AFTER_MS);
      stop.abort();
      await load;
      services.push(await start(environment));

      await repeatAll(keys, dedupSeconds === '0');
      await judge(keys, dedupSeconds === '0');
      expect(created.length, 'transactions that were created after the failover').toBeGreaterThan(createdBefore);
      expect(new Set(created).size, 'transaction ids').toBe(created.length);
    },
    TEST_MS,
  );

  /** Payments, each sent twice at once, and transactions, at both processes. */
  async function loadUntil(stop: AbortSignal, keys: PaidKey[], created: number[]): Promise<void> {
    const client = async (index: number) => {
      while (!stop.aborted && keys.length < MAX_KEYS) {
        const url = services[index % 2]?.url as string;
        const answer = await ask(`${url}/api/server-generated/generate-key`).catch(() => undefined);
        if (answer?.status !== 200) {
          await pause(50);
          continue;
        }
        const key: PaidKey = { key: answer.json<string>(), ids: new Set(), lastStatus: 0 };
        keys.push(key);
        await Promise.all([attempt(key, url), attempt(key, services[1]?.url as string)]);
        const transaction = await postTransaction(url, { fromAccount: 'A', toAccount: 'B', amount: '1' }).catch(
          () => undefined,
        );
        if (transaction?.status === 201) created.push(transaction.json<Transaction>().transactionId);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)));
  }

  async function attempt(key: PaidKey, url: string): Promise<void> {
    const answer = await pay(url, key.key).catch(() => undefined);
    key.lastStatus = answer?.status ?? 0;
    const id = answer?.status === 200 ? transactionIdOf(answer) : undefined;
    if (id) key.ids.add(id);
  }

  async function failOver(): Promise<void> {
    await primary.stopImmediately();
    await standby.promote();
    wire.leadTo(standby.port);
  }

  /** Until each has an outcome; those that only an operator can decide go on being unknown. */
  async function repeatAll(keys: readonly PaidKey[], leftToOperator: boolean): Promise<void> {
    const urls = services.slice(1).map(({ url }) => url);
    await inParallel(keys.length, CLIENTS, async (index) => {
      const key = keys[index] as PaidKey;
      await until(`an outcome of ${key.key}`, DEADLINE_MS, async () => {
        await attempt(key, urls[index % urls.length] as string);
        return key.lastStatus === 200 || (leftToOperator && key.lastStatus === 504);
      });
    });
  }

  async function judge(keys: readonly PaidKey[], leftToOperator: boolean): Promise<void> {
    const charges = new Map<string, string[]>();
    for (const { reference, transactionId } of await processor.charges()) {
      charges.set(reference, [...(charges.get(reference) ?? []), transactionId]);
    }
    const twice = [...charges].filter(([, ids]) => ids.length > 1);
    expect(twice, 'keys that were charged twice').toEqual([]);
    expect(
      keys.filter(({ ids }) => ids.size > 1),
      'keys of which two ids were told',
    ).toEqual([]);
    const paid = keys.filter(({ ids }) => ids.size > 0);
    expect(
      paid.filter(({ key }) => !charges.has(key)),
      'told as paid without a charge',
    ).toEqual([]);
    const unpaid = keys.filter(({ ids }) => ids.size === 0);
    expect(
      unpaid.filter(({ key }) => charges.has(key)),
      'charged, and never told',
    ).toEqual([]);
    if (!leftToOperator) expect(unpaid).toEqual([]);

    // Otherwise no row was lost whose charge was found again, and the test shows nothing.
    const found = paid.filter(({ key, ids }) => charges.get(key)?.[0] !== [...ids][0]);
    console.log(
      `${keys.length} keys, ${paid.length} paid, ${found.length} found again, ${unpaid.length} left to an operator`,
    );
    expect(found.length, 'charges whose row was lost and that were found again').toBeGreaterThan(0);
  }
});

function portOf(proxy: TcpProxy): number {
  return Number(new URL(proxy.through('tcp://127.0.0.1:1')).port);
}
