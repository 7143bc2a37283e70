import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openLiveStream } from '#idempay/http/operations/live-stream.js';

const STALLED_MS = 30_000;
const CHECKED_WITHIN_MS = 5_000;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function open(mayStill = async () => true) {
  const seen = { cut: 0, closed: 0 };
  const opened = openLiveStream(
    mayStill,
    () => {
      seen.cut += 1;
    },
    () => {
      seen.closed += 1;
    },
  );
  return { ...opened, seen };
}

/** A client that takes all there is. */
function taking({ stream }: ReturnType<typeof open>) {
  const parts: string[] = [];
  stream.on('data', (part) => parts.push(String(part)));
  return parts;
}

test('a client that takes lines gets them in their order, and is not cut while nothing comes', async () => {
  const opened = open();
  const parts = taking(opened);
  await vi.advanceTimersByTimeAsync(2 * STALLED_MS);
  for (const text of ['one', 'two', 'three']) opened.line(text);
  await vi.advanceTimersByTimeAsync(2 * STALLED_MS);
  expect(parts.join('')).toBe('one\ntwo\nthree\n');
  expect(opened.seen).toEqual({ cut: 0, closed: 0 });
});

test('a client that takes nothing is cut after half a minute, and one that goes on taking is not', async () => {
  const [stalled, slow] = [open(), open()];
  for (const { line } of [stalled, slow]) for (let count = 0; count < 100; count += 1) line('x'.repeat(10_000));
  // What it takes at first is all that the stream has room for.
  stalled.stream.read();
  for (let second = 0; second < 40; second += 1) {
    slow.stream.read();
    await vi.advanceTimersByTimeAsync(1_000);
    if (second === 25) expect(stalled.seen.closed).toBe(0);
  }
  expect([stalled.stream.destroyed, stalled.seen.closed]).toEqual([true, 1]);
  expect([slow.stream.destroyed, slow.seen.closed]).toEqual([false, 0]);
});

test('it ends for a client that lost its access, and when access cannot be checked', async () => {
  for (const mayStill of [async () => false, () => Promise.reject(new Error('away'))]) {
    const opened = open(mayStill);
    taking(opened);
    await vi.advanceTimersByTimeAsync(CHECKED_WITHIN_MS);
    await expect.poll(() => [opened.stream.readableEnded, opened.seen.closed]).toEqual([true, 1]);
    await vi.runOnlyPendingTimersAsync();
    expect(vi.getTimerCount()).toBe(0);
  }
});

test('at its end what waits is thrown away, and a client that does not take the last bytes is cut', async () => {
  const opened = open();
  for (let count = 0; count < 100; count += 1) opened.line('x'.repeat(10_000));
  opened.end();
  opened.end();
  opened.line('late');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(opened.seen.cut).toBe(1);
  const parts = taking(opened);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(parts.join('').length).toBeLessThan(100_000);
  expect(parts.join('')).not.toContain('late');
});
