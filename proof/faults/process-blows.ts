import type { ReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import type { SupervisedService } from '../../testkit/processes/supervised-service.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import { type Blow, LEASE_MS, PROCESSOR_TIMEOUT_MS, type SceneEvents } from './scene.js';
import type { Traps } from './traps.js';

/** What is killed is started again after at most so long, often at once. */
const LONGEST_DOWN_MS = 300;

export function processBlows(
  services: readonly SupervisedService[],
  processor: ReferenceProcessor,
  traps: Traps,
  events: SceneEvents,
  hasOperator: boolean,
): Blow[] {
  const downMs = (random: Random) => (random.below(2) === 0 ? 0 : random.below(LONGEST_DOWN_MS));
  const trap = (random: Random) =>
    random.below(4) > 0 ? traps.next(random, events.reached(), hasOperator) : undefined;
  const kill = async (service: SupervisedService, random: Random) => {
    await service.kill(downMs(random), trap(random));
  };
  const allUp = () => Promise.all(services.map((service) => service.up()));

  async function killProcessor(random: Random): Promise<void> {
    await processor.kill();
    events.killed('processor');
    await pause(downMs(random));
    await processor.restart();
  }

  const blows: Blow[] = [
    {
      name: 'a service killed',
      hits: 'service',
      weight: 8,
      async strike(random) {
        await kill(random.pick(services), random);
        await allUp();
      },
    },
    {
      name: 'a service stopped for longer than its lease',
      hits: 'service',
      weight: 2,
      async strike(random) {
        const disturbance = events.disturbing();
        await random.pick(services).pause(LEASE_MS + 100 + random.below(800));
        disturbance.ended();
      },
    },
    {
      name: 'a service stopped for a moment',
      hits: 'service',
      weight: 1,
      async strike(random) {
        const disturbance = events.disturbing();
        await random.pick(services).pause(random.below(LEASE_MS));
        disturbance.ended();
      },
    },
    { name: 'the processor killed', hits: 'processor', weight: 2, strike: killProcessor },
    {
      name: 'a service and the processor killed',
      hits: 'processor',
      weight: 2,
      async strike(random) {
        await Promise.all([kill(random.pick(services), random), killProcessor(random)]);
        await allUp();
      },
    },
    {
      name: 'the processor stopped for longer than its time-out',
      hits: 'processor',
      weight: 1,
      async strike() {
        processor.pause();
        await pause(PROCESSOR_TIMEOUT_MS + 200);
        processor.resume();
      },
    },
  ];
  if (services.length > 1) {
    blows.push(
      {
        name: 'all services killed at once',
        hits: 'service',
        weight: 3,
        async strike(random) {
          await Promise.all(services.map((service) => kill(service, random)));
          await allUp();
        },
      },
      {
        name: 'a service stopped for longer than its lease, the others killed',
        hits: 'service',
        weight: 2,
        async strike(random) {
          const stopped = random.pick(services);
          const disturbance = events.disturbing();
          const stopping = stopped.pause(LEASE_MS + 100 + random.below(500));
          const others = services.filter((service) => service !== stopped);
          await Promise.all([stopping, ...others.map((service) => kill(service, random))]);
          disturbance.ended();
          await allUp();
        },
      },
    );
  }
  return blows;
}
