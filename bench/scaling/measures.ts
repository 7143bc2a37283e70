// Costs of each operation on one topology, taken from the meter, the sockets and the scheduler.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ask } from '../../testkit/client/http-client.js';
import { Opened } from '../../testkit/opened.js';
import type { Environment } from '../../testkit/processes/service.js';
import { SERVICE } from '../../testkit/programs.js';
import { pause } from '../../testkit/time/until.js';
import { between, type Meter, openMeter } from '../costs.js';
import { type OpenLoopClient, openClient, type PlanResult } from '../open-loop.js';
import type { Plan } from '../open-loop-client.js';
import type { Deployment, Options } from '../options.js';
import {
  openCluster,
  openPostgres,
  openProgram,
  openRedis,
  type PostgresStore,
  type Server,
  temporaryFolder,
} from '../servers.js';
import { sumOf } from '../statistics.js';

const run = promisify(execFile);
/** To each process, and never idle: so batches are as large with many processes as with one. */
const CONNECTIONS = 32;
const IDLE_SECONDS = 4;
/** The least there is: no id is read again within it, so reads of all of them in turn miss. */
const CACHE_SECONDS = 1;
/** So few that nearly every read of one hits. */
const READ_OFTEN = 8;
const SOCKET_BYTES = /bytes_(?:sent|received):(\d+)/g;
const LIST = '/api/transactions';

/** The name of a cell, and the difference that the measuring itself makes. */
export const CELLS = {
  serviceUs: { head: 'service us', least: 5 },
  redisUs: { head: 'Redis us', least: 3 },
  postgresUs: { head: 'PostgreSQL us', least: 5 },
  redisCalls: { head: 'Redis calls', least: 0.05 },
  postgresTrips: { head: 'statements', least: 0.05 },
  sqliteTrips: { head: 'batches', least: 0.05 },
  commits: { head: 'commits', least: 0.05 },
  walBytes: { head: 'log bytes', least: 20 },
  httpBytes: { head: 'HTTP bytes', least: 10 },
  redisBytes: { head: 'bytes to and from Redis', least: 20 },
  postgresBytes: { head: 'to and from PostgreSQL', least: 20 },
};

export type CellName = keyof typeof CELLS;
export type Cells = Readonly<Partial<Record<CellName, number>>>;
/** By operation. */
export type Costs = Readonly<Record<string, Cells>>;
export type Shape = Readonly<{ deployment: Deployment; processes: number; masters: number }>;
export type Topology = Readonly<{ idle: Cells; costs: Costs }>;
export type Model = Readonly<Record<'embedded' | 'distributed' | 'cluster', Topology>>;

/** Its servers are closed when it is measured. */
export async function measureTopology(all: Opened, shape: Shape, { scalingOperations }: Options): Promise<Topology> {
  const opened = await all.keep(new Opened());
  try {
    const stores =
      shape.deployment === 'embedded' ? await embeddedStores(opened) : await distributedStores(opened, shape);
    const given = { stores, processes: shape.processes, operations: scalingOperations };
    const costs: Record<string, Cells> = {};
    const site = await opened.keep(Site.open(opened, given, { TRANSACTION_CACHE_TTL_SECONDS: String(CACHE_SECONDS) }));
    await site.warmUp();
    const idle = await site.idle();
    const measure = async (name: string, plan: SitePlan) => {
      costs[name] = await site.measure(plan, idle);
    };
    await measure('generate-key', { mix: ['key'] });
    await measure('first payment, one commit', { mix: ['pay'] });
    await measure('repeat', { mix: ['repeat'] });
    await measure('create a transaction', { mix: ['create'] });
    await measure('read by id, miss', { mix: ['read'] });
    await measure('list, 304', { mix: ['list'], given: { listTag: await site.listTag() } });
    await measure('read by id, hit', { mix: ['read'], given: { transactions: await site.someTransactions() } });
    await site.close();
    const delayed = await opened.keep(Site.open(opened, given, { PROCESSOR_DELAY_MS: '1' }));
    await delayed.warmUp();
    await delayed.issueKeys();
    costs['first payment, two commits'] = await delayed.measure({ mix: ['pay'] }, idle);
    return { idle, costs };
  } finally {
    await opened.close();
  }
}

interface Stores {
  readonly settings: Environment;
  readonly redis: readonly { readonly url: string; cpuUs(): number }[];
  readonly postgres: readonly PostgresStore[];
}

async function embeddedStores(opened: Opened): Promise<Stores> {
  return { settings: { DATA_DIR: join(await temporaryFolder(opened), 'data') }, redis: [], postgres: [] };
}

async function distributedStores(opened: Opened, { masters }: Shape): Promise<Stores> {
  const single = masters === 1 ? await openRedis(opened) : undefined;
  const { url, nodes } = single ? { url: single.url, nodes: [single] } : await openCluster(opened, masters);
  const postgres = await openPostgres(opened);
  return { settings: { REDIS_URL: url, DATABASE_URL: postgres.url }, redis: nodes, postgres: [postgres] };
}

type SitePlan = Pick<Plan, 'mix' | 'given'>;
interface Done {
  readonly operations: number;
  readonly httpBytes: number;
}

/** Processes on the same stores, with a client for each. */
class Site {
  private constructor(
    private readonly opened: Opened,
    private readonly stores: Stores,
    /** How many operations of each kind each process gets. */
    private readonly operations: number,
    private readonly services: readonly Server[],
    private readonly clients: readonly OpenLoopClient[],
    private readonly meter: Meter,
  ) {}

  static async open(
    all: Opened,
    { stores, processes, operations }: { stores: Stores; processes: number; operations: number },
    more: Environment,
  ): Promise<Site> {
    const opened = await all.keep(new Opened());
    try {
      const services: Server[] = [];
      for (let index = 0; index < processes; index += 1) {
        services.push(await openProgram(opened, SERVICE, { ...stores.settings, ...more }));
      }
      const clients = services.map((service) => openClient(opened, service));
      const { redis, postgres } = stores;
      const measured = services.map((service) => ({ ...service, service }));
      const meter = await openMeter(opened, { service: measured, redis, postgres });
      return new Site(opened, stores, Math.ceil(operations / processes), services, clients, meter);
    } catch (fault) {
      await opened.close();
      throw fault;
    }
  }

  close(): Promise<void> {
    return this.opened.close();
  }

  /** Before anything is counted, because the engine of each process compiles. */
  async warmUp(): Promise<void> {
    const count = this.operations;
    await this.#together({ mix: ['key'], count });
    await this.#together({ mix: ['pay', 'create'], count: 2 * count });
    await this.#together({ mix: ['repeat', 'read'], count });
  }

  async issueKeys(): Promise<void> {
    await this.#together({ mix: ['key'], count: this.operations });
  }

  /** A second without any request. */
  async idle(): Promise<Cells> {
    const { cells, seconds } = await this.#costsOf(async () => {
      await pause(IDLE_SECONDS * 1000);
      return { operations: 0, httpBytes: 0 };
    });
    return mapped(cells, (cost) => cost / seconds);
  }

  async measure(plan: SitePlan, idle: Cells): Promise<Cells> {
    const { cells, seconds, operations } = await this.#costsOf(async () => {
      const results = await this.#together({ count: this.operations, ...plan });
      for (const { lost, answers } of results) {
        const wrong = Object.keys(answers).filter((name) => !/ (200|201|304)$/.test(name));
        if (lost > 0 || wrong.length > 0) throw new Error(`${plan.mix}: ${lost} lost, ${wrong}`);
      }
      return {
        operations: results.reduce((all, { count }) => all + count, 0),
        httpBytes: results.reduce((all, { bytesIn, bytesOut }) => all + bytesIn + bytesOut, 0),
      };
    });
    return mapped(cells, (cost, name) => Math.max(0, cost - (idle[name] ?? 0) * seconds) / operations);
  }

  async listTag(): Promise<string> {
    // Each process computes it once.
    const tags = await Promise.all(this.services.map(async ({ url }) => (await ask(url + LIST)).headers.etag));
    return tags[0] ?? '';
  }

  async someTransactions(): Promise<number[]> {
    const answer = await ask(`${this.services[0]?.url}${LIST}`);
    const transactions = answer.json<{ transactionId: number }[]>();
    return transactions.slice(0, READ_OFTEN).map(({ transactionId }) => transactionId);
  }

  #together(plan: SitePlan & { readonly count: number }): Promise<PlanResult[]> {
    return Promise.all(this.clients.map((client) => client.run({ connections: CONNECTIONS, ...plan })));
  }

  async #read() {
    const sockets = await socketBytes(this.stores.postgres.map(({ port }) => port));
    return { sockets, costs: await this.meter.read() };
  }

  /** The cost of all parts while `work` ran, and the number of its operations. */
  async #costsOf(work: () => Promise<Done>): Promise<{ seconds: number; operations: number; cells: Cells }> {
    const [before, beganAt] = [await this.#read(), performance.now()];
    const { operations, httpBytes } = await work();
    const after = await this.#read();
    const { cpuUs, service, redis, postgres } = between(before.costs, after.costs);
    const tripsTo = (store: string) => sumOf(service?.roundTrips, (name) => name.startsWith(store));
    const embedded = {
      sqliteTrips: tripsTo('sqlite'),
      commits: service?.commits ?? 0,
      walBytes: service?.diskBytes ?? 0,
    };
    const distributed = {
      redisUs: cpuUs.redis ?? 0,
      postgresUs: cpuUs.postgres ?? 0,
      redisCalls: service?.redisCalls ?? 0,
      postgresTrips: tripsTo('postgresql'),
      commits: postgres?.writingTransactions ?? 0,
      walBytes: postgres?.walBytes ?? 0,
      redisBytes: (redis?.bytesIn ?? 0) + (redis?.bytesOut ?? 0),
      postgresBytes: grownBytes(before.sockets, after.sockets),
    };
    const ofStores = this.stores.postgres.length === 0 ? embedded : distributed;
    const cells = { serviceUs: cpuUs.service ?? 0, ...ofStores, httpBytes };
    return { seconds: (performance.now() - beganAt) / 1000, operations, cells };
  }
}

/** The bytes through the connections to these ports that are open now, both ways, by the address of the other end. */
async function socketBytes(ports: readonly number[]): Promise<Map<string, number>> {
  const sockets = new Map<string, number>();
  for (const port of ports) {
    const { stdout } = await run('ss', ['-tinHO', `( sport = :${port} )`], { maxBuffer: 1e8 });
    for (const line of stdout.split('\n')) {
      const [, , , , peer = ''] = line.split(/\s+/);
      const bytes = Array.from(line.matchAll(SOCKET_BYTES), ([, count]) => Number(count));
      sockets.set(
        peer,
        bytes.reduce((sum, count) => sum + count, 0),
      );
    }
  }
  return sockets;
}

/** A connection that was closed since was idle. */
function grownBytes(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): number {
  return Array.from(after).reduce((sum, [peer, bytes]) => sum + bytes - (before.get(peer) ?? 0), 0);
}

function mapped(cells: Cells, change: (value: number, name: CellName) => number): Cells {
  const entries = Object.entries(cells) as [CellName, number][];
  return Object.fromEntries(entries.map(([name, value]) => [name, change(value, name)]));
}
