import type { Socket } from 'node:net';
import type { RedisClient } from './redis-client.js';
import { mastersOf } from './redis-masters.js';

const holding = new WeakSet<RedisClient>();

/**
 * What is sent from now to the end of this turn of the event loop leaves in one write to each server. It waits for no reply: the
 * client's own pipelining sends nothing while the replies of its last pipeline are on their way.
 */
export function holdUntilEndOfTurn(client: RedisClient): void {
  if (holding.has(client)) return;
  holding.add(client);
  // A server that is connected later in this turn writes at once.
  const streams = mastersOf(client).map(({ stream }) => stream as Socket | undefined);
  for (const stream of streams) stream?.cork();
  setImmediate(() => {
    holding.delete(client);
    for (const stream of streams) stream?.uncork();
  });
}
