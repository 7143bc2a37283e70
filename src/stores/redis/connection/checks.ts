import type { Clock } from '../../../platform/clock.js';
import { type Finding, verdictOf } from '../../../platform/finding.js';
import { type Check, examineClock, judgeTransport } from '../../shared/checks.js';
import { messageOf } from './fault.js';
import { numberIn } from './info.js';
import { examineRights } from './rights.js';
import { adviceFor, type VisitedRedis } from './visit.js';

/** The tests run on this version; older ones that have the commands may do. */
const TESTED_MAJOR = 7;
const LEAST_MAJOR = 5;
/** A replica may be about to become the master. */
export const REDIS_ROLE = 'Redis role';
const MASTER_ADVICE = 'Name its master, or have Sentinels find it: redis+sentinel://host:26379/master';
const MEGABYTE = 1_000_000;
/** Payments and the cache share that memory, and a lock must never be refused for want of room. */
export const FILL_BELOW = 0.8;
/** Changes nothing, and is refused to a user who may not run scripts or may not write our keys. */
const PROBE = "return redis.call('DEL', KEYS[1])";
const PROBED_KEY = 'idempay:{start}';

type ExaminedRedis = VisitedRedis & { readonly clock: Clock };

/** A start refuses if one is wrong and has advice, and warns of a doubtful one that has. */
export const ASKED_AT_START: readonly Check<VisitedRedis>[] = [judgeRole, examineWrites, judgePassword];
/** Everything that is asked of a server of `REDIS_URL`. */
export const REDIS_CHECKS: readonly Check<ExaminedRedis>[] = [
  judgeInfo,
  ...ASKED_AT_START,
  judgeLosses,
  examineSync,
  examineRights,
  ({ server, clock }) => examineClock('Redis', clock, () => timeOf(server)),
  ({ node, location }) => judgeTransport('Redis', node.host, location.tls ? 'yes, verified' : undefined),
];

function judgeRole({ info, location }: VisitedRedis): Finding {
  const isMaster = info.get('role') === 'master';
  // Sentinels and Clusters replace a master, and lead to the new one.
  const advice = location.topology === 'standalone' ? MASTER_ADVICE : undefined;
  return {
    verdict: verdictOf(!isMaster),
    what: REDIS_ROLE,
    found: isMaster ? 'master' : 'it is a replica, which takes no writes',
    wanted: 'master',
    why: 'a replica takes no writes',
    advice: isMaster ? undefined : advice,
  };
}

/** The server refuses for memory, a broken disk, too few replicas, which may pass; or for rights. */
async function examineWrites({ server }: VisitedRedis): Promise<Finding> {
  const refusal = await server.eval(PROBE, 1, PROBED_KEY).then(
    () => '',
    (error: Error) => {
      if (error.name === 'ReplyError') return messageOf(error);
      throw error;
    },
  );
  // Another node of a Cluster may have the slot.
  const isRefused = refusal !== '' && !refusal.startsWith('MOVED');
  return {
    verdict: verdictOf(isRefused),
    what: 'Redis writes',
    found: isRefused ? refusal : 'taken',
    wanted: 'taken',
    why: 'each first payment writes a lock',
    advice: refusal.startsWith('NOPERM') ? adviceFor(refusal) : undefined,
  };
}

function judgePassword({ location: { password }, ignoresPassword }: VisitedRedis): Finding {
  const given = password === undefined ? 'none' : 'asked for';
  return {
    verdict: verdictOf(false, password === undefined || ignoresPassword),
    what: 'Redis password',
    found: ignoresPassword ? 'set in REDIS_URL, but Redis asks for no password' : given,
    wanted: 'asked for',
    why: 'without a password, anyone who reaches the port can delete locks',
    advice: ignoresPassword ? 'Set requirepass or an ACL user at the server' : undefined,
  };
}

/**
 * The service warns of these once it is connected, which may be long after the start. Some providers do not tell them; then only the doctor
 * says so.
 */
export function judgeLosses({ info }: Pick<VisitedRedis, 'info'>): Finding[] {
  const policy = info.get('maxmemory_policy');
  const appendLog = info.get('aof_enabled');
  return [
    {
      verdict: verdictOf(policy !== 'noeviction'),
      what: 'Redis maxmemory-policy',
      found: policy ?? 'unknown',
      wanted: 'noeviction',
      why: 'any other may evict a lock or an issued key',
      advice: policy === undefined || policy === 'noeviction' ? undefined : 'Set it to noeviction',
    },
    {
      verdict: verdictOf(false, appendLog !== '1'),
      what: 'Redis appendonly',
      found: appendLog === '1' ? 'yes' : 'no',
      wanted: 'yes',
      why: 'without an append-only file a restart makes unpaid keys invalid; payments do not depend on it',
      advice: appendLog === '0' ? 'Set it to yes' : undefined,
    },
  ];
}

function judgeInfo({ info, location }: VisitedRedis): Finding[] {
  const version = info.get('redis_version') ?? '';
  const valkey = info.get('valkey_version');
  const major = Number.parseInt(version, 10);
  const [most, used] = [numberIn(info, 'maxmemory'), numberIn(info, 'used_memory')];
  const fullness =
    most === 0 ? 'no limit' : `${Math.round((100 * used) / most)} % of ${Math.round(most / MEGABYTE)} MB`;
  const replicas = numberIn(info, 'connected_slaves');
  const good = info.get('min_slaves_good_slaves');
  const replicated = location.topology !== 'standalone';
  return [
    {
      verdict: verdictOf(major < LEAST_MAJOR, major < TESTED_MAJOR),
      what: 'Redis',
      found: valkey === undefined ? version : `Valkey ${valkey}`,
      wanted: `${TESTED_MAJOR} or newer`,
      why: 'nothing older is tested',
    },
    {
      verdict: verdictOf(false, most === 0 || used > FILL_BELOW * most),
      what: 'Redis maxmemory',
      found: fullness,
      wanted: `a limit, and less than ${100 * FILL_BELOW} % of it in use`,
      why: 'without a limit the system may kill Redis; above this no cache entry is filled',
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

/** CONFIG is not among the rights that docs/operations/deployment.md asks for: it shows passwords. */
async function examineSync({ server, info }: VisitedRedis): Promise<Finding> {
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

async function timeOf(server: VisitedRedis['server']): Promise<number> {
  const [seconds, microseconds] = await server.time();
  return Number(seconds) * 1_000 + Number(microseconds) / 1_000;
}
