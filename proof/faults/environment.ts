import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Opened } from '../../testkit/opened.js';
import { type ReferenceProcessor, startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { mountSmallDisk } from '../../testkit/servers/small-disk.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { type EnvironmentOptions, type Fault, LEASE_SECONDS, PROCESSOR_TIMEOUT_MS } from './fault.js';
import { diskFaults, postgresFaults, processFaults, redisFaults } from './faults.js';
import { PostgresUnderFault } from './postgres-under-fault.js';
import { RedisPair } from './redis-pair.js';
import { databaseOfRecord, folderOfRecord, type StoreOfRecord } from './store-of-record.js';

/** Several times what a session writes; filling it takes a moment. */
const DISK_MEGABYTES = 256;

/** Everything that runs, and what can happen to it. */
export interface Environment {
  readonly services: readonly SupervisedService[];
  readonly processor: ReferenceProcessor;
  readonly faults: readonly Fault[];
  readonly record: StoreOfRecord;
  /** The settings of the services, which they read at each start. */
  readonly settings: Record<string, string>;
  /** A fault of the deployment that this machine does not allow, and why. */
  readonly impossible: string | undefined;
  /** Ends all faults; resolves when everything works again. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

/** The needs of one deployment's services besides the processor. */
interface Stores {
  readonly settings: Readonly<Record<string, string>>;
  readonly faults: readonly Fault[];
  readonly record: StoreOfRecord;
  readonly proxies?: readonly TcpProxy[];
  readonly launcher?: readonly string[];
  readonly impossible?: string;
}

const DEPLOYMENTS = {
  embedded: { names: ['service'], open: openFolder },
  distributed: { names: ['service 1', 'service 2', 'service 3'], open: openServers },
} as const;
export type DeploymentName = keyof typeof DEPLOYMENTS;
export const DEPLOYMENT_NAMES = Object.keys(DEPLOYMENTS) as DeploymentName[];

/** Service processes on stores and a processor of their own, each behind a proxy. */
export async function openEnvironment(deployment: DeploymentName, options: EnvironmentOptions): Promise<Environment> {
  const opened = new Opened();
  try {
    return await open(opened, deployment, options);
  } catch (fault) {
    await opened.close();
    throw fault;
  }
}

async function open(opened: Opened, deployment: DeploymentName, options: EnvironmentOptions): Promise<Environment> {
  const { deduplicates, history, onKilled, onOwnEnd } = options;
  const { names, open: openStores } = DEPLOYMENTS[deployment];
  const stores: Stores = await openStores(opened, options);
  const processor = await opened.keep(startReferenceProcessor({ behaviour: { deduplicate: deduplicates } }));
  const proxy = await opened.keep(startTcpProxy(processor.port));
  const environment: Record<string, string> = {
    // No payment gets that old, but the removal of old payments runs as well.
    PAYMENT_RETENTION_DAYS: '1',
    LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
    PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
    // Every refused request would else cost a line with its stack.
    LOG_LEVEL: 'fatal',
    // The service is told what it may rely on, as `docs/reference/processor.md` asks.
    ...(!deduplicates && { PROCESSOR_DEDUP_SECONDS: '0' }),
    PROCESSOR_URL: proxy.through(processor.url),
    ...stores.settings,
  };
  const { launcher = [] } = stores;
  const killed = (crashPoint: string | undefined) => onKilled('service', crashPoint);
  const supervised = { environment, launcher, disturbances: history.disturbances, onKilled: killed, onOwnEnd };
  const services: SupervisedService[] = [];
  for (const name of names) services.push(await opened.keep(SupervisedService.create({ name, ...supervised })));
  return {
    services,
    processor,
    faults: [...processFaults(services, processor, proxy, options), ...stores.faults],
    record: stores.record,
    settings: environment,
    impossible: stores.impossible,
    async heal() {
      for (const each of [proxy, ...(stores.proxies ?? [])]) each.heal();
      await Promise.all(services.map((service) => (service.nextCrash ? service.kill() : undefined)));
      await Promise.all(services.map((service) => service.up()));
    },
    close: () => opened.close(),
  };
}

async function openFolder(opened: Opened, options: EnvironmentOptions): Promise<Stores> {
  let impossible: string | undefined;
  if (options.onSmallDisk) {
    try {
      const disk = await mountSmallDisk(DISK_MEGABYTES);
      await opened.keep({ close: () => disk.remove() });
      const { folder, fromOutside, launcher } = disk;
      return {
        settings: { DATA_DIR: folder },
        record: folderOfRecord(folder, fromOutside, launcher),
        launcher,
        faults: diskFaults(disk, options),
      };
    } catch (fault) {
      impossible = `the disk full: ${(fault as Error).message}`;
    }
  }
  const folder = await mkdtemp(join(tmpdir(), 'idempay-faults-'));
  await opened.keep({ close: () => rm(folder, { recursive: true, force: true }) });
  return {
    settings: { DATA_DIR: folder },
    record: folderOfRecord(folder),
    faults: [],
    ...(impossible && { impossible }),
  };
}

async function openServers(opened: Opened, options: EnvironmentOptions): Promise<Stores> {
  const [redis, postgres] = await Promise.all([
    opened.keep(RedisPair.start()),
    opened.keep(PostgresUnderFault.start()),
  ]);
  return {
    record: databaseOfRecord(postgres),
    settings: { REDIS_URL: redis.url, DATABASE_URL: postgres.url },
    faults: [...redisFaults(redis, options), ...postgresFaults(postgres, options)],
    proxies: [redis.proxy, postgres.proxy],
  };
}
