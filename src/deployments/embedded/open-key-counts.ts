import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../../clock.js';
import { StoreUnavailable } from '../../faults.js';
import type { OpenKeyChange, OpenKeyCounts } from '../../payments/ports/open-key-counts.js';
import { KEY_GENERATED } from '../../payments/values/payment.js';
import type { Reader } from './reader.js';

/** Read in one turn of the event loop: about two milliseconds. */
const PAGE = 5_000;

/** Of the next page of records: how many of each part are open, and the last key that was looked at. */
export const COUNT_PAGE = `
  SELECT CAST((expires_at - ?) / ? AS INTEGER) AS part, sum(value = '${KEY_GENERATED}' AND expires_at > ?) AS keys,
    max(key) AS last, count(*) AS records
  FROM (SELECT key, value, expires_at FROM idempotency_keys WHERE key > ? ORDER BY key LIMIT ?) GROUP BY part`;

interface CountedPart {
  readonly part: number;
  readonly keys: number;
  readonly last: string;
  readonly records: number;
}

/** In memory: this is the only process. */
export function createEmbeddedOpenKeyCounts(reader: Reader, clock: Clock): OpenKeyCounts {
  let counts: Map<number, number> | undefined;

  /**
   * Reads every record of one snapshot, once after a start and only where open keys are limited: an index would cost every key.
   * In pages, between which other requests are served: ten million records take seconds.
   */
  async function countAll({ idempotencyTtlMs, partMs }: OpenKeyChange): Promise<Map<number, number>> {
    const snapshot = await reader.openSnapshot().catch((fault) => {
      // The message of the fault is about lists.
      throw new StoreUnavailable('unchanged', 'the open keys could not be counted', fault);
    });
    try {
      const page = snapshot.prepare(COUNT_PAGE);
      const found = new Map<number, number>();
      const now = clock.now();
      for (let after = '', records = PAGE; records === PAGE; ) {
        const parts = page.all(idempotencyTtlMs, partMs, now, after, PAGE) as CountedPart[];
        records = 0;
        for (const { part, keys, last, records: counted } of parts) {
          if (keys > 0) found.set(part, (found.get(part) ?? 0) + keys);
          if (last > after) after = last;
          records += counted;
        }
        await nextTurn();
      }
      return found;
    } finally {
      snapshot.close();
    }
  }

  return {
    async exchange(change) {
      // The first count of the records already leaves out the keys of `change.closed`.
      const isFirst = counts === undefined;
      counts ??= await countAll(change);
      let total = 0;
      for (const [part, keys] of counts) {
        if (part < change.oldestPart) counts.delete(part);
        else total += keys;
      }
      if (!isFirst) {
        for (const [part, keys] of change.closed) {
          if (part < change.oldestPart) continue;
          counts.set(part, (counts.get(part) ?? 0) - keys);
          total -= keys;
        }
      }
      let opened = 0;
      for (const [part, keys] of change.wanted) {
        const granted = Math.max(0, Math.min(keys, change.max - total));
        counts.set(part, (counts.get(part) ?? 0) + granted);
        total += granted;
        opened += granted;
      }
      return opened;
    },
  };
}
