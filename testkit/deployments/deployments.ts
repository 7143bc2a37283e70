import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe } from 'vitest';
import { startService } from '../processes/service.js';
import { type ServiceInProcess, serveInProcess } from '../processes/service-in-process.js';
import { openStores } from './topologies/open-stores.js';
import { TOPOLOGY } from './topologies/topology.js';

type Environment = Record<string, string>;

/** One way to run the service. The black-box suites run once over each, knowing nothing of what is behind it. */
export interface Deployment {
  readonly name: string;
  /** Fresh, empty stores. Every service started on them sees the same data. */
  open(): Promise<Stores>;
}

export type Stores = ReturnType<typeof manageStores>;

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

export function describeDeployments(title: string, suite: (deployment: Deployment) => void): void {
  describe.each(DEPLOYMENTS)(`${title} ($name)`, suite);
}

/** For behaviour in which no store has a part, such as parsing, limits, headers, descriptions and connections: the suite runs once. */
export function describeOneDeployment(title: string, suite: (deployment: Deployment) => void): void {
  describe.each(DEPLOYMENTS.slice(0, 1))(`${title} ($name)`, suite);
}

export function manageStores(environment: Environment, remove: () => Promise<unknown>) {
  const ends = new Set<() => Promise<unknown>>();
  return {
    environment,
    /**
     * Starts one service on these stores in this process; `more` adds to or overrides the deployment's settings. `migrations`: a folder in
     * place of this version's.
     */
    async serve(more: Environment = {}, migrations?: URL): Promise<ServiceInProcess> {
      const service = await serveInProcess({ ...environment, ...more }, {}, migrations);
      const stop = async (limitMs?: number) => {
        if (ends.delete(end)) await service.stop(limitMs);
      };
      const end = () => stop(LAST_DRAIN_MS);
      ends.add(end);
      return { ...service, stop };
    },
    /** The same as a process of its own, for tests that signal or kill it. */
    async start(more: Environment = {}) {
      const service = await startService({ ...environment, ...more });
      ends.add(service.kill);
      return service;
    },
    /** Ends every service started here that still runs, then removes the stores. */
    async close(): Promise<void> {
      await Promise.all([...ends].map((end) => end()));
      await remove();
    },
  };
}
