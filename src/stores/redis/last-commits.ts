import type { RememberedCommits } from '../shared/last-commits.js';
import type { RedisClient } from './connection/masters.js';
import type { KeyNames } from './key-names.js';
import { sendCollected } from './scripts/collected-calls.js';
import { loadScript } from './scripts/script.js';

/**
 * In Redis, which is not restored together with the database. Not measured: what is remembered belongs to no request.
 */
export function createRedisLastCommits(client: RedisClient, names: KeyNames): RememberedCommits {
  const remember = loadScript('remember-commits');
  return {
    async read() {
      return new Map(Object.entries(await client.hgetall(names.lastCommits)));
    },
    async write({ process, number, text, now, ended }) {
      const written = remember(client, [names.lastCommits], [process, number, text, ...[...ended].flat()]);
      if (now) sendCollected(client);
      await written;
    },
  };
}
