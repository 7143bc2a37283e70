import { KEEP_MS, type SharedSamples } from '../../live/shared-samples.js';
import type { StoreMeasures } from '../shared/store-measures.js';
import { redisFault } from './connection/fault.js';
import type { RedisClient } from './connection/masters.js';
import type { KeyNames } from './key-names.js';
import { loadScript } from './scripts/script.js';

/** Fifteen minutes of 55 processes, about 15 MB. */
const MOST_SAMPLES = 10_000;
/** Some 300 kB, so that no other command waits for long behind a reply. */
const PAGE = 200;
const BEFORE_ALL = '0-0';

type Entry = readonly [id: string, fields: readonly string[]];

/**
 * One stream for the deployment, which expires by itself. It needs `MINID` (Redis 6.2); with an older server nothing is shared. A hash would
 * not do, because it would be sent whole for each new sample.
 */
export function createRedisSharedSamples(
  client: RedisClient,
  names: KeyNames,
  hasRoom: () => boolean,
  measures?: StoreMeasures,
): SharedSamples {
  const append = loadScript('append-sample', measures);
  return {
    /** Skipped when memory is short, which is kept for locks and keys. */
    async append(line) {
      if (hasRoom()) await append(client, [names.samples], [line, KEEP_MS, MOST_SAMPLES]);
    },

    async read(position) {
      const after = position ?? BEFORE_ALL;
      const reply = await client.xread('COUNT', PAGE, 'STREAMS', names.samples, after).catch((error: unknown) => {
        throw redisFault(error);
      });
      const entries: readonly Entry[] = reply?.[0]?.[1] ?? [];
      return {
        lines: entries.map(([, fields]) => fields[1] ?? ''),
        position: entries.at(-1)?.[0] ?? position,
        isLast: entries.length < PAGE,
      };
    },
  };
}
