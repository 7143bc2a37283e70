import { EventEmitter } from 'node:events';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { WriteResults } from '#idempay/stores/embedded/writer/write-operations.js';
import { Writer, type WriterThread } from '#idempay/stores/embedded/writer/writer.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/** The other end of the channel: what the thread was told, and what it says. */
class Thread extends EventEmitter implements WriterThread {
  readonly told: string[] = [];

  postMessage(message: string): void {
    this.told.push(message);
  }

  async terminate(): Promise<void> {}

  says(results: WriteResults[]): void {
    this.emit('message', JSON.stringify(results));
  }
}

/**
 * Bug: an I/O error in the second of two batches that were one commit did not end the process. Cause: only the first was
 * looked at. Fix: each of them is.
 */
test('a broken disk is noticed in any batch of a commit, and nothing is written any more', async () => {
  const thread = new Thread();
  const broken: Error[] = [];
  const writer = new Writer(thread, (error) => broken.push(error), new HandClock());
  const first = writer.write('ping');
  await endOfTurn();
  const second = writer.write('ping');
  second.catch(() => {});
  await endOfTurn();
  expect(thread.told).toHaveLength(2);

  thread.says([{ values: [null] }, { values: [], faults: [{ fault: 'broken', message: 'disk I/O error' }] }]);
  await first;
  await expect(second).rejects.toMatchObject({ effect: 'unknown' });
  expect(broken).toEqual([expect.objectContaining({ message: expect.stringContaining('disk I/O error') })]);
  await expect(writer.write('ping')).rejects.toMatchObject({ effect: 'unchanged' });
  expect(thread.told).toHaveLength(2);
});
