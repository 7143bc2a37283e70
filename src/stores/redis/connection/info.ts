import type { Redis } from 'ioredis';
import { redisFault } from './fault.js';
import { mastersOf, type RedisClient } from './masters.js';
import { inTime } from './reply-limit.js';

export type RedisInfo = ReadonlyMap<string, string>;

/** `INFO` of one server, as name and value. Sections are left out: every name is in one section only. */
export async function infoOf(server: Redis, ...sections: string[]): Promise<RedisInfo> {
  const text = await inTime(server.info(...sections)).catch((error: unknown) => {
    throw redisFault(error);
  });
  const fields = String(text)
    .split('\r\n')
    .flatMap((line) => {
      const separator = line.indexOf(':');
      return separator > 0 && !line.startsWith('#')
        ? [[line.slice(0, separator), line.slice(separator + 1)] as const]
        : [];
    });
  return new Map(fields);
}

export function infoOfMasters(client: RedisClient, ...sections: string[]): Promise<RedisInfo[]> {
  return Promise.all(mastersOf(client).map((server) => infoOf(server, ...sections)));
}

export function numberIn(info: RedisInfo, name: string): number {
  return Number(info.get(name) ?? 0);
}
