import { Cluster, type Redis } from 'ioredis';

/** The client of one server, or of a Cluster. */
export type RedisClient = Redis | Cluster;

/** The servers that hold data: one, or the masters of a Cluster. */
export function mastersOf(client: RedisClient): readonly Redis[] {
  return client instanceof Cluster ? client.nodes('master') : [client];
}
