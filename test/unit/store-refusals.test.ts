import { expect, test } from 'vitest';
import { type Operation, publicErrors, storeRefusal } from '#idempay/http/errors/catalogue.js';
import { publicErrorOf } from '#idempay/http/errors/error-answers.js';
import { AllSnapshotsInUse, StoreUnavailable } from '#idempay/platform/faults.js';

const CHANGES = ['create transaction', 'create transactions', 'change status', 'delete transaction'] as const;
const READS = ['list transactions', 'health', 'read'] as const;
const RETRY = { 'Retry-After': '2' };

/** The messages if nothing was changed, and if that is not known. */
const refusals = (operation?: Operation) =>
  (['unchanged', 'unknown'] as const).map((effect) => {
    const { message, headers } = storeRefusal(new StoreUnavailable(effect, 'away'), operation);
    return { message, headers };
  });

test.each([...CHANGES, ...READS])('the refusal of "%s" speaks neither of payments nor of keys', (operation) => {
  for (const { message } of refusals(operation)) expect(message).not.toMatch(/payment|Idempotency-Key/i);
});

test('the refusal of a payment asks for a repeat with the same key, and says after which time', () => {
  const message = expect.stringMatching(/Retry with the same Idempotency-Key/);
  for (const refusal of refusals('pay')) expect(refusal).toEqual({ message, headers: RETRY });
});

/** Bug: an order, whose key the caller does not have, was told the rule for keys. */
test('what an order is refused with asks for the same request, and does not speak of keys', () => {
  const others = [
    publicErrors.tooManyPayments(1, 'reference'),
    publicErrors.paymentNotSent('reference'),
    publicErrors.paymentOutcomeUnknown('reference'),
  ];
  for (const { message } of [...refusals('pay by reference'), ...others]) {
    expect(message).toMatch(/repeat the same request/i);
    expect(message).not.toMatch(/key/i);
  }
  for (const { headers } of refusals('pay by reference')) expect(headers).toEqual(RETRY);
});

test.each([
  ['create transaction', /Look for it .* a repeat may create it twice/],
  ['create transactions', /Look for them .* a repeat may create them twice/],
] as const)(
  'the refusal of "%s" whose commit is unknown asks to look first, and names no time for a repeat',
  (operation, says) => {
    const [unchanged, unknown] = refusals(operation);
    expect(unchanged?.headers).toEqual(RETRY);
    expect(unknown).toEqual({ message: expect.stringMatching(says), headers: {} });
  },
);

test('the refusal of a create with a key asks for a repeat with it, and says after which time', () => {
  const message = expect.stringMatching(/Retry .*with the same Idempotency-Key/);
  for (const refusal of refusals('create once')) expect(refusal).toEqual({ message, headers: RETRY });
});

test.each([...READS, 'payment status', undefined] as const)('the refusal of "%s" is always the same', (operation) => {
  const [unchanged, unknown] = refusals(operation);
  expect(unknown).toEqual({ message: unchanged?.message, headers: RETRY });
});

test('the refusal while all snapshots are in use speaks of lists', () => {
  const { status, message, headers } = publicErrorOf(new AllSnapshotsInUse(2));
  expect(status).toBe(503);
  expect(message).toMatch(/^Too many long lists are being read(?!.*(payment|key))/i);
  expect(headers).toMatchObject({ 'Retry-After': expect.stringMatching(/^[1-9]/) });
});
