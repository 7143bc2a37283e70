import type { Behaviour, ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import {
  disturbing,
  type EnvironmentOptions,
  type Fault,
  type Hit,
  LEASE_MS,
  PROCESSOR_TIMEOUT_MS,
} from './environment.js';

/** What is killed is started again after at most so long, often at once. */
const LONGEST_DOWN_MS = 300;

export function processFaults(
  services: readonly SupervisedService[],
  processor: ReferenceProcessor,
  options: EnvironmentOptions,
): Fault[] {
  const { deduplicates, triggered } = options;
  const downMs = (random: Random) => (random.below(2) === 0 ? 0 : random.below(LONGEST_DOWN_MS));
  const kill = (service: SupervisedService, random: Random) =>
    service.kill(downMs(random), random.below(4) > 0 ? triggered.next(random, !deduplicates) : undefined);
  const allUp = () => Promise.all(services.map((service) => service.up()));
  const longPause = (service: SupervisedService, random: Random) => service.pause(LEASE_MS + 100 + random.below(800));
  const fault = (name: string, hits: Hit, weight: number, work: (random: Random) => Promise<unknown>): Fault => {
    const happen = async (random: Random) => {
      await work(random);
      await allUp();
    };
    return { name, hits, weight, happen };
  };
  const killedProcessor = disturbing(
    options,
    { name: 'the processor killed', hits: 'processor', weight: 2, kills: true },
    async (random) => {
      await processor.kill();
      await pause(downMs(random));
      await processor.restart();
    },
  );

  const faults = [
    fault('a service killed', 'service', 8, (random) => kill(random.pick(services), random)),
    fault('a service stopped for longer than its lease', 'service', 2, (random) =>
      longPause(random.pick(services), random),
    ),
    fault('a service stopped for a moment', 'service', 1, (random) =>
      random.pick(services).pause(random.below(LEASE_MS)),
    ),
    killedProcessor,
    fault('a service and the processor killed', 'processor', 2, (random) =>
      Promise.all([kill(random.pick(services), random), killedProcessor.happen(random)]),
    ),
    disturbing(
      options,
      { name: 'the processor stopped for longer than its time-out', hits: 'processor', weight: 1 },
      async () => {
        processor.pause();
        await pause(PROCESSOR_TIMEOUT_MS + 200);
        processor.resume();
      },
    ),
  ];
  if (services.length === 1) return faults;
  return [
    ...faults,
    fault('all services killed at once', 'service', 3, (random) =>
      Promise.all(services.map((service) => kill(service, random))),
    ),
    fault('a service stopped for longer than its lease, the others killed', 'service', 2, (random) => {
      const stopped = random.pick(services);
      const others = services.filter((service) => service !== stopped);
      return Promise.all([longPause(stopped, random), ...others.map((service) => kill(service, random))]);
    }),
  ];
}

/** How the processor treats the next charges: fast mostly, now and then slower than any service waits. */
export function someBehaviour(random: Random): Partial<Behaviour> {
  const isSlow = random.below(6) === 0;
  return {
    latencyMs: isSlow ? random.below(2 * PROCESSOR_TIMEOUT_MS) : random.below(40),
    replyLatencyMs: isSlow ? 0 : random.below(40),
    declineRate: random.fraction() * 0.3,
    failRate: random.fraction() * 0.2,
    lostReplyRate: random.fraction() * 0.2,
  };
}
