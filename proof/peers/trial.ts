import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Disturbances } from '../../testkit/history/disturbances.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import { startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { checkTrial, type TrialResult } from './check-trial.js';
import { isSettled, Payers, type Payment } from './payers.js';
import type { Peer } from './peer.js';
import { PROCESSOR_TIMEOUT_MS, runScenarios } from './scenarios.js';

/** As `compose.yaml` runs Redis: what it acknowledged survives the end of its process. */
const APPEND_ONLY = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

/** Records that are looked at for their remaining life: they all got the same. */
const LIVES = 20;

export interface Trial extends TrialResult {
  readonly peer: Peer;
  readonly deduplicates: boolean;
  /** Ends of server processes that nobody caused. */
  readonly ownEnds: readonly string[];
  /** Of the records of open keys in Redis, the longest remaining life. */
  readonly lockSeconds: number | undefined;
  readonly tookMs: number;
}

/**
 * One server through all scenarios, on stores and a processor of its own. Rejects when it is stopped, once all that was
 * started has ended and its folders are removed.
 */
export async function runTrial(peer: Peer, deduplicates: boolean, random: Random, stop: AbortSignal): Promise<Trial> {
  const startedAt = performance.now();
  const closings: (() => unknown)[] = [];
  try {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-peers-'));
    closings.push(() => rm(folder, { recursive: true, force: true }));
    const processor = await startReferenceProcessor({ behaviour: { deduplicate: deduplicates } });
    closings.push(() => processor.close());
    const redis = peer.stores.includes('redis') ? await startRedis(APPEND_ONLY) : undefined;
    if (redis) closings.push(() => redis.close());
    stop.throwIfAborted();
    const postgres = peer.stores.includes('postgres') ? await startPostgres() : undefined;
    if (postgres) closings.push(() => postgres.close());
    const databaseUrl = (await postgres?.createDatabase('idempay')) ?? '';

    const environment = {
      ...(redis && { REDIS_URL: redis.url }),
      PROCESSOR_URL: processor.url,
      PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
      ...peer.environment({ deduplicates, databaseUrl, folder }),
    };
    const servers: SupervisedService[] = [];
    const ownEnds: string[] = [];
    for (let index = 0; index < peer.processes; index += 1) {
      stop.throwIfAborted();
      const server = await SupervisedService.create({
        name: `${peer.name} ${index}`,
        program: fileURLToPath(peer.program),
        environment,
        disturbances: new Disturbances(),
        onOwnEnd: (sentence) => ownEnds.push(sentence),
      });
      closings.push(() => server.close());
      servers.push(server);
      await server.up();
    }
    const payers = new Payers(peer, servers);
    closings.push(() => payers.close());

    let lockSeconds: number | undefined;
    const checked = async () => {
      const outages = await runScenarios({ payers, servers, processor, redis, random }, async () => {
        lockSeconds = redis && (await longestLife(redis, payers.payments));
      });
      const isForOperator = (key: string) => peer.isForOperator(servers[0]?.url ?? '', key);
      return checkTrial({ payments: payers.payments, charges: await processor.charges(), outages, isForOperator });
    };
    const result = await Promise.race([checked(), aborted(stop)]);
    return { ...result, peer, deduplicates, ownEnds, lockSeconds, tookMs: performance.now() - startedAt };
  } finally {
    for (const close of closings.reverse()) await close();
  }
}

function aborted(stop: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const end = () => reject(stop.reason);
    if (stop.aborted) end();
    else stop.addEventListener('abort', end, { once: true });
  });
}

async function longestLife({ client }: RedisServer, payments: readonly Payment[]): Promise<number | undefined> {
  const open = payments.filter((payment) => payment.answers.length > 0 && !isSettled(payment)).slice(0, LIVES);
  const names = await Promise.all(open.map(({ key }) => client.keys(`*${key}*`)));
  const lives = await Promise.all(names.flat().map((name) => client.ttl(name)));
  return lives.length > 0 ? Math.max(...lives) : undefined;
}
