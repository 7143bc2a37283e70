import { type Finding, noAnswer, verdictOf } from '../../../platform/finding.js';
import type { CannotOpen } from '../../shared/deployment.js';
import { addressOf, Sentinels } from './sentinels.js';
import { type RedisLocation, type RedisNode, redisName } from './url.js';
import { visit } from './visit.js';

const LEAST_SENTINELS = 3;
export const WITHOUT_REDIS = 'without Redis no payment begins, and no status changes';

interface FoundServers {
  /** Those that are written to: one, or the masters of a Cluster. None if nobody names one. */
  readonly servers: readonly RedisNode[];
  readonly findings: readonly Finding[];
  /** Why, if nobody names one and only another `REDIS_URL` can change that. */
  readonly refusals: readonly CannotOpen[];
}

/** Finds the servers that `REDIS_URL` leads to. Takes some seconds at most. */
export async function findServers(location: RedisLocation): Promise<FoundServers> {
  switch (location.topology) {
    case 'standalone':
      return { servers: [location.node], findings: [], refusals: [] };
    case 'sentinel':
      return askSentinels(new Sentinels(location));
    case 'cluster':
      return askCluster(location);
  }
}

async function askSentinels(sentinels: Sentinels): Promise<FoundServers> {
  // Asked twice: the second time includes the Sentinels that the first answers named.
  await sentinels.ask();
  const { answers, master } = await sentinels.ask();
  const naming = answers.filter(
    (answer) => 'master' in answer && master && addressOf(answer.master) === addressOf(master),
  );
  const silent = answers.flatMap((answer) => ('silence' in answer ? [`${answer.sentinel}: ${answer.silence}`] : []));
  const found: Finding = {
    verdict: verdictOf(!master, naming.length < answers.length || answers.length < LEAST_SENTINELS),
    what: 'Sentinels',
    found: `${naming.length} of ${answers.length} name ${master ? addressOf(master) : 'no master'}${silent.length > 0 ? ` (${silent.join(', ')})` : ''}`,
    wanted: `at least ${LEAST_SENTINELS} that agree`,
    why: 'fewer than three cannot decide about a failover when one is lost',
  };
  if (master) return { servers: [master], findings: [found], refusals: [] };
  return { servers: [], findings: [found], refusals: await sentinels.refusals() };
}

async function askCluster(location: RedisLocation & { readonly topology: 'cluster' }): Promise<FoundServers> {
  const { answer, refusals } = await firstAnswer(
    location.nodes.map((node) =>
      visit(node, location, async ({ server }) => ({
        node,
        info: String(await server.call('CLUSTER', 'INFO').catch(() => '')),
        slots: (await server.call('CLUSTER', 'SLOTS')) as [number, number, [string, number], ...unknown[]][],
      })),
    ),
  );
  if (!answer) {
    const nobody = noAnswer('Redis', `no node of ${redisName(location)} answers`, WITHOUT_REDIS);
    return { servers: [], findings: refusals.length > 0 ? [] : [nobody], refusals };
  }
  const masters = new Map<string, RedisNode>();
  for (const [, , [host, port]] of answer.slots) {
    const master = { host: host || answer.node.host, port };
    masters.set(addressOf(master), master);
  }
  const state = /cluster_state:(\w+)/.exec(answer.info)?.[1] ?? 'unknown';
  const found: Finding = {
    verdict: verdictOf(state !== 'ok'),
    what: 'Redis Cluster',
    found: `state ${state}, ${masters.size} masters`,
    wanted: 'state ok',
    why: 'a Cluster with slots that nobody serves refuses commands',
  };
  return { servers: [...masters.values()], findings: [found], refusals: [] };
}

/** The first answer of some visits, or the refusals if none was answered. */
export async function firstAnswer<T>(
  visits: readonly Promise<T | undefined>[],
): Promise<{ readonly answer: T | undefined; readonly refusals: readonly CannotOpen[] }> {
  const ended = await Promise.allSettled(visits);
  const answers = ended.flatMap((visit) => (visit.status === 'fulfilled' ? [visit.value] : []));
  const refusals = ended.flatMap((visit) => (visit.status === 'rejected' ? [visit.reason as CannotOpen] : []));
  return { answer: answers.find((each) => each !== undefined), refusals };
}
