import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import type { PostgresUnderFault } from './postgres-under-fault.js';
import type { RedisPair } from './redis-pair.js';
import type { Blow, SceneEvents } from './scene.js';
import { wireBlows } from './wire-blows.js';

/** Longer than every deadline of a command or a statement, sometimes. */
const LONGEST_STOP_MS = 2_500;
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

export function redisBlows(redis: RedisPair, events: SceneEvents): Blow[] {
  const forgetting = (kills: boolean, work: (random: Random) => Promise<void>) => async (random: Random) => {
    const disturbance = events.forgetting();
    await work(random);
    disturbance.ended();
    if (kills) events.killed('redis');
  };
  return [
    {
      name: 'Redis killed, restarted from its file',
      hits: 'redis',
      weight: 2,
      async strike() {
        // What it acknowledged is in its file, so nothing may be forgotten.
        const disturbance = events.disturbing();
        await redis.killAndRestart();
        disturbance.ended();
        events.killed('redis');
      },
    },
    {
      name: 'Redis killed, restarted empty',
      hits: 'redis',
      weight: 1,
      strike: forgetting(true, () => redis.killAndRestartEmpty()),
    },
    { name: 'Redis flushed', hits: 'redis', weight: 2, strike: forgetting(false, () => redis.flush()) },
    {
      name: 'Redis killed, failed over to its replica',
      hits: 'redis',
      weight: 1,
      strike: forgetting(true, async (random) => {
        await redis.killMaster();
        await pause(random.below(LONGEST_DOWN_MS));
        await redis.failOver();
      }),
    },
    {
      name: 'Redis failed over to a stale replica',
      hits: 'redis',
      weight: 2,
      strike: forgetting(false, async (random) => {
        await redis.detachReplica();
        await pause(random.below(LONGEST_LAG_MS));
        await redis.failOver();
      }),
    },
    {
      name: 'Redis stopped for a while',
      hits: 'redis',
      weight: 1,
      async strike(random) {
        const disturbance = events.disturbing();
        redis.signal('SIGSTOP');
        await pause(random.below(LONGEST_STOP_MS));
        redis.signal('SIGCONT');
        disturbance.ended();
      },
    },
    ...wireBlows('Redis', 'redis', redis.wire, ['idempay:'], events),
  ];
}

export function postgresBlows(postgres: PostgresUnderFault, events: SceneEvents): Blow[] {
  const disturbing = (kills: boolean, work: (random: Random) => Promise<void>) => async (random: Random) => {
    const disturbance = events.disturbing();
    await work(random);
    disturbance.ended();
    if (kills) events.killed('postgres');
  };
  const statements = WRITES.map((name) => `\0${name}\0`);
  return [
    {
      name: 'PostgreSQL restarted',
      hits: 'postgres',
      weight: 1,
      strike: disturbing(false, () => postgres.restartFast()),
    },
    {
      name: 'PostgreSQL stopped at once, recovered',
      hits: 'postgres',
      weight: 1,
      strike: disturbing(false, () => postgres.restartImmediately()),
    },
    {
      name: 'PostgreSQL killed, recovered',
      hits: 'postgres',
      weight: 1,
      strike: disturbing(true, () => postgres.killAndRestart()),
    },
    {
      name: 'a server process of PostgreSQL killed',
      hits: 'postgres',
      weight: 1,
      async strike() {
        const disturbance = events.disturbing();
        if (await postgres.killBackend()) events.killed('postgres');
        disturbance.ended();
      },
    },
    {
      name: 'PostgreSQL stopped for a while',
      hits: 'postgres',
      weight: 1,
      strike: disturbing(false, (random) => postgres.pause(random.below(LONGEST_STOP_MS))),
    },
    ...wireBlows('PostgreSQL', 'postgres', postgres.wire, statements, events),
  ];
}
