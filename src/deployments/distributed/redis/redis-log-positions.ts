import type { StoreMeasures } from '../../store-measures.js';
import type { LogPositions } from '../log-positions.js';
import type { KeyNames } from './key-names.js';
import type { RedisClient } from './redis-client.js';
import { loadScript } from './redis-script.js';

/** In Redis, which is not restored together with the database. */
export function createRedisLogPositions(client: RedisClient, names: KeyNames, measures?: StoreMeasures): LogPositions {
  const raise = loadScript('raise-log-position', measures);
  return {
    async raise(server, position) {
      return Number(await raise(client, [names.logPosition(server)], [position]));
    },
  };
}
