import { describe, expect, test } from 'vitest';
import { AllSnapshotsInUse, StoreUnavailable } from '#idempay/faults.js';
import { publicErrorOf } from '#idempay/http/errors.js';
import { type Operation, publicErrors } from '#idempay/http/public-errors.js';

/** What is said where nothing was changed, and where that is not known. */
const refusals = (operation?: Operation) =>
  (['unchanged', 'unknown'] as const).map((effect) => {
    const { message, headers } = publicErrors.storeUnavailable(new StoreUnavailable(effect, 'away'), operation);
    return { message, headers };
  });
const RETRY = { 'Retry-After': '2' };

describe('the refusal while a store is away', () => {
  test.each([
    'create transaction',
    'change status',
    'delete transaction',
    'list transactions',
    'health',
    'read',
  ] as const)('of "%s" speaks neither of payments nor of Idempotency-Keys', (operation) => {
    for (const { message } of refusals(operation)) expect(message).not.toMatch(/payment|Idempotency-Key/i);
  });

  test('of a payment asks for a repeat with the same key, and says after which time', () => {
    for (const refusal of refusals('pay')) {
      expect(refusal).toEqual({
        message: expect.stringMatching(/Retry with the same Idempotency-Key/),
        headers: RETRY,
      });
    }
  });

  test('of a create whose commit is unknown asks to look first, and names no time for a repeat', () => {
    const message = expect.stringMatching(/Look for it .* a repeat may create it twice/);
    expect(refusals('create transaction')).toEqual([
      expect.objectContaining({ headers: RETRY }),
      { message, headers: {} },
    ]);
  });

  test.each(['list transactions', 'payment status', 'health', 'read', undefined] as const)(
    'of "%s" is the same whatever became of the call, for nothing was to be written',
    (operation) => {
      const [unchanged, unknown] = refusals(operation);
      expect(unknown).toEqual({ message: unchanged?.message, headers: RETRY });
    },
  );
});

test('the refusal while all snapshots are in use speaks of lists', () => {
  const { status, message, headers } = publicErrorOf(new AllSnapshotsInUse(2));
  expect(status).toBe(503);
  expect(message).toMatch(/^Too many long lists are being read/);
  expect(message).not.toMatch(/payment|key/i);
  expect(headers).toMatchObject({ 'Retry-After': expect.stringMatching(/^[1-9]/) });
});
