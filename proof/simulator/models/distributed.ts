import { type Clock, sleep, systemClock } from '#idempay/platform/clock.js';
import { DatabaseClock } from '#idempay/stores/postgres/connection/database-clock.js';
import { createConfirmDurable } from '#idempay/stores/postgres/connection/durability.js';
import { createPostgresLedger } from '#idempay/stores/postgres/payments/ledger.js';
import { createPostgresPaymentHistory } from '#idempay/stores/postgres/payments/payment-history.js';
import { createPostgresRefundLedger } from '#idempay/stores/postgres/payments/refunds.js';
import { CLOCK_WENT_BACK } from '#idempay/stores/postgres/payments/settlement-read-statements.js';
import { createPostgresSettlements } from '#idempay/stores/postgres/payments/settlement-reads.js';
import { createPostgresCacheEpochs } from '#idempay/stores/postgres/transactions/cache-epochs.js';
import { createPostgresTransactionStore } from '#idempay/stores/postgres/transactions/transaction-store.js';
import { createPostgresEndpointRows } from '#idempay/stores/postgres/webhooks/endpoint-rows.js';
import { AnnouncedLockEnds } from '#idempay/stores/redis/announced-lock-ends.js';
import { CacheMasters } from '#idempay/stores/redis/connection/cache-masters.js';
import { createKeyNames } from '#idempay/stores/redis/key-names.js';
import { createRedisKeyStore } from '#idempay/stores/redis/key-store.js';
import { createRedisReport } from '#idempay/stores/redis/key-value-store-report.js';
import { RememberedOutcomes } from '#idempay/stores/redis/remembered-outcomes.js';
import { createRedisTransactionCache } from '#idempay/stores/redis/transaction-cache.js';
import { Permits } from '#idempay/stores/shared/permits.js';
import type { OpenPorts, Ports } from '../../../testkit/protocol/ports.js';
import { untilPast } from '../../../testkit/time/until.js';
import { directLine, type Line } from './line.js';
import { connectPostgres } from './postgres-client.js';
import { PostgresServer } from './postgres-server.js';
import { connectRedis } from './redis-client.js';
import { RedisServer } from './redis-server.js';
import { begunIncarnation } from './settlement-statements.js';

/** As `DatabaseClock` does it by a timer of its own. */
const SYNCHRONIZE_EVERY_MS = 1_000;
const MAX_SNAPSHOTS = 4;
const LONG_CACHE_TTL_MS = 600_000;
/** Longer than a claim can run that missed a raise of the horizon. */
const CLAIMS_END_MS = 7_001;

const DEPLOYMENT = '0123456789abcdef';
export const NAMES = createKeyNames(DEPLOYMENT);

export type ModelledServers = { readonly redis: RedisServer; readonly postgres: PostgresServer };

/** The real adapters of the distributed deployment in one process, over modelled servers: what `openDistributed` opens. */
export async function openDistributedModel(
  { redis, postgres }: ModelledServers,
  lines: { readonly redis: Line; readonly postgres: Line },
  settings: { readonly clock: Clock; readonly transactionCacheTtlMs: number; readonly roomForFills: () => boolean },
): Promise<Ports> {
  const { clock } = settings;
  const database = connectPostgres(postgres, lines.postgres);
  const client = connectRedis(redis, lines.redis);
  const databaseClock = new DatabaseClock(database, clock, () => database.writeHoweverLate(CLOCK_WENT_BACK));
  await databaseClock.synchronize();
  let isOpen = true;
  const keepSynchronized = async () => {
    while (isOpen) {
      await sleep(clock, SYNCHRONIZE_EVERY_MS);
      databaseClock.synchronize().catch(() => {});
    }
  };
  keepSynchronized();
  const lockEnds = new AnnouncedLockEnds(client, NAMES.lockEnds, clock, () => {});
  const cacheMasters = new CacheMasters(client, createPostgresCacheEpochs(database), clock);
  await cacheMasters.look().catch(() => {});
  const confirmDurable = createConfirmDurable(database, clock);
  const databaseServer = () => `server ${postgres.tables.loss.generation}`;
  const remembered = new RememberedOutcomes(
    () => ({ server: databaseServer(), latestMs: databaseClock.latest() }),
    clock,
  );
  return {
    id: DEPLOYMENT,
    clock,
    keys: createRedisKeyStore(client, NAMES, lockEnds, { clock, remembered }),
    ledger: createPostgresLedger(database, databaseClock, confirmDurable),
    refunds: createPostgresRefundLedger(database, databaseClock, confirmDurable),
    paymentHistory: createPostgresPaymentHistory(database, confirmDurable, new Permits(MAX_SNAPSHOTS)),
    settlements: createPostgresSettlements(database, confirmDurable, new Permits(MAX_SNAPSHOTS)),
    endpointRows: createPostgresEndpointRows(database),
    transactions: createPostgresTransactionStore(database, databaseClock, confirmDurable, {
      maxSnapshots: MAX_SNAPSHOTS,
    }),
    transactionCache: createRedisTransactionCache(client, NAMES, cacheMasters, { databaseServer, ...settings }),
    keyValueStore: createRedisReport(client, NAMES, databaseServer, cacheMasters),
    async close() {
      isOpen = false;
      cacheMasters.stop();
      lockEnds.close();
    },
  };
}

/** All ports over modelled servers by the machine's own clock, for the contract suites: nothing is lost or late. */
export const openModelledPorts: OpenPorts = async ({
  transactionCacheTtlMs = LONG_CACHE_TTL_MS,
  clock = systemClock,
} = {}) => {
  const servers = createModelledServers(() => performance.timeOrigin + performance.now());
  const lines = { redis: directLine, postgres: directLine };
  return {
    ...(await openDistributedModel(servers, lines, { clock, transactionCacheTtlMs, roomForFills: () => true })),
    clock,
    pass: untilPast,
    async endClaims() {
      const { retention } = servers.postgres.tables;
      retention.seenAt = retention.seenAt && retention.seenAt - CLAIMS_END_MS;
    },
    async settleAtOneTime(keys) {
      const { payments } = servers.postgres.tables;
      const rows = keys.flatMap((key) => payments.get(key) ?? []);
      const settled_at = Math.min(...rows.flatMap((row) => row.settled_at ?? []));
      for (const row of rows) payments.set(row.key, { ...row, settled_at });
    },
    async beginIncarnation(ageMs) {
      const { tables } = servers.postgres;
      tables.incarnations = begunIncarnation(tables, performance.timeOrigin + performance.now() - ageMs);
    },
  };
};

export function createModelledServers(now: () => number): ModelledServers {
  const after = (ms: number, callBack: () => void) => setTimeout(callBack, ms);
  return { redis: new RedisServer(now), postgres: new PostgresServer({ now, monotonic: now, after }) };
}
