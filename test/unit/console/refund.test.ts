import { expect, test } from 'vitest';
import type { Payment } from '../../../console/src/payments/payment.js';
import { leftOf } from '../../../console/src/payments/refunds/refund.js';

test.each([
  ['100.50', undefined, '100.50'],
  ['100.50', '60.00', '40.50'],
  ['5000', '1', '4999'],
  ['1.000', '0.001', '0.999'],
  ['0.05', '0.05', '0.00'],
  // After rows were lost, while a refund that will be declined is under way.
  ['100.50', '101.00', '0.00'],
])('of %s with %s refunded %s is left', (amount, refunded, left) => {
  expect(leftOf({ amount, refunded } as Payment)).toBe(left);
});
