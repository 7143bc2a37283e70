import { warningsIn } from '../../../platform/finding.js';
import { loadScript } from '../scripts/script.js';
import { FILL_BELOW, judgeLosses } from './checks.js';
import { infoOfMasters, numberIn, type RedisInfo } from './info.js';
import type { RedisClient } from './masters.js';

const WATCH_EVERY_MS = 5_000;
/** A server that was full is back below this share: at its limit each key that expires makes room for one write. */
const BACK_BELOW = 0.98;

/**
 * Warns once of settings that lose keys or locks, then watches whether the servers take writes and how full they are. A server
 * whose memory or disk is full answers, and refuses writes. In a Cluster one master is tried: the one that has `probe`.
 */
export function watchRedis(
  client: RedisClient,
  probe: string,
  { warn, failed, served }: { warn(sentence: string): void; failed(fault: unknown): void; served(): void },
): { roomForFills(): boolean; memoryUsed(): number; stop(): void } {
  const tryWrite = loadScript('try-write');
  /** The part of its `maxmemory` that the fullest server uses. */
  let used = 0;
  let advised = false;
  let stopped = false;

  async function look(): Promise<void> {
    const infos = await infoOfMasters(client, 'memory');
    used = Math.max(0, ...infos.map(partUsed));
    if (infos.length === 0) return;
    await tryWrite(client, [probe], []);
    if (used < BACK_BELOW) served();
    if (advised) return;
    const asked = await infoOfMasters(client);
    advised = true;
    for (const sentence of new Set(warningsIn(asked.flatMap((info) => judgeLosses({ info }))))) warn(sentence);
  }

  function lookSafely(): void {
    look().catch((fault: unknown) => {
      if (!stopped) failed(fault);
    });
  }

  const timer = setInterval(lookSafely, WATCH_EVERY_MS).unref();
  lookSafely();
  return {
    roomForFills: () => used < FILL_BELOW,
    memoryUsed: () => used,
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}

/** 0 for a server without a limit. */
function partUsed(info: RedisInfo): number {
  const most = numberIn(info, 'maxmemory');
  return most === 0 ? 0 : numberIn(info, 'used_memory') / most;
}
