import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { inTime } from '#idempay/stores/redis/connection/reply-limit.js';

/** So that a request is answered within a second. */
const LIMIT_MS = 900;

test('a reply that has not come by its limit is given up', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const ended = vi.fn();
  inTime(new Promise(() => {})).catch(ended);
  vi.advanceTimersByTime(LIMIT_MS - 1);
  await turn();
  expect(ended).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  await turn();
  expect(ended).toHaveBeenCalledWith(new Error('Command timed out'));
});

test('a fault is the fault of the command, and leaves no timer', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  await expect(inTime(Promise.reject(new Error('READONLY')))).rejects.toThrow('READONLY');
  expect(vi.getTimerCount()).toBe(0);
});
