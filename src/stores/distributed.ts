import { setTimeout as delay } from 'node:timers/promises';
import { type AccessKind, adoptingClient } from '../payments/values/adoption.js';
import type { Clock } from '../platform/clock.js';
import { DatabaseAddress } from './postgres/connection/address.js';
import { DatabaseClock } from './postgres/connection/database-clock.js';
import { DatabaseIdentity } from './postgres/connection/database-identity.js';
import { createConfirmDurable } from './postgres/connection/durability.js';
import { createPart } from './postgres/connection/part.js';
import { Postgres, StandbyRefused } from './postgres/connection/postgres.js';
import { refuseMissingRights, untilPostgresIsThere, warnOfLostCommits } from './postgres/connection/start.js';
import { MIGRATIONS, migrate } from './postgres/migrate.js';
import { hasOrdersOfClients, hasUnownedOrders } from './postgres/payments/adopt.js';
import { createPostgresLedger } from './postgres/payments/ledger.js';
import { createPostgresPaymentHistory } from './postgres/payments/payment-history.js';
import { readProcessorNames } from './postgres/payments/processor-names.js';
import { createPostgresRefundLedger } from './postgres/payments/refunds.js';
import { CLOCK_IS_BEHIND, CLOCK_WENT_BACK } from './postgres/payments/settlement-read-statements.js';
import { createPostgresSettlements } from './postgres/payments/settlement-reads.js';
import { createPostgresCacheEpochs } from './postgres/transactions/cache-epochs.js';
import { SWEEP_CREATION_KEYS } from './postgres/transactions/transaction-statements.js';
import { createPostgresTransactionStore } from './postgres/transactions/transaction-store.js';
import { findStartableTransfer, refuseUnstartable } from './postgres/transfer-state.js';
import { createPostgresEndpointRows } from './postgres/webhooks/endpoint-rows.js';
import { AnnouncedLockEnds } from './redis/announced-lock-ends.js';
import { CacheMasters } from './redis/connection/cache-masters.js';
import { connected, connectRedis, renewAccess } from './redis/connection/client.js';
import type { RedisClient } from './redis/connection/masters.js';
import { refuseWrongRedis } from './redis/connection/start.js';
import { type RedisLocation, readRedisUrl, renewedLocation } from './redis/connection/url.js';
import { watchRedis } from './redis/connection/watch.js';
import { createRedisDatabaseReach, type DatabaseReach } from './redis/database-reach.js';
import { createKeyNames } from './redis/key-names.js';
import { createRedisKeyStore } from './redis/key-store.js';
import { createRedisReport } from './redis/key-value-store-report.js';
import { createRedisLastCommits } from './redis/last-commits.js';
import { RememberedOutcomes } from './redis/remembered-outcomes.js';
import { createRedisRequestCounts } from './redis/request-counts.js';
import { createRedisSharedSamples } from './redis/shared-samples.js';
import { createRedisTransactionCache } from './redis/transaction-cache.js';
import { createTransferMark } from './redis/transfer-mark.js';
import { CannotOpen, type Deployment, type Notices, type StoreEvents } from './shared/deployment.js';
import { LastCommits } from './shared/last-commits.js';
import { readMigrations } from './shared/migrations.js';
import { Permits } from './shared/permits.js';
import { REPLACED } from './shared/replaced-database.js';
import type { StoreMeasures } from './shared/store-measures.js';
import { startSweeping } from './shared/sweep.js';
import { startOnTransferred } from './transferred.js';

/** Lists that are being sent may hold this part of the pool. */
const SNAPSHOT_SHARE = 0.4;
/** Pages of payments may hold this part of the pool, and so may pages of searches. Each takes milliseconds, and waits for no client. */
const PAGE_SHARE = 0.3;
/**
 * Statements on payments never use this part of the pool. Transactions, readiness and the looks at the database need few connections,
 * because concurrent creates share statements.
 */
const SHARE_WITHOUT_PAYMENTS = 0.25;
/** A start waits this long for Redis, so that the first requests find it. Then it serves what is possible without Redis. */
const REDIS_WAIT_MS = 2_000;

/** Each process sweeps. With nothing to remove that is one query on an index. */
const SWEEP_CREATION_KEYS_EVERY_MS = 60_000;

/**
 * Opens Redis and PostgreSQL. Without PostgreSQL there is nothing to serve, so the start waits for it; Redis may come later,
 * and until then finished payments are answered from PostgreSQL. Throws CannotOpen for a setting that is wrong, of either.
 */
export async function openDistributed(options: {
  redis: RedisLocation;
  databaseUrl: string;
  /** The content of the file of authorities that `databaseUrl` names. */
  databaseCa?: string | undefined;
  databasePoolSize: number;
  /** The setting AUTH. If omitted, orders are claimed with either, as tests of one adapter do. */
  access?: AccessKind | undefined;
  transactionCacheTtlMs: number;
  clock: Clock;
  notices: Notices;
  events?: StoreEvents;
  measures?: StoreMeasures;
  /** A folder of migrations in place of this version's. */
  migrations?: URL | undefined;
}): Promise<Deployment> {
  const { clock, notices, databasePoolSize, events, measures } = options;
  const address = new DatabaseAddress(options.databaseUrl, options.databaseCa);
  const location = { ...options.redis };
  const lastCommits = new LastCommits(clock);
  const { migrations = MIGRATIONS } = options;
  let reach: DatabaseReach | undefined;
  const identity = new DatabaseIdentity(
    clock,
    lastCommits,
    () => notices.warn(REPLACED),
    readMigrations(migrations).map(({ name }) => name),
    { count: address.hostCount, renew: () => database.renew() },
    () => {
      if (!database.refusal) reach?.reached().catch(() => {});
    },
  );
  let isOpen = false;
  let openRedis: RedisClient | undefined;
  let joined: { stop(): void } | undefined;
  let reportBroken: (error: Error) => void = () => {};
  const broken = new Promise<Error>((resolve) => {
    reportBroken = resolve;
  });
  const database = new Postgres(
    address,
    databasePoolSize,
    // A start that waits for PostgreSQL logs its own line.
    (fault) => isOpen && events?.failed('PostgreSQL', fault),
    {
      onConnect: (client) => identity.observe(client),
      onServed: () => events?.served('PostgreSQL'),
      measures,
      lastCommits,
      refusal: () => identity.refusal,
    },
  );
  const databaseClock = new DatabaseClock(database, clock, () => database.writeHoweverLate(CLOCK_WENT_BACK));
  const reserved = Math.max(1, Math.ceil(databasePoolSize * SHARE_WITHOUT_PAYMENTS));
  const payments = createPart(
    database,
    // A pool of one, in tests, has no second connection.
    Math.max(1, databasePoolSize - reserved),
    clock,
    measures?.queue('postgresql', 'payment_connections'),
  );
  await refuseWrongRedis(location, (sentence) => notices.warn(sentence));

  async function connectFirst(): Promise<RedisClient> {
    const client = connectRedis(location, (error) => events?.failed('Redis', error), notices.warn);
    await Promise.race([connected(client), delay(REDIS_WAIT_MS, undefined, { ref: false })]);
    return client;
  }

  /** All of it is repeated if one step fails, because the next try may lead to another server. */
  async function openDatabase() {
    await database.start();
    const { host } = address;
    await databaseClock.start();
    await refuseUnstartable(database);
    await migrate(address.url, notices.warn, migrations);
    await refuseMissingRights(database);
    const transfer = await findStartableTransfer(database);
    await identity.start(database);
    openRedis ??= await connectFirst();
    const redis = openRedis;
    const names = createKeyNames(identity.deploymentId, {
      adopter: adoptingClient(identity.adopter),
      transfer: transfer?.name,
    });
    // The transfer is joined before anything of this deployment is read or written in Redis.
    const mark = createTransferMark(redis, identity.deploymentId);
    joined?.stop();
    joined =
      transfer && (await startOnTransferred(transfer, { database, mark }, { clock, notices, onOther: reportBroken }));
    const databaseReach = createRedisDatabaseReach(redis, names);
    reach = databaseReach;
    lastCommits.keepIn(createRedisLastCommits(redis, names));
    try {
      await identity.watch(database, payments);
    } catch (error) {
      if (error instanceof StandbyRefused) {
        address.leave(host);
        database.renew();
      }
      throw error;
    }
    await database.writeHoweverLate(CLOCK_IS_BEHIND);
    // Rows that the watch found to be lost have changed them.
    const processors = await readProcessorNames(database);
    const hasOrders = await hasUnownedOrders(database);
    await warnOfLostCommits(database, (sentence) => notices.warn(sentence));
    return { redis, names, reach: databaseReach, processors, hasOrders };
  }

  async function closeStores(): Promise<void> {
    joined?.stop();
    identity.stop();
    databaseClock.stop();
    openRedis?.disconnect();
    await database.close();
  }

  const opened = await untilPostgresIsThere(openDatabase, (sentence, cause) => notices.warn(sentence, cause)).catch(
    async (error: unknown) => {
      await closeStores();
      throw error;
    },
  );
  const { redis, names, processors, hasOrders } = opened;
  isOpen = true;
  const lockEnds = new AnnouncedLockEnds(redis, names.lockEnds, clock, (error) =>
    notices.warn('Redis does not let us subscribe: requests that wait for a payment may wait a second too long', error),
  );
  const watch = watchRedis(redis, names.probe, {
    warn: (sentence) => notices.warn(sentence),
    failed: (fault) => events?.failed('Redis', fault),
    served: () => events?.served('Redis'),
  });
  const cacheMasters = new CacheMasters(redis, createPostgresCacheEpochs(database), clock);
  // If Redis is down, its connection looks again when it is ready.
  await cacheMasters.look().catch(() => {});
  const confirmDurable = createConfirmDurable(database, clock, measures);
  const remembered = new RememberedOutcomes(
    () => ({ server: identity.server, latestMs: databaseClock.latest() }),
    clock,
  );
  const sweeping = startSweeping(SWEEP_CREATION_KEYS_EVERY_MS, async (limit) => {
    const removed = await database.write(SWEEP_CREATION_KEYS, [limit]);
    return removed.length;
  });
  const maxSnapshots = Math.max(1, Math.floor(databasePoolSize * SNAPSHOT_SHARE));
  const maxPages = Math.max(1, Math.floor(databasePoolSize * PAGE_SHARE));

  const onRefused = (sentence: string) => reportBroken(new CannotOpen(sentence));
  return {
    id: identity.deploymentId,
    clock,
    keys: createRedisKeyStore(redis, names, lockEnds, { clock, remembered, measures }),
    ledger: createPostgresLedger(payments, databaseClock, confirmDurable, {
      measures,
      onRefused,
      access: options.access,
      adopter: identity.adopter,
    }),
    refunds: createPostgresRefundLedger(payments, databaseClock, confirmDurable, onRefused),
    paymentHistory: createPostgresPaymentHistory(payments, confirmDurable, new Permits(maxPages)),
    settlements: createPostgresSettlements(payments, confirmDurable, new Permits(maxPages)),
    endpointRows: createPostgresEndpointRows(payments),
    transactions: createPostgresTransactionStore(database, databaseClock, confirmDurable, {
      maxSnapshots,
      pagePermits: new Permits(maxPages),
      measures,
    }),
    transactionCache: createRedisTransactionCache(redis, names, cacheMasters, {
      databaseServer: () => identity.server,
      transactionCacheTtlMs: options.transactionCacheTtlMs,
      clock,
      roomForFills: watch.roomForFills,
      ...(measures && { measures }),
    }),
    keyValueStore: createRedisReport(redis, names, () => identity.server, cacheMasters),
    storeOfRecord: {
      async ping() {
        if (database.refusal) throw database.refusal;
        await identity.ping();
      },
      isReachedByAnother: opened.reach.isReachedByAnother,
      leave: opened.reach.leave,
    },
    takeSecret(name, text) {
      if (name === 'DATABASE_URL') return address.take(text);
      if (name === 'DATABASE_CA') return address.takeAuthorities(text);
      const [found, ca] = name === 'REDIS_CA' ? [location, text] : [readRedisUrl(text), location.ca];
      const renewed = found && renewedLocation(location, { ...found, ca });
      if (renewed) renewAccess(redis, Object.assign(location, renewed));
      return renewed !== undefined;
    },
    requestCounts: createRedisRequestCounts(redis, names, measures),
    sharedSamples: createRedisSharedSamples(redis, names, watch.roomForFills, measures),
    keyMemoryUsed: watch.memoryUsed,
    processors,
    adoption: { adopter: identity.adopter, hasOrders, hasOrdersOfClients: () => hasOrdersOfClients(database) },
    // Either server may come back. Only payments of the other kind, or orders with the other AUTH, made since the start, end the process.
    broken,
    async close() {
      sweeping.stop();
      watch.stop();
      cacheMasters.stop();
      lockEnds.close();
      await closeStores();
    },
  };
}
