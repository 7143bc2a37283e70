import { DIRECTIONS, type Wire } from '../../testkit/proxy/wire.js';
import type { Random } from '../../testkit/random.js';
import { pause } from '../../testkit/time/until.js';
import type { Blow, Hit, SceneEvents } from './scene.js';

/** Longer than every deadline of a command or a statement, sometimes. */
const LONGEST_STOP_MS = 2_500;
const LONGEST_DELAY_MS = 250;
/** A reply to be lost is given up when nobody asks for it in so long. */
const LOSE_DEADLINE_MS = 1_500;
const MOST_REPLIES_LOST = 6;

export function processorWireBlows(wire: Wire, events: SceneEvents): Blow[] {
  return wireBlows('the processor', 'processor', wire, ['POST /charges', 'GET /charges'], events);
}

/** `requests`: texts that the requests hold whose replies are to be lost. */
export function wireBlows(
  server: string,
  hits: Hit,
  wire: Wire,
  requests: readonly string[],
  events: SceneEvents,
): Blow[] {
  const whileDamaged = (damage: (random: Random) => void) => async (random: Random) => {
    const disturbance = events.disturbing();
    damage(random);
    await pause(random.below(LONGEST_STOP_MS));
    wire.heal();
    disturbance.ended();
  };
  return [
    {
      name: `${server}: replies lost after their work was done`,
      hits,
      weight: 2,
      async strike(random) {
        const disturbance = events.disturbing();
        for (let left = 1 + random.below(MOST_REPLIES_LOST); left > 0; left -= 1) {
          const { lost, forget } = wire.loseReply(random.pick(requests), 1 + random.below(5));
          await Promise.race([lost, pause(LOSE_DEADLINE_MS)]);
          forget();
        }
        disturbance.ended();
      },
    },
    ...DIRECTIONS.map((direction) => ({
      name: `${server}: nothing arrives ${direction}`,
      hits,
      weight: 1,
      strike: whileDamaged(() => wire.block(direction)),
    })),
    {
      name: `${server}: slow network`,
      hits,
      weight: 1,
      strike: whileDamaged((random) => wire.delay(20 + random.below(LONGEST_DELAY_MS))),
    },
    {
      name: `${server}: cut off`,
      hits,
      weight: 1,
      strike: whileDamaged(() => wire.cutOff()),
    },
    {
      name: `${server}: connections reset`,
      hits,
      weight: 1,
      async strike() {
        events.disturbing().ended();
        wire.cut();
      },
    },
  ];
}
