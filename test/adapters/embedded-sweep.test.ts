import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LONG_MS, newKey } from '../../testkit/protocol/payment-attempts.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';

/** Ten full sweeps: at one a second they would take twice the deadline. */
const EXPIRED = 10_000;
/** More than one sweep looks at. */
const LIVING = 6_000;
const EXPIRED_BEHIND = 500;
const GONE_DEADLINE_MS = 5_000;

/**
 * Bug: expired keys were removed at a thousand a second at most once a single living key was older than they. Cause: the
 * sweep went on at once only after a full batch, and the living key at its head kept every batch from being full. Fix: it
 * goes on at once while more than half of a batch is removed.
 */
describe('the sweep of expired keys', () => {
  let ports: Ports;

  beforeEach(async () => {
    ports = await openEmbeddedPorts();
  });
  afterEach(() => ports.close());

  test('goes on at once behind an older key that lives, and leaves that', async () => {
    const { keys, keyValueStore } = ports;
    const living = newKey();
    await keys.issue(living, LONG_MS);
    await Promise.all(Array.from({ length: EXPIRED }, () => keys.issue(newKey(), 1)));

    const statistics = await until('the expired keys to be gone', GONE_DEADLINE_MS, async () => {
      const now = await keyValueStore.statistics();
      // The two are counted one after the other: the last sweep may be in the first and not yet in the second.
      return now.totalKeys === 1 && now.expiredKeys >= EXPIRED && now;
    });
    expect(statistics.expiredKeys).toBe(EXPIRED);
    expect(await keyValueStore.value(living)).toMatchObject({ value: 'KEY GENERATED' });
    expect(await keys.look(living)).toEqual({ state: 'generated' });
  });

  /**
   * Bug: after IDEMPOTENCY_TTL_SECONDS was lowered nothing was removed until the longer lives were over. Cause: only the oldest
   * records were looked at. Fix: each sweep looks at the ones behind those of the sweep before.
   */
  test('finds expired keys behind any number that live long', async () => {
    const { keys, keyValueStore } = ports;
    await Promise.all(Array.from({ length: LIVING }, () => keys.issue(newKey(), LONG_MS)));
    await Promise.all(Array.from({ length: EXPIRED_BEHIND }, () => keys.issue(newKey(), 1)));
    await until('the expired keys to be gone', GONE_DEADLINE_MS, async () => {
      const { totalKeys } = await keyValueStore.statistics();
      return totalKeys === LIVING;
    });
  });
});
