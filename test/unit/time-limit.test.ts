import { access } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { within } from '#idempay/platform/time-limit.js';
import { standStill } from '../../testkit/time/stand-still.js';

const LIMIT_MS = 20;

test('work that does not end in time is late', async () => {
  expect(await within(LIMIT_MS, new Promise(() => {}), 'late')).toBe('late');
});

test('work that ended while the process stood still is in time', async () => {
  // From here the event loop comes to timers before it comes to files.
  await turn();
  const work = access(import.meta.filename).then(() => 'in time');
  const result = within(LIMIT_MS, work, 'late');
  standStill(5 * LIMIT_MS);
  expect(await result).toBe('in time');
});
