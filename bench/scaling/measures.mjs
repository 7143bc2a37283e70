// Costs of each operation on one topology, taken from the meter, the sockets and the scheduler.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { between, openMeter } from '../costs.mjs';
import { startClient } from '../open-loop.mjs';
import { temporaryFolder } from '../processes.mjs';
import { startPostgres, startRedis, startRedisCluster } from '../servers.mjs';
import { startServer } from '../service.mjs';

const run = promisify(execFile);
const OPERATIONS = Number(process.env.SCALING_OPERATIONS || 12_000);
/** To each process, and never idle: so batches are as large with many processes as with one. */
const CONNECTIONS = 32;
const IDLE_SECONDS = 4;
/** Of each process, before anything is counted: its engine compiles. */
const WARM_UP = OPERATIONS / 2;
/** The least there is: no id is read again within it, so reads of all of them in turn miss. */
const CACHE_SECONDS = 1;
/** So few that nearly every read of one hits. */
const READ_OFTEN = 8;
const SOCKET_BYTES = /bytes_(sent|received):(\d+)/g;

/** What a cell is called, and the difference that the measuring itself makes. */
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

export async function measureTopology({ deployment, processes, masters }) {
  const stores = deployment === 'embedded' ? await embeddedStores() : await distributedStores(masters);
  const costs = {};
  let idle;
  try {
    await withServices(stores, processes, { TRANSACTION_CACHE_TTL_SECONDS: String(CACHE_SECONDS) }, async (site) => {
      await site.warmUp();
      idle = await site.idle();
      const measure = async (name, plan) => {
        costs[name] = await site.measure(plan, idle);
      };
      await measure('generate-key', { mix: ['key'] });
      await measure('first payment, one commit', { mix: ['pay'] });
      await measure('repeat', { mix: ['repeat'] });
      await measure('create a transaction', { mix: ['create'] });
      await measure('read by id, miss', { mix: ['read'] });
      const tag = await site.listTag();
      await measure('list, 304', { mix: ['list'], given: { listTag: tag } });
      const transactions = await site.someTransactions();
      await measure('read by id, hit', { mix: ['read'], given: { transactions } });
    });
    await withServices(stores, processes, { PROCESSOR_DELAY_MS: '1' }, async (site) => {
      await site.warmUp();
      await site.issueKeys(Math.ceil(OPERATIONS / processes));
      costs['first payment, two commits'] = await site.measure({ mix: ['pay'] }, idle);
    });
  } finally {
    await stores.stop();
  }
  return { idle, costs };
}

async function embeddedStores() {
  const settings = { DATA_DIR: join(await temporaryFolder(), 'data') };
  return { settings, redis: [], postgres: [], stop: async () => {} };
}

async function distributedStores(masters) {
  const single = masters === 1 ? await startRedis() : undefined;
  const { url, nodes } = single ? { url: single.url, nodes: [single] } : await startRedisCluster(masters);
  const postgres = await startPostgres();
  return {
    settings: { REDIS_URL: url, DATABASE_URL: postgres.url },
    redis: nodes,
    postgres: [postgres],
    async stop() {
      for (const server of [...nodes, postgres]) await server.stop();
    },
  };
}

async function withServices({ settings, redis, postgres }, processes, more, work) {
  const services = [];
  for (let index = 0; index < processes; index += 1) {
    services.push(await startServer('dist/main.js', { ...settings, ...more }));
  }
  const clients = services.map((service) => startClient(service));
  const meter = await openMeter({ service: services, redis, postgres });
  const together = async (plan) =>
    Promise.all(clients.map((client) => client.run({ connections: CONNECTIONS, ...plan })));

  async function read() {
    const [sockets, costs] = [await socketBytes(postgres.map(({ port }) => port)), await meter.read()];
    return { costs, sockets };
  }

  /** Of all parts while `work` ran, with the operations that it resolves to. */
  async function costsOf(work) {
    const [before, beganAt] = [await read(), performance.now()];
    const done = await work();
    const after = await read();
    const { cpuUs, service, redis: ofRedis, postgres: ofPostgres } = between(before.costs, after.costs);
    const tripsTo = (store) => sum(Object.entries(service.roundTrips).filter(([name]) => name.startsWith(store)));
    const isEmbedded = postgres.length === 0;
    return {
      seconds: (performance.now() - beganAt) / 1000,
      operations: done.operations,
      cells: {
        serviceUs: cpuUs.service,
        ...(isEmbedded
          ? { sqliteTrips: tripsTo('sqlite'), commits: service.commits, walBytes: service.diskBytes }
          : {
              redisUs: cpuUs.redis,
              postgresUs: cpuUs.postgres,
              redisCalls: service.redisCalls,
              postgresTrips: tripsTo('postgresql'),
              commits: ofPostgres.writingTransactions,
              walBytes: ofPostgres.walBytes,
              redisBytes: ofRedis.bytesIn + ofRedis.bytesOut,
              postgresBytes: grownBytes(before.sockets, after.sockets),
            }),
        httpBytes: done.httpBytes,
      },
    };
  }

  const site = {
    async warmUp() {
      await together({ mix: ['key'], count: WARM_UP });
      await together({ mix: ['pay', 'create'], count: 2 * WARM_UP });
      await together({ mix: ['repeat', 'read'], count: WARM_UP });
    },
    issueKeys: (count) => together({ mix: ['key'], count }),
    /** A second. */
    async idle() {
      const { cells, seconds } = await costsOf(async () => {
        await delay(IDLE_SECONDS * 1000);
        return { operations: 0, httpBytes: 0 };
      });
      return mapped(cells, (cost) => cost / seconds);
    },
    async measure(plan, idle) {
      const { cells, seconds, operations } = await costsOf(async () => {
        const results = await together({ count: Math.ceil(OPERATIONS / processes), ...plan });
        for (const { lost, answers } of results) {
          const wrong = Object.keys(answers).filter((name) => !/ (200|201|304)$/.test(name));
          if (lost > 0 || wrong.length > 0) throw new Error(`${plan.mix}: ${lost} lost, ${wrong}`);
        }
        return {
          operations: results.reduce((all, { count }) => all + count, 0),
          httpBytes: results.reduce((all, { bytesIn, bytesOut }) => all + bytesIn + bytesOut, 0),
        };
      });
      return mapped(cells, (cost, name) => Math.max(0, cost - idle[name] * seconds) / operations);
    },
    async listTag() {
      // Each process computes it once.
      const tags = await Promise.all(
        services.map(async ({ url }) => {
          const answer = await fetch(`${url}/api/transactions`);
          await answer.arrayBuffer();
          return answer.headers.get('etag');
        }),
      );
      return tags[0];
    },
    async someTransactions() {
      const [service] = services;
      const answer = await fetch(`${service.url}/api/transactions`);
      return (await answer.json()).slice(0, READ_OFTEN).map(({ transactionId }) => transactionId);
    },
  };
  try {
    await work(site);
  } finally {
    for (const client of clients) client.stop();
    await meter.close();
    for (const service of services) await service.stop();
  }
}

/** What went through the connections to these ports that are open now, both ways, by the address of the other end. */
async function socketBytes(ports) {
  const sockets = new Map();
  for (const port of ports) {
    const { stdout } = await run('ss', ['-tinHO', `( sport = :${port} )`], { maxBuffer: 1e8 });
    for (const line of stdout.split('\n')) {
      const [, , , , peer] = line.split(/\s+/);
      sockets.set(peer, sum(Array.from(line.matchAll(SOCKET_BYTES), ([, , count]) => ['', Number(count)])));
    }
  }
  return sockets;
}

/** A connection that was closed since was idle. */
function grownBytes(before, after) {
  return sum(Array.from(after, ([peer, bytes]) => [peer, bytes - (before.get(peer) ?? 0)]));
}

function sum(entries) {
  return entries.reduce((all, [, value]) => all + value, 0);
}

function mapped(values, change) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value, name)]));
}
