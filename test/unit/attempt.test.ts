import { beforeEach, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { type AttemptResult, createCarryOut, type Origin } from '#idempay/payments/attempt.js';
import { createEndings } from '#idempay/payments/endings.js';
import { createLeases } from '#idempay/payments/leases.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { type FailingPort, failingPort } from '../../testkit/protocol/failing-ports.js';
import { givenClaim, LONG_MS, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const LEASE_MS = 30_000;
const DEDUP_MS = 1_000;
const BUG = new Error('a bug');
const LOST = new StoreUnavailable('unknown', 'the answer was lost');

const ports = await sharePorts();
let clock: HandClock;
let ledger: FailingPort<Ledger>;
let processor: RecordingProcessor;
let claim: Claim;
/** With which recovery was asked for its next look. */
let ages: number[];

beforeEach(async () => {
  clock = new HandClock();
  ledger = failingPort(ports.ledger);
  processor = new RecordingProcessor('test', DEDUP_MS);
  ages = [];
  claim = await givenClaim(ports.ledger);
});

/** Carries out a claim that is asked for now. */
function carryOut(origin: Origin, members: Partial<Claim> = {}): Promise<AttemptResult> {
  const attempt = createCarryOut({
    endings: createEndings(ports.keys, clock),
    ledger: ledger.port,
    processor,
    leases: createLeases(ledger.port, LEASE_MS, clock),
    idempotencyTtlMs: LONG_MS,
    onContradiction() {},
    recoverAfterMs(ageMs) {
      ages.push(ageMs);
      return 0;
    },
    clock,
  });
  return attempt({ ...claim, ...members }, clock.monotonic(), origin);
}

describe('a charge that the processor has no record of', () => {
  test.each([
    [0, DEDUP_MS, 'sent'],
    [DEDUP_MS - 1, DEDUP_MS, 'sent'],
    [DEDUP_MS, DEDUP_MS, 'not sent'],
    [-1, DEDUP_MS, 'not sent'],
    [-1, Number.POSITIVE_INFINITY, 'sent'],
  ])('at the age of %i ms, with %d ms of deduplication, is %s', async (ageMs, dedupMs, what) => {
    processor = new RecordingProcessor('test', dedupMs);
    const { state } = await carryOut('repeat', { ageMs, unsent: false });
    expect([state, processor.charges.length]).toEqual(what === 'sent' ? ['settled', 1] : ['unknown', 0]);
  });

  test('is not sent for an operator', async () => {
    await carryOut('operator');
    expect(processor.charges).toEqual([]);
  });
});

test('the age of a payment that stays unknown counts from the moment before its claim was sent', async () => {
  processor.plan({ outcome: 'none', after: Promise.resolve().then(() => clock.advance(300)) });
  await carryOut('first claim', { ageMs: 20 });
  expect(ages).toEqual([320]);
});

describe('the lease of an attempt', () => {
  test('is not renewed once the attempt has settled', async () => {
    await carryOut('first claim');
    expect(clock.pending).toBe(0);
  });

  test.each(['first claim', 'repeat'] as const)('is not renewed while the row is given up (%s)', async (origin) => {
    let pending: number | undefined;
    ledger.interruptNext('abandon', (proceed) => {
      pending = clock.pending;
      return proceed();
    });
    processor.plan({ outcome: 'none' });
    if (origin === 'repeat') processor.planLookUp(() => Promise.reject(BUG));
    await carryOut(origin).catch(() => {});
    expect(pending).toBe(0);
  });
});

describe('a fault', () => {
  test('before the charge is thrown as it is', async () => {
    processor.planLookUp(() => Promise.reject(BUG));
    await expect(carryOut('repeat')).rejects.toBe(BUG);
  });

  test('after the charge is unknown, and the row is not marked unsent', async () => {
    ledger.failNext('settle', LOST);
    await expect(carryOut('first claim')).rejects.toMatchObject({ effect: 'unknown', cause: LOST });
    const taken = await ports.ledger.takeOver({ ...claim, owner: newOwner(), leaseMs: LONG_MS });
    expect(taken).toMatchObject({ unsent: false });
  });

  test('of a store that is away while a row is given up changes no answer; a bug there is thrown', async () => {
    processor.plan({ outcome: 'none' }, { outcome: 'none' });
    ledger.failNext('abandon', LOST);
    expect(await carryOut('first claim')).toMatchObject({ state: 'unknown' });
    ledger.failNext('abandon', BUG);
    await expect(carryOut('first claim')).rejects.toBe(BUG);
  });
});
