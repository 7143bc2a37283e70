import { setImmediate as endOfTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { createOpenKeys } from '#idempay/payments/open-keys.js';
import type { OpenKeyChange } from '#idempay/payments/ports/open-key-counts.js';
import { generateIdempotencyKey } from '#idempay/payments/values/idempotency-key.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const TTL_MS = 64_000;

/** Counts whose exchanges end when the test says so. */
function givenOpenKeys() {
  const exchanges: (OpenKeyChange & { end(granted: number): void; fail(fault: Error): void })[] = [];
  const exchange = (change: OpenKeyChange) =>
    new Promise<number>((end, fail) => {
      exchanges.push({ ...change, end, fail });
    });
  return { exchanges, openKeys: createOpenKeys({ exchange }, 10, TTL_MS, new HandClock()) };
}

const key = generateIdempotencyKey(0);
const PART_OF_KEY = 0;

/** Bug: a key that was closed during an exchange stayed counted until the process issued or closed another one. */
test('a key that is closed during an exchange is closed by a next one that starts by itself', async () => {
  const { exchanges, openKeys } = givenOpenKeys();
  const opening = openKeys.open(key);
  await endOfTurn();
  openKeys.close(key);
  exchanges[0]?.end(1);
  await opening;
  await endOfTurn();
  expect(exchanges.map(({ closed }) => [...closed])).toEqual([[], [[PART_OF_KEY, 1]]]);
});

test('closed keys that could not be reported are reported with the next key, and not at once', async () => {
  const { exchanges, openKeys } = givenOpenKeys();
  openKeys.close(key);
  await endOfTurn();
  exchanges[0]?.fail(new StoreUnavailable('unchanged', 'away'));
  await endOfTurn();
  await endOfTurn();
  expect(exchanges).toHaveLength(1);
  openKeys.close(key);
  await endOfTurn();
  expect(exchanges.map(({ closed }) => [...closed])).toEqual([[[PART_OF_KEY, 1]], [[PART_OF_KEY, 2]]]);
});
