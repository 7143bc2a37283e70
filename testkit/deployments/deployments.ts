import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'vitest';
import { type Service, startService } from '../processes/service.js';
import { type ServiceInProcess, serveInProcess } from '../processes/service-in-process.js';
import { openStores } from './topologies/open-stores.js';
import { TOPOLOGY } from './topologies/topology.js';

/** One way to run the service. The black-box suites run once over each, knowing nothing of what is behind it. */
export interface Deployment {
  readonly name: string;
  /** Fresh, empty stores. Every service started on them sees the same data. */
  open(): Promise<Stores>;
}

export interface Stores {
  readonly environment: Record<string, string>;
  /** Starts one service on these stores in this process; `environment` adds to or overrides the deployment's settings. */
  serve(environment?: Record<string, string>): Promise<ServiceInProcess>;
  /** The same as a process of its own, for tests that signal or kill it. */
  start(environment?: Record<string, string>): Promise<Service>;
  /** Ends every service started here that still runs, then removes the stores. */
  close(): Promise<void>;
}

/** For a service whose suite has ended: what is still under way is of no interest. */
const LAST_DRAIN_MS = 50;

export const embedded: Deployment = {
  name: 'embedded',
  async open() {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-test-'));
    return manageStores({ DATA_DIR: folder }, () => rm(folder, { recursive: true, force: true }));
  },
};

/** A Redis for each test's stores, and a database for each in the PostgreSQL server that all tests share. */
const distributed: Deployment = {
  name: TOPOLOGY ?? 'distributed',
  async open() {
    const { redisUrl, databaseUrl, environment, close } = await openStores();
    return manageStores({ REDIS_URL: redisUrl, DATABASE_URL: databaseUrl, ...environment }, close);
  },
};

export const DEPLOYMENTS: readonly Deployment[] = TOPOLOGY ? [distributed] : [embedded, distributed];

/** Registers the same suite once for each deployment. */
export function describeDeployments(title: string, suite: (deployment: Deployment) => void): void {
  describe.each(DEPLOYMENTS.map((deployment) => [deployment.name, deployment] as const))(
    `${title} (%s)`,
    (_name, deployment) => suite(deployment),
  );
}

export function manageStores(environment: Record<string, string>, remove: () => Promise<unknown>): Stores {
  const started = new Set<Service>();
  const served = new Set<ServiceInProcess>();
  return {
    environment,
    async serve(more = {}) {
      const service = await serveInProcess({ ...environment, ...more });
      const stop = async (limitMs?: number) => {
        if (served.delete(tracked)) await service.stop(limitMs);
      };
      const tracked = { ...service, stop };
      served.add(tracked);
      return tracked;
    },
    async start(more = {}) {
      const service = await startService({ ...environment, ...more });
      started.add(service);
      service.ended.then(() => started.delete(service));
      return service;
    },
    async close() {
      await Promise.all([
        ...[...started].map((service) => service.kill()),
        ...[...served].map((service) => service.stop(LAST_DRAIN_MS)),
      ]);
      await remove();
    },
  };
}
