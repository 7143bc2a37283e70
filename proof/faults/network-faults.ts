import type { Random } from '../../testkit/random.js';
import { DIRECTIONS, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause } from '../../testkit/time/until.js';
import { disturbing, type EnvironmentOptions, type Fault, type Hit } from './environment.js';

/** Longer than every deadline of a command or a statement, sometimes. */
export const LONGEST_STOP_MS = 2_500;
const LONGEST_DELAY_MS = 250;
/** A reply to be lost is given up when nobody asks for it in so long. */
const LOSE_DEADLINE_MS = 1_500;
const MOST_REPLIES_LOST = 6;

/** `requests`: texts that the requests hold whose replies are to be lost. */
export function networkFaults(
  server: string,
  hits: Hit,
  proxy: TcpProxy,
  requests: readonly string[],
  options: EnvironmentOptions,
): Fault[] {
  const fault = (what: string, work: (random: Random) => Promise<unknown>, weight = 1) =>
    disturbing(options, { name: `${server}: ${what}`, hits, weight }, work);
  const whileDamaged = (damage: (random: Random) => void) => async (random: Random) => {
    damage(random);
    await pause(random.below(LONGEST_STOP_MS));
    proxy.heal();
  };
  const loseReplies = async (random: Random) => {
    for (let left = 1 + random.below(MOST_REPLIES_LOST); left > 0; left -= 1) {
      await proxy.loseReply(random.pick(requests), 1 + random.below(5), LOSE_DEADLINE_MS);
    }
  };
  return [
    fault('replies lost after their work was done', loseReplies, 2),
    ...DIRECTIONS.map((direction) =>
      fault(
        `nothing arrives ${direction}`,
        whileDamaged(() => proxy.blackhole(direction)),
      ),
    ),
    fault(
      'slow network',
      whileDamaged((random) => proxy.delay(20 + random.below(LONGEST_DELAY_MS))),
    ),
    fault(
      'cut off',
      whileDamaged(() => proxy.cutOff()),
    ),
    fault('connections reset', async () => proxy.cut()),
  ];
}

export function processorNetworkFaults(proxy: TcpProxy, options: EnvironmentOptions): Fault[] {
  return networkFaults('the processor', 'processor', proxy, ['POST /charges', 'GET /charges'], options);
}
