import { randomUUID } from 'node:crypto';
import type { SharedRequestCounts } from '../../limits/request-limit.js';
import type { StoreMeasures } from '../shared/store-measures.js';
import type { RedisClient } from './connection/masters.js';
import type { KeyNames } from './key-names.js';
import { loadScript } from './scripts/script.js';

/**
 * Each process writes its total count, so that a report may be repeated after a lost reply. A hash and not a counter, so that the
 * rights listed in docs/operations/deployment.md are enough.
 */
export function createRedisRequestCounts(
  client: RedisClient,
  names: KeyNames,
  measures?: StoreMeasures,
): SharedRequestCounts {
  const countRequests = loadScript('count-requests', measures);
  const instance = randomUUID();
  return {
    async report(who, taken, remainingMs) {
      const values = [instance, taken, Math.ceil(remainingMs)];
      const [total, left] = (await countRequests(client, [names.requests(who)], values)) as [unknown, unknown];
      return { total: Number(total), remainingMs: Number(left) };
    },
  };
}
