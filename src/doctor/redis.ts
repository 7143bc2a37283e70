import type { Redis } from 'ioredis';
import type { Clock } from '../platform/clock.js';
import { type Finding, noAnswer, verdictOf } from '../platform/finding.js';
import { within } from '../platform/time-limit.js';
import { messageOf } from '../stores/redis/connection/fault.js';
import { numberIn, type RedisInfo } from '../stores/redis/connection/info.js';
import { examineRights } from '../stores/redis/connection/rights.js';
import { addressOf, Sentinels } from '../stores/redis/connection/sentinels.js';
import { enter, masterFrom, refusalOfWrites } from '../stores/redis/connection/start.js';
import { type RedisLocation, type RedisNode, redisName } from '../stores/redis/connection/url.js';
import { visit } from '../stores/redis/connection/visit.js';
import { CannotOpen } from '../stores/shared/deployment.js';
import { examineClock } from './clock.js';
import { judgeTransport } from './transport.js';

/** Every question has a limit of its own; this is for all of them together. */
const LIMIT_MS = 20_000;
/** What the tests run on; older versions of the commands may do. */
const TESTED_MAJOR = 7;
const LEAST_MAJOR = 5;
const MEGABYTE = 1_000_000;
/** As the service counts (`redis-watch.ts`). */
const FULL = 0.8;
const LEAST_SENTINELS = 3;
const AWAY = 'without Redis no payment begins, and no status changes';

/**
 * Examines the servers of `REDIS_URL` as the service uses them, with one connection for each. Writes nothing and never rejects: an
 * unreachable server is a finding.
 */
export async function examineRedis(location: RedisLocation, clock: Clock): Promise<readonly Finding[]> {
  const slow = noAnswer('Redis', `no answer within ${LIMIT_MS / 1_000} s`, AWAY);
  const examined = examine(location, clock).catch((error: unknown) => [noAnswer('Redis', messageOf(error), AWAY)]);
  return within(LIMIT_MS, examined, [slow]);
}

async function examine(location: RedisLocation, clock: Clock): Promise<Finding[]> {
  switch (location.topology) {
    case 'standalone':
      return examineServer(location.node, 'Redis', location, clock);
    case 'sentinel':
      return examineBehindSentinels(location, clock);
    case 'cluster':
      return examineCluster(location, clock);
  }
}

async function examineBehindSentinels(
  location: RedisLocation & { readonly topology: 'sentinel' },
  clock: Clock,
): Promise<Finding[]> {
  const sentinels = new Sentinels(location);
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
  if (!master) return [found, ...(await refusalsOf(location))];
  return [found, ...(await examineServer(master, 'Redis', location, clock))];
}

/** What the start would say about the Sentinels of the URL. */
async function refusalsOf(location: RedisLocation & { readonly topology: 'sentinel' }): Promise<Finding[]> {
  const asked = await Promise.allSettled(location.sentinels.map((node) => masterFrom(node, location)));
  return asked.flatMap((answer) =>
    answer.status === 'rejected' ? [noAnswer('REDIS_URL', messageOf(answer.reason), AWAY)] : [],
  );
}

async function examineCluster(
  location: RedisLocation & { readonly topology: 'cluster' },
  clock: Clock,
): Promise<Finding[]> {
  for (const node of location.nodes) {
    const known = await visit(node, location.tls, async (server) => {
      await enter(server, node, location, () => {});
      return {
        info: String(await server.call('CLUSTER', 'INFO')),
        slots: (await server.call('CLUSTER', 'SLOTS')) as [number, number, [string, number], ...unknown[]][],
      };
    });
    if (!known) continue;
    const masters = new Map<string, RedisNode>();
    for (const [, , [host, port]] of known.slots) {
      const master = { host: host || node.host, port };
      masters.set(addressOf(master), master);
    }
    const state = /cluster_state:(\w+)/.exec(known.info)?.[1] ?? 'unknown';
    const found: Finding = {
      verdict: verdictOf(state !== 'ok'),
      what: 'Redis Cluster',
      found: `state ${state}, ${masters.size} masters`,
      wanted: 'state ok',
      why: 'a Cluster with slots that nobody serves refuses commands',
    };
    const ofMasters = await Promise.all(
      [...masters.values()].map((master) => examineServer(master, `Redis ${addressOf(master)}`, location, clock)),
    );
    return [found, ...ofMasters.flat()];
  }
  return [noAnswer('Redis', `no node of ${redisName(location)} answers`, AWAY)];
}

async function examineServer(node: RedisNode, name: string, location: RedisLocation, clock: Clock): Promise<Finding[]> {
  const warnings: string[] = [];
  try {
    const findings = await visit(node, location.tls, async (server) => {
      const info = await enter(server, node, location, (sentence) => warnings.push(sentence));
      return [
        ...examineInfo(info, location),
        await examineWrites(server),
        await examineSync(server, info),
        await examineRights(server, location.topology === 'cluster'),
        await examineClock('Redis', clock, () => timeOf(server)),
      ];
    });
    if (!findings) return [noAnswer(name, `no answer from ${addressOf(node)}`, AWAY)];
    return [
      ...findings.map((finding) => ({ ...finding, what: finding.what.replace(/^Redis/, name) })),
      judgeTransport(name, node.host, location.tls ? 'yes, verified' : undefined),
      judgePassword(name, location, warnings),
    ];
  } catch (error) {
    if (error instanceof CannotOpen) return [noAnswer(name, error.message, AWAY)];
    throw error;
  }
}

/** `warnings`: what the log-in had to say. */
function judgePassword(name: string, { password }: RedisLocation, warnings: readonly string[]): Finding {
  const given = password === undefined ? 'none' : 'asked for';
  return {
    verdict: verdictOf(false, password === undefined || warnings.length > 0),
    what: `${name} password`,
    found: warnings.length > 0 ? 'set here, but the server asks for none' : given,
    wanted: 'asked for',
    why: 'without a password, anyone who reaches the port can delete locks',
  };
}

function examineInfo(info: RedisInfo, { topology }: RedisLocation): Finding[] {
  const version = info.get('redis_version') ?? '';
  const valkey = info.get('valkey_version');
  const major = Number.parseInt(version, 10);
  const role = info.get('role') ?? 'unknown';
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  const [most, used] = [numberIn(info, 'maxmemory'), numberIn(info, 'used_memory')];
  const fullness =
    most === 0 ? 'no limit' : `${Math.round((100 * used) / most)} % of ${Math.round(most / MEGABYTE)} MB`;
  const hasAppendLog = info.get('aof_enabled') === '1';
  const replicas = numberIn(info, 'connected_slaves');
  const good = info.get('min_slaves_good_slaves');
  const replicated = topology !== 'standalone';
  return [
    {
      verdict: verdictOf(major < LEAST_MAJOR, major < TESTED_MAJOR),
      what: 'Redis',
      found: valkey === undefined ? version : `Valkey ${valkey}`,
      wanted: `${TESTED_MAJOR} or newer`,
      why: 'nothing older is tested',
    },
    {
      verdict: verdictOf(role !== 'master'),
      what: 'Redis role',
      found: role,
      wanted: 'master',
      why: 'a replica takes no writes',
    },
    {
      verdict: verdictOf(policy !== 'noeviction'),
      what: 'Redis maxmemory-policy',
      found: policy,
      wanted: 'noeviction',
      why: 'any other may evict a lock or an issued key',
    },
    {
      verdict: verdictOf(false, most === 0 || used > FULL * most),
      what: 'Redis maxmemory',
      found: fullness,
      wanted: `a limit, and less than ${100 * FULL} % of it in use`,
      why: 'without a limit the system may kill Redis; above this no cache entry is filled',
    },
    {
      verdict: verdictOf(false, !hasAppendLog),
      what: 'Redis appendonly',
      found: hasAppendLog ? 'yes' : 'no',
      wanted: 'yes',
      why: 'without it a restart makes unpaid keys invalid; payments do not depend on it',
    },
    {
      verdict: verdictOf(false, replicated && replicas === 0),
      what: 'Redis replicas',
      found: String(replicas),
      wanted: replicated ? 'at least 1' : 'any number',
      why: 'without one a lost master is not replaced',
    },
    {
      verdict: verdictOf(false, replicated && good === undefined),
      what: 'Redis min-replicas-to-write',
      found: good === undefined ? '0' : `set, ${good} replicas count`,
      wanted: replicated ? 'at least 1' : 'any',
      why: 'with it a master that was cut off stops taking writes',
    },
  ];
}

/** As the start asks: for memory, a broken disk, too few replicas. */
async function examineWrites(server: Redis): Promise<Finding> {
  const refusal = await refusalOfWrites(server);
  // Another node of a Cluster may have the slot.
  const isRefused = refusal !== undefined && !/^MOVED/.test(messageOf(refusal));
  return {
    verdict: verdictOf(isRefused),
    what: 'Redis writes',
    found: isRefused ? messageOf(refusal) : 'taken',
    wanted: 'taken',
    why: 'each first payment writes a lock',
  };
}

/** CONFIG is not among the rights that docs/operations/deployment.md asks for: it shows passwords. */
async function examineSync(server: Redis, info: RedisInfo): Promise<Finding> {
  const row = {
    what: 'Redis appendfsync',
    wanted: 'everysec or always',
    why: 'with "no" a crash of the machine loses more than a second of unpaid keys',
  };
  if (info.get('aof_last_write_status') === 'err')
    return { ...row, verdict: 'wrong', found: 'the last write to the append-only file failed' };
  if (info.get('aof_enabled') !== '1') return { ...row, verdict: 'ok', found: 'not used' };
  const reply = await server.config('GET', 'appendfsync').catch((error: Error) => {
    if (error.name === 'ReplyError') return undefined;
    throw error;
  });
  const found = (reply as string[] | undefined)?.[1];
  if (found === undefined)
    return { ...row, verdict: 'warning', found: 'this user may not ask (CONFIG GET appendfsync); ask as another' };
  return { ...row, verdict: verdictOf(false, found === 'no'), found };
}

async function timeOf(server: Redis): Promise<number> {
  const [seconds, microseconds] = await server.time();
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
}
