import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import type { SmallDisk } from '../../testkit/servers/small-disk.js';
import type { TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause } from '../../testkit/time/until.js';
import {
  disturbing,
  type EnvironmentOptions,
  type Fault,
  type FaultWorks,
  LEASE_MS,
  PROCESSOR_TIMEOUT_MS,
} from './fault.js';
import type { PostgresUnderFault } from './postgres-under-fault.js';
import type { RedisPair } from './redis-pair.js';

/** The longest time until a killed process is started again; often it is at once. */
const LONGEST_DOWN_MS = 300;
/** Longer than every deadline of a command or a statement, sometimes. */
const LONGEST_STOP_MS = 2_500;
const LONGEST_DELAY_MS = 250;
const LONGEST_FULL_MS = 1_500;
/** The replica misses at most the writes of this time. */
const LONGEST_LAG_MS = 800;
/** The wait for a request whose reply is to be lost ends after this time. */
const LOSE_DEADLINE_MS = 1_500;
const MOST_REPLIES_LOST = 6;

/** Statements that write, by the names they have on the wire. */
const WRITES = [
  ...[
    'claim',
    'claim_in_full',
    'cancel',
    'settle',
    'settle_noted',
    'take_over',
    'take_over_longest_due',
    'take_over_latest_due',
    'renew',
    'abandon',
    'leave',
    'begin_ending',
    'due_pending',
    'move_pending',
    'resolve',
  ],
  ...['create_transactions', 'change_status', 'remove_transaction'],
].map((name) => `\0${name}\0`);

export function processFaults(
  services: readonly SupervisedService[],
  processor: ReferenceProcessor,
  proxy: TcpProxy,
  options: EnvironmentOptions,
): Fault[] {
  const { deduplicates, crashPoints } = options;
  const downMs = (random: Random) => (random.below(2) === 0 ? 0 : random.below(LONGEST_DOWN_MS));
  const kill = (service: SupervisedService, random: Random) =>
    service.kill(downMs(random), random.below(4) > 0 ? crashPoints.next(random, !deduplicates) : undefined);
  const longPause = (service: SupervisedService, random: Random) => service.pause(LEASE_MS + 100 + random.below(800));
  const killProcessor = async (random: Random) => {
    await processor.kill();
    await pause(downMs(random));
    await processor.restart();
  };
  const ofSeveral: FaultWorks = {
    'all services killed at once': {
      weight: 3,
      work: (random) => Promise.all(services.map((service) => kill(service, random))),
    },
    'a service stopped for longer than its lease, the others killed': {
      weight: 2,
      work(random) {
        const stopped = random.pick(services);
        const others = services.filter((service) => service !== stopped);
        return Promise.all([longPause(stopped, random), ...others.map((service) => kill(service, random))]);
      },
    },
  };
  const ofServices: FaultWorks = {
    'a service killed': { weight: 8, work: (random) => kill(random.pick(services), random) },
    'a service stopped for longer than its lease': {
      weight: 2,
      work: (random) => longPause(random.pick(services), random),
    },
    'a service stopped for a moment': { work: (random) => random.pick(services).pause(random.below(LEASE_MS)) },
    ...(services.length > 1 && ofSeveral),
  };
  const ofProcessor: FaultWorks = {
    'the processor killed': { weight: 2, kills: true, work: killProcessor },
    'a service and the processor killed': {
      weight: 2,
      kills: true,
      work: (random) => Promise.all([kill(random.pick(services), random), killProcessor(random)]),
    },
    'the processor stopped for longer than its time-out': {
      async work() {
        processor.pause();
        await pause(PROCESSOR_TIMEOUT_MS + 200);
        processor.resume();
      },
    },
    ...networkFaults('the processor', proxy, ['POST /charges', 'GET /charges']),
  };
  return [...disturbing('service', ofServices, options), ...disturbing('processor', ofProcessor, options)];
}

export function redisFaults(redis: RedisPair, options: EnvironmentOptions): Fault[] {
  /** A replica that has not caught up would lose more than the latest. */
  const failover = { forgets: 'the latest', first: () => redis.caughtUp() } as const;
  const faults: FaultWorks = {
    // Each acknowledged write is in its file, so nothing may be forgotten.
    'Redis killed, restarted from its file': { weight: 2, kills: true, work: () => redis.killAndRestart() },
    'Redis killed, restarted empty': {
      kills: true,
      forgets: 'everything',
      work: () => redis.killAndRestart('empty'),
    },
    'Redis flushed, its scripts now and then as well': {
      weight: 2,
      forgets: 'everything',
      work: (random) => redis.flush(random.below(4) === 0),
    },
    'Redis killed, failed over to its replica': {
      ...failover,
      kills: true,
      async work(random) {
        await redis.killMaster();
        await pause(random.below(LONGEST_DOWN_MS));
        await redis.failOver();
      },
    },
    'Redis failed over to a stale replica': {
      ...failover,
      weight: 2,
      async work(random) {
        await redis.detachReplica();
        await pause(random.below(LONGEST_LAG_MS));
        await redis.failOver();
      },
    },
    'Redis stopped for a while': { work: (random) => redis.pause(random.below(LONGEST_STOP_MS)) },
    ...networkFaults('Redis', redis.proxy, ['idempay:']),
  };
  return disturbing('redis', faults, options);
}

export function postgresFaults(postgres: PostgresUnderFault, options: EnvironmentOptions): Fault[] {
  const faults: FaultWorks = {
    'PostgreSQL restarted': { work: () => postgres.restart('SIGINT') },
    'PostgreSQL stopped at once, recovered': { work: () => postgres.restart('SIGQUIT') },
    'PostgreSQL killed, recovered': { kills: true, work: () => postgres.restart('SIGKILL') },
    'a server process of PostgreSQL killed': {
      async work() {
        if (await postgres.killBackend()) options.onKilled('postgres');
      },
    },
    'PostgreSQL stopped for a while': { work: (random) => postgres.pause(random.below(LONGEST_STOP_MS)) },
    ...networkFaults('PostgreSQL', postgres.proxy, WRITES),
  };
  return disturbing('postgres', faults, options);
}

export function diskFaults(disk: SmallDisk, options: EnvironmentOptions): Fault[] {
  const work = async (random: Random) => {
    await disk.fill();
    await pause(random.below(LONGEST_FULL_MS));
    await disk.free();
  };
  return disturbing('disk', { 'the disk full': { weight: 2, work } }, options);
}

/** `requests`: texts that the requests hold whose replies are to be lost. */
function networkFaults(server: string, proxy: TcpProxy, requests: readonly string[]): FaultWorks {
  const damaged = (damage: (random: Random) => void) => ({
    async work(random: Random) {
      damage(random);
      await pause(random.below(LONGEST_STOP_MS));
      proxy.heal();
    },
  });
  return {
    [`${server}: replies lost after their work was done`]: {
      weight: 2,
      async work(random) {
        for (let left = 1 + random.below(MOST_REPLIES_LOST); left > 0; left -= 1) {
          await proxy.loseReply(random.pick(requests), 1 + random.below(5), LOSE_DEADLINE_MS);
        }
      },
    },
    [`${server}: nothing arrives to server`]: damaged(() => proxy.blackhole('to server')),
    [`${server}: nothing arrives to client`]: damaged(() => proxy.blackhole('to client')),
    [`${server}: slow network`]: damaged((random) => proxy.delay(20 + random.below(LONGEST_DELAY_MS))),
    [`${server}: cut off`]: damaged(() => proxy.cutOff()),
    [`${server}: connections reset`]: { work: () => proxy.cut() },
  };
}
