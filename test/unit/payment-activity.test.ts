import { expect, test } from 'vitest';
import { BUCKET_MS, BUCKETS, createPaymentActivity } from '#idempay/payments/history/payment-activity.js';
import type { SettledCounts, SettledPeriod } from '#idempay/payments/ports/payment-history.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const NOW_MS = 2_000_000 * BUCKET_MS + 240_000;
const MINUTE_MS = 60_000;

/** Times of settled payments, every fourth of them declined, as a store of the deployment counts them. */
class SettledTimes {
  readonly times: number[] = [];
  rowsRead = 0;
  longestMs = 0;
  onRead = () => {};

  add(atMs: number, times = 1): void {
    for (let one = 0; one < times; one += 1) this.times.push(atMs);
  }

  async countSettled({ from, to, after, limit }: SettledPeriod): Promise<SettledCounts> {
    this.onRead();
    const skipped = Number(after ?? 0);
    const page = this.times.filter((time) => time >= from && time < to).slice(skipped, skipped + limit);
    this.rowsRead += page.length;
    const declined = Math.floor(page.length / 4);
    const next = page.length === limit ? String(skipped + limit) : undefined;
    return { completed: page.length - declined, declined, next };
  }
}

function setUp() {
  const clock = new HandClock(NOW_MS);
  const store = new SettledTimes();
  const ask = createPaymentActivity(store, clock);
  const total = async () => (await ask()).buckets.reduce((sum, bucket) => sum + bucket.completed + bucket.declined, 0);
  return { clock, store, ask, total };
}

test('buckets are of ten minutes of the last 24 hours, oldest first, the last one open', async () => {
  const { store, ask } = setUp();
  const openFrom = NOW_MS - 240_000;
  const oldest = openFrom - (BUCKETS - 1) * BUCKET_MS;
  store.add(oldest - 1, 5);
  store.add(oldest, 4);
  store.add(openFrom - 1, 8);
  store.add(NOW_MS, 1);
  const { bucketMs, to, complete, buckets } = await ask();
  expect([bucketMs, to, complete, buckets.length]).toEqual([BUCKET_MS, NOW_MS, true, BUCKETS]);
  expect(buckets[0]).toEqual({ from: oldest, completed: 3, declined: 1 });
  expect(buckets.at(-2)).toEqual({ from: openFrom - BUCKET_MS, completed: 6, declined: 2 });
  expect(buckets.at(-1)).toEqual({ from: openFrom, completed: 1, declined: 0 });
  expect(buckets.map(({ from }) => from)).toEqual(buckets.map((_, index) => oldest + index * BUCKET_MS));
});

test('a row is read once, but those of the last minutes, and one that is seen late is counted', async () => {
  const { clock, store, ask, total } = setUp();
  store.add(NOW_MS - 5 * BUCKET_MS, 10_000);
  store.add(NOW_MS - MINUTE_MS, 10);
  expect(await total()).toBe(10_010);
  expect(await total()).toBe(10_010);
  expect(store.rowsRead).toBe(10_020);
  // A row whose commit took a minute is seen only now.
  clock.advance(MINUTE_MS / 2);
  store.add(NOW_MS - MINUTE_MS / 2);
  expect(await total()).toBe(10_011);
  clock.advance(10 * MINUTE_MS);
  expect(await total()).toBe(10_011);
  const before = store.rowsRead;
  expect(await total()).toBe(10_011);
  expect(store.rowsRead).toBe(before);
  // Removal of old rows changes nothing that was counted, and nothing older than a day is kept.
  store.times.length = 0;
  expect(await total()).toBe(10_011);
  clock.advance(BUCKETS * BUCKET_MS);
  expect(await total()).toBe(0);
  expect((await ask()).complete).toBe(true);
});

test('very many are counted newest first, as far as the time goes, and the next question goes on', async () => {
  const { clock, store, ask } = setUp();
  const quick = store.onRead;
  for (let bucket = 0; bucket < BUCKETS; bucket += 1) store.add(NOW_MS - bucket * BUCKET_MS, 4);
  let reads = 0;
  store.onRead = () => {
    reads += 1;
    clock.advance(900);
  };
  const first = await ask();
  expect(first.complete).toBe(false);
  expect(first.buckets.length).toBeGreaterThanOrEqual(2);
  expect(first.buckets.length).toBeLessThanOrEqual(4);
  expect(first.buckets.at(-1)?.from).toBe(NOW_MS - 240_000);
  expect(reads).toBeLessThan(8);
  const second = await ask();
  expect(second.buckets.length).toBeGreaterThan(first.buckets.length);
  expect(second.buckets).toEqual(expect.arrayContaining([...first.buckets]));
  store.onRead = quick;
  expect((await ask()).complete).toBe(true);
});

test('all who ask at once share one count, and one that failed is begun anew', async () => {
  const { store, ask, total } = setUp();
  store.add(NOW_MS - BUCKET_MS, 7);
  const answers = await Promise.all(Array.from({ length: 9 }, () => ask()));
  expect(new Set(answers).size).toBe(1);
  expect(store.rowsRead).toBe(7);
  const failing = setUp();
  failing.store.add(NOW_MS - BUCKET_MS, 7);
  let left = 3;
  failing.store.onRead = () => {
    left -= 1;
    if (left === 0) throw new Error('away');
  };
  await expect(failing.total()).rejects.toThrow('away');
  expect(await failing.total()).toBe(7);
  expect(await total()).toBe(7);
});

test('a clock that is set back forgets what it had counted as past', async () => {
  const { clock, store, total } = setUp();
  expect(await total()).toBe(0);
  clock.leap(-3 * BUCKET_MS);
  store.add(clock.now(), 5);
  expect(await total()).toBe(5);
  // A little back is within what lateness covers.
  clock.leap(-1_000);
  expect(await total()).toBe(5);
});
