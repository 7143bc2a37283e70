import type { OpenKeyCounts } from '../../../payments/ports/open-key-counts.js';
import type { StoreMeasures } from '../../store-measures.js';
import type { KeyNames } from './key-names.js';
import type { RedisClient } from './redis-client.js';
import { loadScript } from './redis-script.js';

/** Beside the keys: a Redis that forgets its keys forgets how many there were. */
export function createRedisOpenKeyCounts(
  client: RedisClient,
  names: KeyNames,
  measures?: StoreMeasures,
): OpenKeyCounts {
  const exchange = loadScript('exchange-open-keys', measures);
  return {
    async exchange({ max, oldestPart, idempotencyTtlMs, closed, wanted }) {
      const pairs = [...closed, ...wanted].flat();
      const values = [max, oldestPart, 2 * idempotencyTtlMs, closed.size, ...pairs];
      return Number(await exchange(client, [names.openKeys(idempotencyTtlMs)], values));
    },
  };
}
