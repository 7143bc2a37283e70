import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { APPEND_ONLY } from '../../testkit/deployments/distributed-stores.js';
import { Disturbances } from '../../testkit/history/disturbances.js';
import { Opened } from '../../testkit/opened.js';
import { startReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import { startPostgres } from '../../testkit/servers/postgres.js';
import { type RedisServer, startRedis } from '../../testkit/servers/redis.js';
import { Payers, type Payment } from './payers.js';
import type { Peer } from './peers.js';
import type { Trial } from './report.js';
import { PROCESSOR_TIMEOUT_MS, runScenarios } from './scenarios.js';

/** Records that are looked at for their remaining life: they all got the same. */
const LIVES = 20;

/**
 * One server through all scenarios, on stores and a processor of its own. Rejects when it is stopped, once all that was
 * started has ended and its folders are removed.
 */
export async function runTrial(peer: Peer, deduplicates: boolean, random: Random, stop: AbortSignal): Promise<Trial> {
  const opened = new Opened();
  stop.throwIfAborted();
  const stopped = once(stop, 'abort').then(() => Promise.reject(stop.reason));
  // It may be stopped while nobody waits for that.
  stopped.catch(() => {});
  try {
    const folder = await mkdtemp(join(tmpdir(), 'idempay-peers-'));
    await opened.keep({ close: () => rm(folder, { recursive: true, force: true }) });
    const processor = await opened.keep(startReferenceProcessor({ behaviour: { deduplicate: deduplicates } }));
    const redis = peer.stores.includes('redis') ? await opened.keep(startRedis(APPEND_ONLY)) : undefined;
    const postgres = peer.stores.includes('postgres') ? await opened.keep(startPostgres()) : undefined;
    const environment = {
      PROCESSOR_URL: processor.url,
      PROCESSOR_TIMEOUT_MS: `${PROCESSOR_TIMEOUT_MS}`,
      ...(redis && { REDIS_URL: redis.url }),
      ...(postgres && { DATABASE_URL: await postgres.createDatabase('idempay') }),
      ...(peer.stores.length === 0 && { DATA_DIR: folder }),
      // As `docs/reference/processor.md` says for a processor that does not deduplicate: send once, then only look up.
      ...(peer.isOurs && !deduplicates && { PROCESSOR_DEDUP_SECONDS: '0' }),
    };
    const servers: SupervisedService[] = [];
    const ownEnds: string[] = [];
    for (const name of peer.stores.length > 0 ? ['one', 'other'] : ['only']) {
      stop.throwIfAborted();
      const onOwnEnd = (sentence: string) => ownEnds.push(sentence);
      const { program } = peer;
      const disturbances = new Disturbances();
      servers.push(await opened.keep(SupervisedService.create({ name, program, environment, disturbances, onOwnEnd })));
      await servers.at(-1)?.up();
    }
    const payers = await opened.keep(new Payers(peer, servers, random.fork()));

    let lockSeconds: number | undefined;
    const running = runScenarios({ payers, servers, processor, redis, random }, async () => {
      lockSeconds = redis && (await longestLife(redis, payers.open.slice(0, LIVES)));
    });
    const outages = await Promise.race([running, stopped]);
    const forOperator = new Set<Payment>();
    for (const payment of payers.open) {
      stop.throwIfAborted();
      if (await peer.isForOperator(servers[0]?.url ?? '', payment.key)) forOperator.add(payment);
    }
    const payments = payers.payments.filter(({ answers }) => answers.length > 0);
    const charges = (await processor.charges()).map(({ reference }) => reference);
    return { peer, deduplicates, payments, charges, forOperator, outages, ownEnds, lockSeconds };
  } finally {
    await opened.close();
  }
}

async function longestLife({ client }: RedisServer, payments: readonly Payment[]): Promise<number | undefined> {
  const names = await Promise.all(payments.map(({ key }) => client.keys(`*${key}*`)));
  const lives = await Promise.all(names.flat().map((name) => client.ttl(name)));
  return lives.length > 0 ? Math.max(...lives) : undefined;
}
