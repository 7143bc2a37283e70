import { expect, test } from 'vitest';
import { createPendingRecord } from '#idempay/http/payments/payment-answers.js';
import type { PendingAnswer } from '#idempay/payments/answers.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';

const DOWN = new StoreUnavailable('unchanged', 'the store is down');
const PENDING = { payment: { key: 'k', untilMs: 0 }, action: undefined } as unknown as PendingAnswer;

/**
 * Bug: a program was told that its request changed nothing after the charge was sent. Cause: the record of the pending payment could not be read.
 * Fix: a read that follows a write says that the request may have been carried out.
 */
test('a record that cannot be read does not say that nothing was changed', async () => {
  const read = createPendingRecord(() => Promise.reject(DOWN));
  await expect(read(PENDING, undefined)).rejects.toMatchObject({ effect: 'unknown', cause: DOWN });
  const fault = new Error('another fault');
  await expect(createPendingRecord(() => Promise.reject(fault))(PENDING, undefined)).rejects.toBe(fault);
});
