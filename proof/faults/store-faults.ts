import type { Forgets } from '../../testkit/history/disturbances.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import { disturbing, type EnvironmentOptions, type Fault } from './environment.js';
import { LONGEST_STOP_MS, networkFaults } from './network-faults.js';
import type { PostgresUnderFault } from './postgres-under-fault.js';
import type { RedisPair } from './redis-pair.js';

/** The replica misses at most what is written in so long. */
const LONGEST_LAG_MS = 800;
const LONGEST_DOWN_MS = 300;

/** Statements that write, by the names they have on the wire. */
const WRITES = [
  'claim',
  'settle',
  'take_over',
  'take_over_abandoned',
  'renew',
  'abandon',
  'resolve',
  'create_transactions',
  'change_status',
  'remove_transaction',
];

type Work = (random: Random) => Promise<unknown>;

export function redisFaults(redis: RedisPair, options: EnvironmentOptions): Fault[] {
  const fault = (what: string, weight: number, work: Work, more: { kills?: true; forgets?: Forgets } = {}) =>
    disturbing(options, { name: `Redis ${what}`, hits: 'redis', weight, ...more }, work);
  /** A replica that has not caught up would lose more than the latest. */
  const failover = (what: string, weight: number, work: Work, more: { kills?: true } = {}): Fault => {
    const failing = fault(what, weight, work, { ...more, forgets: 'the latest' });
    const happen = async (random: Random) => {
      await redis.caughtUp();
      await failing.happen(random);
    };
    return { ...failing, happen };
  };
  return [
    // What it acknowledged is in its file, so nothing may be forgotten.
    fault('killed, restarted from its file', 2, () => redis.killAndRestart(), { kills: true }),
    fault('killed, restarted empty', 1, () => redis.killAndRestartEmpty(), { kills: true, forgets: 'everything' }),
    fault('flushed, its scripts now and then as well', 2, (random) => redis.flush(random.below(4) === 0), {
      forgets: 'everything',
    }),
    failover(
      'killed, failed over to its replica',
      1,
      async (random) => {
        await redis.killMaster();
        await pause(random.below(LONGEST_DOWN_MS));
        await redis.failOver();
      },
      { kills: true },
    ),
    failover('failed over to a stale replica', 2, async (random) => {
      await redis.detachReplica();
      await pause(random.below(LONGEST_LAG_MS));
      await redis.failOver();
    }),
    fault('stopped for a while', 1, async (random) => {
      redis.signal('SIGSTOP');
      await pause(random.below(LONGEST_STOP_MS));
      redis.signal('SIGCONT');
    }),
    ...networkFaults('Redis', 'redis', redis.proxy, ['idempay:'], options),
  ];
}

export function postgresFaults(postgres: PostgresUnderFault, options: EnvironmentOptions): Fault[] {
  const fault = (name: string, work: Work, more: { kills?: true } = {}) =>
    disturbing(options, { name, hits: 'postgres', weight: 1, ...more }, work);
  const statements = WRITES.map((name) => `\0${name}\0`);
  return [
    fault('PostgreSQL restarted', () => postgres.restart('SIGINT')),
    fault('PostgreSQL stopped at once, recovered', () => postgres.restart('SIGQUIT')),
    fault('PostgreSQL killed, recovered', () => postgres.restart('SIGKILL'), { kills: true }),
    fault('a server process of PostgreSQL killed', async () => {
      if (await postgres.killBackend()) options.onKilled('postgres');
    }),
    fault('PostgreSQL stopped for a while', (random) => postgres.pause(random.below(LONGEST_STOP_MS))),
    ...networkFaults('PostgreSQL', 'postgres', postgres.proxy, statements, options),
  ];
}
