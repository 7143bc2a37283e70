import { type Finding, verdictOf } from '../../../platform/finding.js';
import { pageAt } from '../../../platform/manual.js';
import { createKeyNames } from '../key-names.js';
import { messageOf } from './fault.js';
import type { VisitedRedis } from './visit.js';

const NAMES = createKeyNames('doctor');
const { record: KEY } = NAMES.payment('doctor');
const ON_KEYS = [
  ...['DEL', 'EXISTS', 'HDEL', 'HEXISTS', 'HGET', 'HGETALL', 'HINCRBY', 'HLEN', 'HMGET', 'HSET', 'HSETNX', 'HVALS'],
  ...['PEXPIRE', 'PEXPIREAT', 'PTTL'],
] as const;
/** Enough for every form of these. */
const MORE_PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  HDEL: ['a'],
  HEXISTS: ['a'],
  HGET: ['a'],
  HINCRBY: ['a', '1'],
  HMGET: ['a'],
  HSET: ['a', '1'],
  HSETNX: ['a', '1'],
  PEXPIRE: ['1'],
  PEXPIREAT: ['1'],
};

/** Everything that a user of ours is asked to be allowed (docs/operations/deployment.md), as the service sends it. */
const NEEDED: readonly (readonly string[])[] = [
  ...ON_KEYS.map((command) => [command, KEY, ...(MORE_PARAMETERS[command] ?? [])]),
  ['EVAL', 'return 1', '1', KEY],
  ['EVALSHA', '0'.repeat(40), '1', KEY],
  ['SCRIPT', 'LOAD', 'return 1'],
  ...[['INFO'], ['TIME'], ['PING'], ['DBSIZE']],
  ['SUBSCRIBE', NAMES.lockEnds],
  ['PUBLISH', NAMES.lockEnds, 'a'],
];
/** Without one of these only the live view lacks something. */
const NEEDED_TO_SHARE_SAMPLES: readonly (readonly string[])[] = [
  ['XADD', NAMES.samples, '*', 'sample', 'a'],
  ['XTRIM', NAMES.samples, 'MINID', '0'],
  ['XREAD', 'STREAMS', NAMES.samples, '0'],
];
const NEEDED_ON_CLUSTER: readonly (readonly string[])[] = [['CLUSTER', 'SLOTS']];

/**
 * Checks a command inside a script without running it. `ACL DRYRUN` would do the same, but a user with the rights of
 * docs/operations/deployment.md may not call it. Needs Redis 7. Has no keys, so that any node of a Cluster can run it.
 */
const CHECK = 'return redis.acl_check_cmd(unpack(ARGV)) and 1 or 0';
const WHY = `${pageAt('docs/operations/deployment.md')} lists them; without one some requests get 503, or wait too long`;
const WHY_SAMPLES = `${pageAt('docs/operations/deployment.md')} lists them; without one the live view shows only the process that is asked`;

/** Checks that the user of `REDIS_URL` may do everything that the service does. Changes nothing. */
export async function examineRights({ server, location }: VisitedRedis): Promise<Finding> {
  const needed = location.topology === 'cluster' ? [...NEEDED, ...NEEDED_ON_CLUSTER] : NEEDED;
  const all = [...needed, ...NEEDED_TO_SHARE_SAMPLES];
  const row = { what: 'Redis rights', wanted: 'each command that the service sends', why: WHY };
  const missing: string[] = [];
  for (const command of all) {
    try {
      if ((await server.eval(CHECK, 0, ...command)) === 0) missing.push(nameOf(command));
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      return refused(row, messageOf(error));
    }
  }
  const found = missing.length === 0 ? `all ${all.length}` : `not allowed: ${missing.join(', ')}`;
  const isWrong = needed.some((command) => missing.includes(nameOf(command)));
  return {
    ...row,
    verdict: verdictOf(isWrong, missing.length > 0),
    found,
    ...(!isWrong && missing.length > 0 && { why: WHY_SAMPLES }),
  };
}

/** The script itself was refused, or the server is older than the question. */
function refused(row: Omit<Finding, 'verdict' | 'found'>, message: string): Finding {
  if (/NOPERM/.test(message)) return { ...row, verdict: 'wrong', found: message };
  if (/acl_check_cmd/.test(message))
    return { ...row, verdict: 'warning', found: 'this server (before 7.0) cannot be asked: try a payment' };
  return { ...row, verdict: 'warning', found: `could not be asked: ${message}` };
}

function nameOf([command = '', subcommand = '']: readonly string[]): string {
  return ['SCRIPT', 'CLUSTER'].includes(command) ? `${command} ${subcommand}` : command;
}
