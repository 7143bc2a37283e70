import { describe, expect, test } from 'vitest';
import type { Fault, Hit } from '../../proof/faults/environment.js';
import { FaultOrder } from '../../proof/faults/fault-order.js';
import { seededRandom } from '../../testkit/random.js';

const fault = (hits: Hit, name: string, weight = 1): Fault => ({ name, hits, weight, happen: async () => {} });
const FAULTS = [
  fault('service', 'kill', 2),
  fault('service', 'stop'),
  fault('processor', 'kill it'),
  fault('redis', 'flush'),
  fault('redis', 'cut'),
  fault('postgres', 'restart'),
];

function drawn(count: number, faults = FAULTS, seed = 1): Fault[] {
  const order = new FaultOrder(faults, seededRandom(seed));
  return Array.from({ length: count }, () => order.next());
}

describe('the order of faults', () => {
  test('hits processes and stores in turn from the start', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const hits = drawn(10, FAULTS, seed).map((each) => each.hits);
      for (const [index, hit] of hits.entries()) {
        expect(['redis', 'postgres'].includes(hit), hits.join(' ')).toBe(index % 2 === 1);
      }
    }
  });

  test('gives every fault its turns, as often as it weighs among its kind', () => {
    const counts = new Map<string, number>();
    for (const { name } of drawn(300)) counts.set(name, (counts.get(name) ?? 0) + 1);
    expect(counts.get('kill')).toBe(80);
    expect(counts.get('stop')).toBe(40);
    expect(counts.get('kill it')).toBe(30);
    expect(counts.get('restart')).toBe(60);
    expect((counts.get('flush') ?? 0) + (counts.get('cut') ?? 0)).toBe(90);
  });

  test('is the same for the same seed, and leaves out what cannot be hit', () => {
    expect(drawn(50).map(({ name }) => name)).toEqual(drawn(50).map(({ name }) => name));
    expect(drawn(20, [fault('service', 'kill'), fault('disk', 'fill')]).map(({ hits }) => hits)).toContain('disk');
  });
});
