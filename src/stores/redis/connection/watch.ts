import { loadScript } from '../scripts/script.js';
import { infoOfMasters, numberIn, type RedisInfo } from './info.js';
import type { RedisClient } from './masters.js';

const WATCH_EVERY_MS = 5_000;
/** Payments and the cache share that memory, and a lock must never be refused for want of room. */
const FILL_BELOW = 0.8;
/** A server that was full is back below this share: at its limit each key that expires makes room for one write. */
const BACK_BELOW = 0.98;

/**
 * Warns once of settings that lose keys or locks, then watches whether the servers take writes and how full they are. A server
 * whose memory or disk is full answers, and refuses writes. Of a Cluster one master is tried: that of `probe`.
 */
export function watchRedis(
  client: RedisClient,
  probe: string,
  { warn, failed, served }: { warn(sentence: string): void; failed(fault: unknown): void; served(): void },
): { roomForFills(): boolean; stop(): void } {
  const tryWrite = loadScript('try-write');
  let room = true;
  let advised = false;
  let stopped = false;

  async function look(): Promise<void> {
    const infos = await infoOfMasters(client, 'memory');
    room = infos.every((info) => isFilledBelow(info, FILL_BELOW));
    if (infos.length === 0) return;
    await tryWrite(client, [probe], []);
    if (infos.every((info) => isFilledBelow(info, BACK_BELOW))) served();
    if (advised) return;
    const persistence = await infoOfMasters(client, 'persistence');
    advised = true;
    const policies = new Set(infos.map((info) => info.get('maxmemory_policy') ?? 'noeviction'));
    policies.delete('noeviction');
    for (const policy of policies) {
      warn(`Redis maxmemory-policy is ${policy}: it may evict keys and locks. Set it to noeviction.`);
    }
    if (persistence.some((info) => info.get('aof_enabled') === '0')) {
      warn(
        'Redis keeps no append-only file: issued keys that were not paid yet are lost when it restarts. Set appendonly yes.',
      );
    }
  }

  function lookSafely(): void {
    look().catch((fault: unknown) => {
      if (!stopped) failed(fault);
    });
  }

  const timer = setInterval(lookSafely, WATCH_EVERY_MS).unref();
  lookSafely();
  return {
    roomForFills: () => room,
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}

function isFilledBelow(info: RedisInfo, share: number): boolean {
  const most = numberIn(info, 'maxmemory');
  return most === 0 || numberIn(info, 'used_memory') < most * share;
}
