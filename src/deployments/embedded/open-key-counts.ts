import type { Clock } from '../../clock.js';
import type { OpenKeyChange, OpenKeyCounts } from '../../payments/ports/open-key-counts.js';
import { KEY_GENERATED } from '../../payments/values/payment.js';
import type { Reader } from './reader.js';

/** Reads every record, once after a start and only where open keys are limited: an index would cost every key. */
const COUNT = `
  SELECT CAST((expires_at - ?) / ? AS INTEGER) AS part, count(*) AS keys FROM idempotency_keys
  WHERE value = '${KEY_GENERATED}' AND expires_at > ? GROUP BY part`;

/** In memory: this is the only process. */
export function createEmbeddedOpenKeyCounts(reader: Reader, clock: Clock): OpenKeyCounts {
  let counts: Map<number, number> | undefined;

  function countAll({ idempotencyTtlMs, partMs }: OpenKeyChange): Map<number, number> {
    const rows = reader.prepare(COUNT).all(idempotencyTtlMs, partMs, clock.now()) as { part: number; keys: number }[];
    return new Map(rows.map(({ part, keys }) => [part, keys]));
  }

  return {
    async exchange(change) {
      // What the records say includes the keys that are closed here.
      const isFirst = counts === undefined;
      counts ??= countAll(change);
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
