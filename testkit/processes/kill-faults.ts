import type { Random } from '../random.js';
import { pause } from '../time/until.js';
import type { KillableService } from './killable-service.js';
import type { Behaviour, ReferenceProcessor } from './reference-processor.js';

/** What can happen to the processes of one round. */
export const BLOWS = [
  'a service is killed',
  'the processor is killed',
  'a service and the processor are killed',
  'all services and the processor are killed',
  'a service is paused, the others are killed',
  'the processor is paused',
] as const;
export type Blow = (typeof BLOWS)[number];

/** What is killed is started again after at most so long, often at once. */
const LONGEST_DOWN_MS = 400;

export interface Targets {
  readonly services: readonly KillableService[];
  readonly processor: ReferenceProcessor;
  /** A process that is paused so long has lost its leases when it goes on. */
  readonly beyondLeaseMs: number;
  /** A call to a processor that is paused so long has been given up. */
  readonly beyondTimeoutMs: number;
}

/** Resolves when everything is up again, to the number of processes killed. */
export async function strike(blow: Blow, targets: Targets, random: Random): Promise<number> {
  const { services, processor } = targets;
  const one = random.pick(services);
  switch (blow) {
    case 'a service is killed':
      return killAndStart([one], undefined, random);
    case 'the processor is killed':
      return killAndStart([], processor, random);
    case 'a service and the processor are killed':
      return killAndStart([one], processor, random);
    case 'all services and the processor are killed':
      return killAndStart(services, processor, random);
    case 'a service is paused, the others are killed': {
      one.pause();
      const paused = pause(targets.beyondLeaseMs).then(() => one.resume());
      const others = services.filter((service) => service !== one);
      const [kills] = await Promise.all([killAndStart(others, undefined, random), paused]);
      return kills;
    }
    case 'the processor is paused':
      processor.pause();
      await pause(targets.beyondTimeoutMs);
      processor.resume();
      return 0;
  }
}

/** All are killed in one turn of the event loop, and each is started again in its own time. */
async function killAndStart(
  services: readonly KillableService[],
  processor: ReferenceProcessor | undefined,
  random: Random,
): Promise<number> {
  const downMs = () => (random.below(2) === 0 ? 0 : random.below(LONGEST_DOWN_MS));
  const returns = services.map((service) => again(service.kill(), downMs(), () => service.start()));
  if (processor) returns.push(again(processor.kill(), downMs(), () => processor.restart()));
  await Promise.all(returns);
  return returns.length;
}

async function again(killed: Promise<unknown>, downMs: number, start: () => Promise<void>): Promise<void> {
  await killed;
  await pause(downMs);
  await start();
}

/** How the processor treats one round's charges: fast mostly, now and then slower than anybody waits. */
export function someBehaviour(random: Random, timeoutMs: number): Partial<Behaviour> {
  const isTardy = random.below(6) === 0;
  return {
    latencyMs: isTardy ? random.below(2 * timeoutMs) : random.below(40),
    replyLatencyMs: isTardy ? 0 : random.below(40),
    declineRate: random.fraction() * 0.3,
    failRate: random.fraction() * 0.2,
    lostReplyRate: random.fraction() * 0.2,
  };
}

/** Every blow once, in a random order, then every one again. */
export function* blows(random: Random): Generator<Blow, never> {
  for (;;) {
    const left = [...BLOWS];
    while (left.length > 0) yield left.splice(random.below(left.length), 1)[0] as Blow;
  }
}
