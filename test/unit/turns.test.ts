import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Turns } from '#idempay/deployments/turns.js';
import { AllSnapshotsInUse } from '#idempay/faults.js';
import { publicErrorOf } from '#idempay/http/errors.js';

const LONGEST_WAIT_MS = 10_000;
const MOST_WAITING = 256;

describe('turns for a snapshot', () => {
  let turns: Turns;

  beforeEach(async () => {
    vi.useFakeTimers();
    turns = new Turns(2);
    await turns.take();
    await turns.take();
  });
  afterEach(() => vi.useRealTimers());

  test('are wanted while somebody waits for one', async () => {
    expect(turns.areWanted()).toBe(false);
    const third = turns.take();
    expect(turns.areWanted()).toBe(true);
    turns.pass();
    await third;
    expect(turns.areWanted()).toBe(false);
  });

  test('end the wait with a 503 that speaks of lists', async () => {
    const outcome = turns.take().catch((fault: unknown) => fault);
    await vi.advanceTimersByTimeAsync(LONGEST_WAIT_MS);
    const fault = (await outcome) as AllSnapshotsInUse;
    expect(fault).toBeInstanceOf(AllSnapshotsInUse);
    const { status, message, headers } = publicErrorOf(fault);
    expect(status).toBe(503);
    expect(message).toMatch(/^Too many long lists are being read/);
    expect(message).not.toMatch(/payment|key/i);
    expect(headers).toMatchObject({ 'Retry-After': expect.stringMatching(/^[1-9]/) });
    expect(turns.areWanted()).toBe(false);
  });

  test('are refused at once when the line is full', async () => {
    const outcomes = Array.from({ length: MOST_WAITING }, () => turns.take().catch((fault: unknown) => fault));
    await expect(turns.take()).rejects.toBeInstanceOf(AllSnapshotsInUse);
    await vi.advanceTimersByTimeAsync(LONGEST_WAIT_MS);
    for (const fault of await Promise.all(outcomes)) expect(fault).toBeInstanceOf(AllSnapshotsInUse);
  });

  test('go to the last one in line, and then to the one before it', async () => {
    const order: number[] = [];
    const waiting = [1, 2, 3].map((number) => turns.take().then(() => order.push(number)));
    for (const _ of waiting) turns.pass();
    await Promise.all(waiting);
    expect(order).toEqual([3, 2, 1]);
  });
});
