import { Cluster, type Redis } from 'ioredis';
import type { RedisClient } from './client.js';

/** The servers that hold data: one, or the masters of a Cluster. */
export function mastersOf(client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}
