import type { Clock } from '../clock.js';
import { isUnknown, TooManyOpenKeys } from '../faults.js';
import type { Ledger } from './ports/ledger.js';
import type { OpenKeyCounts } from './ports/open-key-counts.js';
import { keyTimeOf } from './values/key-time.js';

/** How many keys are issued, unpaid and unexpired (decisions A6). */
export interface OpenKeys {
  /** Counts a key that is about to be issued. Throws TooManyOpenKeys where that is one too many. */
  open(key: string): Promise<void>;
  /** It is paid, or was not issued after all. Returns at once; best effort. */
  close(key: string): void;
}

/** Keys are counted by generation time, in parts of 1/64 of their life; a part expires as a whole. */
const PARTS_OF_A_LIFE = 64;

interface Waiting {
  readonly part: number;
  done(isOpen: boolean): void;
  failed(fault: unknown): void;
}

/**
 * One exchange with the counts is under way at a time, and what comes meanwhile shares the next. A key is counted before it is
 * issued, so `max` is never exceeded; what a crash or a lost reply leaves counted ends with the life of its key.
 */
export function createOpenKeys(counts: OpenKeyCounts, max: number, idempotencyTtlMs: number, clock: Clock): OpenKeys {
  const partMs = Math.ceil(idempotencyTtlMs / PARTS_OF_A_LIFE);
  const partOf = (key: string) => Math.floor(keyTimeOf(key) / partMs);
  let waiting: Waiting[] = [];
  let closed = new Map<number, number>();
  let isExchanging = false;

  function exchangeSoon(): void {
    if (isExchanging) return;
    isExchanging = true;
    setImmediate(exchange);
  }

  async function exchange(): Promise<void> {
    const opening = waiting.sort((a, b) => a.part - b.part);
    const closing = closed;
    waiting = [];
    closed = new Map();
    let isDone = false;
    try {
      const granted = await counts.exchange({
        max,
        partMs,
        oldestPart: Math.floor((clock.now() - idempotencyTtlMs) / partMs),
        idempotencyTtlMs,
        closed: closing,
        wanted: countParts(opening),
      });
      opening.forEach(({ done }, index) => {
        done(index < granted);
      });
      isDone = true;
    } catch (fault) {
      // An exchange of unknown outcome is not repeated: a key that stays counted is forgotten when it expires.
      if (!isUnknown(fault)) for (const [part, keys] of closing) add(part, keys);
      for (const { failed } of opening) failed(fault);
    }
    isExchanging = false;
    // After a failure closed keys wait for the next key: to retry at once would load a store that is away.
    if (waiting.length > 0 || (isDone && closed.size > 0)) exchangeSoon();
  }

  function add(part: number, keys: number): void {
    closed.set(part, (closed.get(part) ?? 0) + keys);
  }

  return {
    async open(key) {
      const isOpen = await new Promise<boolean>((done, failed) => {
        waiting.push({ part: partOf(key), done, failed });
        exchangeSoon();
      });
      if (!isOpen) throw new TooManyOpenKeys();
    },
    close(key) {
      add(partOf(key), 1);
      exchangeSoon();
    },
  };
}

function countParts(opening: readonly Waiting[]): Map<number, number> {
  const parts = new Map<number, number>();
  for (const { part } of opening) parts.set(part, (parts.get(part) ?? 0) + 1);
  return parts;
}

/** The ledger, in which a settlement also closes the key. A payment is settled only once. */
export function closingKeys(ledger: Ledger, openKeys: OpenKeys | undefined): Ledger {
  if (!openKeys) return ledger;
  return {
    ...ledger,
    async claim(attempt) {
      const claimed = await ledger.claim(attempt);
      if (claimed.state === 'settled') openKeys.close(attempt.key);
      return claimed;
    },
    async settle(claim, outcome, idempotencyTtlMs, note) {
      const settled = await ledger.settle(claim, outcome, idempotencyTtlMs, note);
      if (settled.state === 'settled') openKeys.close(claim.key);
      return settled;
    },
    async resolve(resolution) {
      const resolved = await ledger.resolve(resolution);
      if (resolved.state === 'resolved') openKeys.close(resolution.key);
      return resolved;
    },
  };
}
