import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessorClient } from '../ports/processor.js';

/** The console page waits for this answer. */
const LIMIT_MS = 2_000;

/**
 * True if payments move money, as the processor said last. If it has said nothing yet, it is asked: for a reference that nobody ever
 * charged, one question at a time, and not longer than `limitMs`. Null if it does not answer.
 */
export function createMovesMoney(
  processor: Pick<ProcessorClient, 'lookUp' | 'movesMoney'>,
  limitMs = LIMIT_MS,
): () => Promise<boolean | null> {
  let asking: Promise<unknown> | undefined;

  return async () => {
    if (processor.movesMoney !== null) return processor.movesMoney;
    asking ??= processor.lookUp(randomUUID()).finally(() => {
      asking = undefined;
    });
    await Promise.race([asking, delay(limitMs, undefined, { ref: false })]);
    return processor.movesMoney;
  };
}
