import { beforeEach, expect, test } from 'vitest';
import { UnpaidKeys } from '#idempay/limits/unpaid-keys.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** Rule A6: while Redis is nearly full, keys without a reference are refused, beginning with the client that issued most. */
let clock: HandClock;
let used: number;
let keys: UnpaidKeys;

beforeEach(() => {
  clock = new HandClock();
  used = 0.2;
  keys = new UnpaidKeys(clock, () => used);
});

function issue(client: string, count: number): void {
  for (let index = 0; index < count; index += 1) expect(keys.take(client)).toBe(true);
}

test('nobody is refused up to 85 % of the memory, however many keys it asks for', () => {
  used = 0.85;
  issue('greedy', 1_000);
  expect(keys.isRefusing).toBe(false);
});

test('above 85 % the client that issued most is refused, and above 95 % everybody', () => {
  issue('greedy', 100);
  issue('shop', 10);
  used = 0.86;
  expect(keys.isRefusing).toBe(true);
  expect(keys.take('greedy')).toBe(false);
  issue('shop', 1);
  issue('new', 1);
  used = 0.951;
  expect(['greedy', 'shop', 'new'].map((client) => keys.take(client))).toEqual([false, false, false]);
  used = 0.85;
  issue('greedy', 1);
});

test('keys count for an hour', () => {
  issue('greedy', 100);
  clock.advance(2 * 3_600_000);
  issue('shop', 10);
  used = 0.86;
  expect(['greedy', 'shop'].map((client) => keys.take(client))).toEqual([true, false]);
});

test('without clients all share one count', () => {
  expect(keys.take()).toBe(true);
  used = 0.86;
  expect(keys.take()).toBe(false);
});
