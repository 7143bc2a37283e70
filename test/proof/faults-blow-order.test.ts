import { describe, expect, test } from 'vitest';
import { BlowOrder } from '../../proof/faults/blow-order.js';
import type { Blow, Hit } from '../../proof/faults/scene.js';
import { seededRandom } from '../../testkit/random.js';

const blow = (hits: Hit, name: string, weight = 1): Blow => ({ name, hits, weight, strike: async () => {} });
const BLOWS = [
  blow('service', 'kill', 2),
  blow('service', 'stop'),
  blow('processor', 'kill it'),
  blow('redis', 'flush'),
  blow('redis', 'cut'),
  blow('postgres', 'restart'),
];

function drawn(count: number, blows = BLOWS, seed = 1): Blow[] {
  const order = new BlowOrder(blows, seededRandom(seed));
  return Array.from({ length: count }, () => order.next());
}

describe('the order of blows', () => {
  test('hits processes and stores in turn from the start', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const hits = drawn(10, BLOWS, seed).map((each) => each.hits);
      for (const [index, hit] of hits.entries()) {
        expect(['redis', 'postgres'].includes(hit), hits.join(' ')).toBe(index % 2 === 1);
      }
    }
  });

  test('gives every blow its turns, as often as it weighs among its kind', () => {
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
    expect(drawn(20, [blow('service', 'kill'), blow('disk', 'fill')]).map(({ hits }) => hits)).toContain('disk');
  });
});
