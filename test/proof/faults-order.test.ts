import { describe, expect, test } from 'vitest';
import type { Fault, Hit } from '../../proof/faults/fault.js';
import { faultOrder } from '../../proof/faults/fault-order.js';
import { seededRandom } from '../../testkit/random.js';

const fault = (hits: Hit, name: string, weight = 1): Fault => ({ name, hits, weight, happen: async () => {} });
const FAULTS = [
  ...[fault('service', 'kill', 2), fault('service', 'stop'), fault('processor', 'kill it')],
  ...[fault('redis', 'flush'), fault('redis', 'cut'), fault('postgres', 'restart')],
];

function drawn(count: number, faults = FAULTS, seed = 1): Fault[] {
  const order = faultOrder(faults, seededRandom(seed));
  return Array.from({ length: count }, () => order.next().value);
}

describe('the order of faults', () => {
  test('hits processes and stores in turn from the start', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const areStores = drawn(10, FAULTS, seed).map(({ hits }) => hits === 'redis' || hits === 'postgres');
      expect(areStores).toEqual([false, true, false, true, false, true, false, true, false, true]);
    }
  });

  test('gives every fault its turns, as often as it weighs among its kind', () => {
    const names = drawn(300).map(({ name }) => name);
    const times = (name: string) => names.filter((each) => each === name).length;
    expect(['kill', 'stop', 'kill it', 'restart'].map(times)).toEqual([80, 40, 30, 60]);
    expect(times('flush') + times('cut')).toBe(90);
  });

  test('is the same for the same seed, and leaves out what cannot be hit', () => {
    expect(drawn(50)).toEqual(drawn(50));
    expect(drawn(20, [fault('service', 'kill'), fault('disk', 'fill')]).map(({ hits }) => hits)).toContain('disk');
  });
});
