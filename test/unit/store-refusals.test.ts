import { describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { type Operation, publicErrors } from '#idempay/http/public-errors.js';

const refusal = (effect: 'unchanged' | 'unknown', operation?: Operation) =>
  publicErrors.storeUnavailable(new StoreUnavailable(effect, 'the store is away'), operation);

const READS: readonly Operation[] = ['list transactions', 'payment status', 'health', 'read'];
const WITHOUT_A_PAYMENT: readonly Operation[] = [
  'create transaction',
  'change status',
  'delete transaction',
  'list transactions',
  'health',
  'read',
];

describe('the refusal while a store is away', () => {
  test.each(WITHOUT_A_PAYMENT)('of "%s" speaks neither of payments nor of Idempotency-Keys', (operation) => {
    for (const effect of ['unchanged', 'unknown'] as const) {
      expect(refusal(effect, operation).message).not.toMatch(/payment|Idempotency-Key/i);
    }
  });

  test('of a payment asks for a repeat with the same key', () => {
    for (const effect of ['unchanged', 'unknown'] as const) {
      expect(refusal(effect, 'pay').message).toMatch(/Retry with the same Idempotency-Key/);
    }
  });

  test('of a create whose commit is unknown asks to look first, and names no time for a repeat', () => {
    const { message, headers } = refusal('unknown', 'create transaction');
    expect(message).toMatch(/Look for it .* a repeat may create it twice/);
    expect(headers).toEqual({});
  });

  test.each(READS)('of "%s" is the same whatever became of the call, for nothing was to be written', (operation) => {
    expect(refusal('unknown', operation).message).toBe(refusal('unchanged', operation).message);
  });

  test('otherwise says after which time to repeat', () => {
    expect(refusal('unchanged', 'create transaction').headers).toEqual({ 'Retry-After': '2' });
    expect(refusal('unknown', 'pay').headers).toEqual({ 'Retry-After': '2' });
    expect(refusal('unknown').headers).toEqual({ 'Retry-After': '2' });
  });
});
