import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { ShortLivedMap } from '#idempay/short-lived-map.js';

describe('ShortLivedMap', () => {
  it('has what was set and not deleted, in its order, through any number of copies', () => {
    const map = new ShortLivedMap<number, string>();
    const expected = new Map<number, string>();
    for (let index = 0; index < 5_000; index += 1) {
      map.set(index, `of ${index}`);
      expected.set(index, `of ${index}`);
      // The more are there, the later they are copied: first 10, then 300 at once.
      const gone = index - (index < 2_500 ? 10 : 300);
      expect(map.delete(gone)).toBe(expected.delete(gone));
      expect(map.size).toBe(expected.size);
      expect(map.get(gone)).toBeUndefined();
      expect(map.get(index)).toBe(`of ${index}`);
    }
    expect([...map.values()]).toEqual([...expected.values()]);
  });

  it('keeps the place of a key that is set again', () => {
    const map = new ShortLivedMap<string, number>();
    for (const [key, value] of Object.entries({ a: 1, b: 2 })) map.set(key, value);
    map.set('a', 3);
    expect([...map.values()]).toEqual([3, 2]);
  });

  /** A Map of the engine keeps about 110 bytes for each of them (Node.js 20). */
  it('leaves nothing of what was deleted to a collection of the old generation', () => {
    const [AT_ONCE, ENTRIES] = [64, 100_000];
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc') as (options: { type: 'minor' }) => void;
    const usedBytes = () => {
      for (let times = 0; times < 3; times += 1) collectGarbage({ type: 'minor' });
      return getHeapStatistics().used_heap_size;
    };
    const map = new ShortLivedMap<number, unknown>();
    const pass = (from: number, count: number) => {
      for (let index = from; index < from + count; index += 1) {
        map.set(index, { index, more: new Array(20).fill(index) });
        map.delete(index - AT_ONCE);
      }
    };
    pass(0, 2 * AT_ONCE);
    const before = usedBytes();
    pass(2 * AT_ONCE, ENTRIES);
    expect((usedBytes() - before) / ENTRIES).toBeLessThan(20);
  });
});
