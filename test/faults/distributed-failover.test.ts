import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PaymentClients } from '../../testkit/client/payment-clients.js';
import { postTransaction, type Transaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { History } from '../../testkit/history/history.js';
import { type KeyHistory, outcomeOf } from '../../testkit/history/payments.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { type PostgresServer, startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { type Standby, startStandby } from '../../testkit/servers/standby.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause, until } from '../../testkit/time/until.js';

const DATABASE = 'idempay';
const CLIENTS = 24;
const WRITERS = 4;
const CHARGE_MS = 150;
/** Until then the standby receives everything, then it lags, and at last it is promoted. */
const IN_STEP_MS = 2_000;
const LAG_MS = 1_500;
const AFTER_MS = 3_000;
const DEADLINE_MS = 60_000;
const TEST_MS = 240_000;

/**
 * A real primary and a standby that follows it asynchronously, is cut off from it under load, and is promoted. The charge
 * log of the reference processor says what was charged. It charges whatever arrives; half of the tests tell the service so.
 */
describe('a failover of PostgreSQL that loses the newest rows', () => {
  let redis: RedisServer;
  let primary: PostgresServer;
  let standby: Standby;
  let replication: TcpProxy;
  let proxy: TcpProxy;
  let processor: ReferenceProcessor;
  let services: Service[];

  beforeEach(async () => {
    services = [];
    [redis, primary, processor] = await Promise.all([startRedis(), startPostgres(), startReferenceProcessor()]);
    await primary.createDatabase(DATABASE);
    [replication, proxy] = await Promise.all([startTcpProxy(primary.port), startTcpProxy(primary.port)]);
    standby = await startStandby(primary, replication.port);
  }, TEST_MS);
  afterEach(async () => {
    await Promise.all(services.map((service) => service.kill()));
    await standby?.close();
    await Promise.all([redis?.close(), primary?.close(), processor?.close(), replication?.close(), proxy?.close()]);
  });

  function start(environment: Record<string, string>): Promise<Service> {
    const usual = { PROCESSOR_URL: processor.url, LOCK_TTL_SECONDS: '2', PROCESSOR_TIMEOUT_MS: '1900' };
    const stores = { REDIS_URL: redis.url, DATABASE_URL: proxy.through(primary.url(DATABASE)) };
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

      const history = new History(targetsOf(services));
      const payments = new PaymentClients(history, seededRandom(seedFrom('FAILOVER_SEED')));
      const created: number[] = [];
      const stop = new AbortController();
      const load = Promise.all([payments.run(CLIENTS, stop.signal), create(created, stop.signal)]);
      await pause(IN_STEP_MS);
      replication.strand();
      await pause(LAG_MS);
      const createdBefore = created.length;
      await primary.stopImmediately();
      await standby.promote();
      proxy.leadTo(standby.port);
      // In the middle of what it does: its charges go on, and nobody settles them.
      await services[0]?.kill();
      await pause(AFTER_MS);
      stop.abort();
      await load;
      services.push(await start(environment));

      history.targets = targetsOf(services.slice(1));
      await repeatAll(history, payments, dedupSeconds === '0');
      history.close();
      await expectChargedOnce(history.keys, dedupSeconds === '0');
      expect(created.length, 'transactions that were created after the failover').toBeGreaterThan(createdBefore);
      expect(new Set(created).size, 'transaction ids').toBe(created.length);
    },
    TEST_MS,
  );

  async function create(created: number[], stop: AbortSignal): Promise<void> {
    await inParallel(WRITERS, WRITERS, async (index) => {
      while (!stop.aborted) {
        const url = services[index % 2]?.url as string;
        const body = { fromAccount: 'A', toAccount: 'B', amount: '1' };
        const answer = await postTransaction(url, body).catch(() => undefined);
        if (answer?.status === 201) created.push(answer.json<Transaction>().transactionId);
        else await pause(50);
      }
    });
  }

  /** Until each has an outcome; those that only an operator can decide go on being unknown. */
  async function repeatAll(
    { keys, targets }: History,
    payments: PaymentClients,
    leftToOperator: boolean,
  ): Promise<void> {
    await inParallel(keys.length, CLIENTS, async (index) => {
      const key = keys[index] as KeyHistory;
      await until(`an outcome of ${key.key}`, DEADLINE_MS, async () => {
        const { outcome, status } = await payments.pay(key, targets[index % targets.length] as never);
        return outcome !== undefined || (leftToOperator && status === 504);
      });
    });
  }

  async function expectChargedOnce(keys: readonly KeyHistory[], leftToOperator: boolean): Promise<void> {
    const charges = new Map<string, string>();
    for (const { reference, transactionId } of await processor.charges()) {
      expect(charges.has(reference), `a second charge of ${reference}`).toBe(false);
      charges.set(reference, transactionId);
    }
    const outcomesOf = ({ exchanges }: KeyHistory) => new Set(exchanges.flatMap(({ outcome }) => outcome ?? []));
    expect(
      keys.filter((key) => outcomesOf(key).size > 1),
      'keys with two ids',
    ).toEqual([]);
    const [paid, unpaid] = [keys.filter(outcomeOf), keys.filter((key) => !outcomeOf(key))];
    expect(
      paid.filter(({ key }) => !charges.has(key)),
      'answered as paid without a charge',
    ).toEqual([]);
    expect(
      unpaid.filter(({ key }) => charges.has(key)),
      'charged, and never answered',
    ).toEqual([]);
    if (!leftToOperator) expect(unpaid).toEqual([]);

    // Otherwise no row was lost whose charge was found again, and the test shows nothing.
    const found = paid.filter((key) => charges.get(key.key) !== outcomeOf(key));
    console.log(
      `${keys.length} keys, ${paid.length} paid, ${found.length} found again, ${unpaid.length} left to an operator`,
    );
    expect(found.length, 'charges whose row was lost and that were found again').toBeGreaterThan(0);
  }
});

function targetsOf(services: readonly Service[]) {
  return services.map(({ url }) => ({ name: url, url }));
}
