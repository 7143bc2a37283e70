import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import pg from 'pg';
import { afterAll } from 'vitest';
import type { AccessKind } from '#idempay/payments/values/adoption.js';
import { type Clock, systemClock } from '#idempay/platform/clock.js';
import { openDistributed } from '#idempay/stores/distributed.js';
import { beginIncarnation } from '#idempay/stores/embedded/file/adoption.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import { readRedisUrl } from '#idempay/stores/redis/connection/url.js';
import type { Deployment, Notices } from '#idempay/stores/shared/deployment.js';
import { type OpenStores, openStores } from '../deployments/topologies/open-stores.js';
import { until, untilPast } from '../time/until.js';

export type Ports = Omit<Deployment, 'broken' | 'storeOfRecord' | 'processors' | 'adoption'>;

/** Ports on fresh, empty stores, with the clock of these stores; `close` removes the stores too. */
export interface ContractPorts extends Ports {
  readonly clock: Clock;
  /** Lets a lease or a life of `ms`, begun before the call, surely be over. */
  pass(ms: number): Promise<void>;
  /** Lets every claim be over that began before a horizon was raised. */
  endClaims(): Promise<void>;
  /** Gives all of these settlements the time of the first one. */
  settleAtOneTime(keys: readonly string[]): Promise<void>;
  /** Another incarnation of the feed, which began `ageMs` ago. */
  beginIncarnation(ageMs: number): Promise<void>;
}

export interface PortSettings {
  /** The setting AUTH of the service. If omitted, orders are claimed with either. */
  readonly access?: AccessKind;
  readonly transactionCacheTtlMs?: number;
  readonly clock?: Clock;
  readonly databasePoolSize?: number;
  readonly notices?: Notices;
}

export type OpenPorts = (settings?: PortSettings) => Promise<ContractPorts>;

/** Longer than any test, so that only a test that asks for a short one sees an entry expire. */
const DEFAULTS = { transactionCacheTtlMs: 600_000, clock: systemClock };
const REAL_TIME = { clock: systemClock, pass: untilPast };
const CONNECT_DEADLINE_MS = 10_000;

/** A statement that gives settlements with these keys, which are a list in SQL, the time of the first one. */
const settleAtOneTime = (table: string, keys: string) =>
  `UPDATE ${table} SET settled_at = (SELECT min(settled_at) FROM ${table} WHERE key IN (${keys})) WHERE key IN (${keys})`;

export const openEmbeddedPorts: OpenPorts = async (settings) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-ports-'));
  const deployment = await openEmbedded({ dataDir, ...DEFAULTS, ...settings });
  return {
    ...deployment,
    pass: untilPast,
    async endClaims() {},
    async settleAtOneTime(keys) {
      const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
      database.prepare(settleAtOneTime('payments', 'SELECT value FROM json_each(?1)')).run(JSON.stringify(keys));
      database.close();
    },
    async beginIncarnation(ageMs) {
      const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'));
      database.exec(beginIncarnation(`${Date.now() - ageMs}`));
      database.close();
    },
    async close() {
      await deployment.close();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
};

export const openDistributedPorts: OpenPorts = async (settings) => {
  const stores = await openSqlStores();
  const ports = await openDistributedPortsOn(stores, settings);
  return {
    ...ports,
    ...REAL_TIME,
    async endClaims() {
      await stores.client.query("UPDATE idempay.payment_horizon SET seen_at = seen_at - interval '7 seconds'");
    },
    async settleAtOneTime(keys) {
      await stores.client.query(settleAtOneTime('idempay.payments', 'SELECT unnest($1::uuid[])'), [keys]);
    },
    async beginIncarnation(ageMs) {
      await stores.client.query(
        "INSERT INTO idempay.settlement_incarnations SELECT max(number) + 1, '0123456789abcdef', clock_timestamp() - $1 * interval '1 millisecond' FROM idempay.settlement_incarnations",
        [ageMs],
      );
    },
    async close() {
      await ports.close();
      await stores.close();
    },
  };
};

export async function openSqlStores(): Promise<OpenStores & { readonly client: pg.Client }> {
  const stores = await openStores();
  const client = new pg.Client({ connectionString: stores.databaseUrl });
  await client.connect();
  return {
    ...stores,
    client,
    async close() {
      await client.end();
      await stores.close();
    },
  };
}

/** Stores of which a start has made the tables. No process runs on, because it would write there. */
export async function openStartedStores(): ReturnType<typeof openSqlStores> {
  const stores = await openSqlStores();
  await (await openDistributedPortsOn(stores)).close();
  return stores;
}

/** The adapters of one process; any number may share the stores, which `close` leaves there. */
export async function openDistributedPortsOn(
  stores: Pick<OpenStores, 'redisUrl' | 'databaseUrl'>,
  settings?: PortSettings,
): Promise<Ports> {
  const redis = readRedisUrl(stores.redisUrl);
  if (!redis) throw new Error(`${stores.redisUrl} is no Redis URL`);
  const process = { redis, databaseUrl: stores.databaseUrl, databasePoolSize: 10, notices: { warn: () => {} } };
  const deployment = await openDistributed({ ...process, ...DEFAULTS, ...settings });
  const isUp = () => true;
  await until('Redis to be up', CONNECT_DEADLINE_MS, () => deployment.keyValueStore.ping().then(isUp, () => false));
  return deployment;
}

export async function sharePorts(open: OpenPorts = openEmbeddedPorts): Promise<ContractPorts> {
  const ports = await open();
  afterAll(() => ports.close());
  return ports;
}
