import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { Random } from '../../testkit/random.js';
import { startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { isSettled, Payers, type Payment } from './payers.js';
import type { Peer } from './peer.js';
import { PROCESSOR_TIMEOUT_MS, runScenario } from './scenario.js';
import { ServerProcess } from './server-process.js';
import { judge, type Verdict } from './verdict.js';

/** As `compose.yaml` runs Redis: what it acknowledged survives the end of its process. */
const APPEND_ONLY = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

/** Records that are looked at for their remaining life: they all got the same. */
const LIVES = 20;

export interface Trial extends Verdict {
  readonly peer: Peer;
  readonly deduplicates: boolean;
  /** Ends of server processes that nobody asked for, and the last words of one. */
  readonly deaths: number;
  readonly lastWords: string;
  /** Of the records of stuck keys in Redis, the longest remaining life. */
  readonly lockSeconds: number | undefined;
  readonly tookMs: number;
}

/**
 * One server through the whole scenario, on stores and a processor of its own. Rejects when it is stopped: once all that
 * was started has ended, and its folders are removed.
 */
export async function runTrial(peer: Peer, deduplicates: boolean, random: Random, stop: AbortSignal): Promise<Trial> {
  const startedAt = performance.now();
  const ends: (() => unknown)[] = [];
  try {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-peers-'));
    ends.push(() => rm(folder, { recursive: true, force: true }));
    const processor = await startReferenceProcessor({ behaviour: { deduplicate: deduplicates } });
    ends.push(() => processor.close());
    const redis = peer.stores.includes('redis') ? await startRedis(APPEND_ONLY) : undefined;
    if (redis) ends.push(() => redis.close());
    stop.throwIfAborted();
    const postgres = peer.stores.includes('postgres') ? await startPostgres() : undefined;
    if (postgres) ends.push(() => postgres.close());
    const databaseUrl = (await postgres?.createDatabase('idempay')) ?? '';

    const environment = {
      ...(redis && { REDIS_URL: redis.url }),
      PROCESSOR_URL: processor.url,
      PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
      ...peer.environment({ deduplicates, databaseUrl, folder }),
    };
    const servers: ServerProcess[] = [];
    for (let index = 0; index < peer.processes; index += 1) {
      stop.throwIfAborted();
      const server = await ServerProcess.start(peer.entry, environment);
      ends.push(() => server.close());
      servers.push(server);
    }
    const payers = new Payers(peer, servers);
    ends.push(() => payers.close());

    let lockSeconds: number | undefined;
    const judged = async () => {
      const course = await runScenario({ payers, servers, processor, redis, random }, async () => {
        lockSeconds = redis && (await longestLife(redis, payers.payments));
      });
      return judge({
        payments: payers.payments,
        charges: await processor.charges(),
        course,
        isForOperator: (key) => peer.isForOperator(servers[0]?.url ?? '', key),
      });
    };
    const verdict = await Promise.race([judged(), stopped(stop)]);
    return {
      ...verdict,
      peer,
      deduplicates,
      deaths: servers.reduce((sum, { deaths }) => sum + deaths, 0),
      lastWords: servers.map((server) => server.lastWords).find(Boolean) ?? '',
      lockSeconds,
      tookMs: performance.now() - startedAt,
    };
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

function stopped(stop: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const end = () => reject(stop.reason);
    if (stop.aborted) end();
    else stop.addEventListener('abort', end, { once: true });
  });
}

async function longestLife({ client }: RedisServer, payments: readonly Payment[]): Promise<number | undefined> {
  const open = payments.filter((payment) => payment.told.length > 0 && !isSettled(payment)).slice(0, LIVES);
  const names = await Promise.all(open.map(({ key }) => client.keys(`*${key}*`)));
  const lives = await Promise.all(names.flat().map((name) => client.ttl(name)));
  return lives.length > 0 ? Math.max(...lives) : undefined;
}
