/**
 * Bug: `follow` asked hundreds of times a second through a gateway that dropped `Prefer`, and once a second in an outage that had a
 * `Retry-After`. Cause: only the service waited, and the pause after a fault was fixed. Fix: the client pauses after an empty page that came
 * at once, and for the time that the service asks for.
 */

import { expect, test } from 'vitest';
import {
  json,
  KEY,
  NOTHING_PAID,
  refusal,
  type Step,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

const ended = { idempotencyKey: KEY, state: 'COMPLETED', ...NOTHING_PAID };
const empty = () => json({ settlements: [], next: 'place' });
const full = () => json({ settlements: [ended], next: 'place' });

/** When each request was sent until the feed showed this many pages. */
async function momentsOf(steps: readonly Step[], pages: number): Promise<number[]> {
  const { idempay, sent } = scripted(steps, { deadlineMs: 5_000 });
  let shown = 0;
  for await (const _ of idempay.settlements.follow()) {
    shown += 1;
    if (shown === pages) break;
  }
  return sent.map(({ atMs }) => atMs);
}

test('the feed pauses after an empty page for which the service did not wait', async () => {
  expect(await momentsOf([empty(), empty(), empty(), full()], 4)).toEqual([0, 0, 1_000, 2_000]);
});

test('the feed asks at once after a page with settlements', async () => {
  expect(await momentsOf([full(), full(), full()], 3)).toEqual([0, 0, 0]);
});

test.each([
  ['5', 5_000],
  ['30', 30_000],
  ['3600', 60_000],
])('the feed waits in an outage as Retry-After says, at most a minute: %s', async (seconds, waitedMs) => {
  const outage = refusal(503, undefined, { 'retry-after': seconds });
  expect(await momentsOf([full(), outage, full()], 2)).toEqual([0, 0, waitedMs]);
});
