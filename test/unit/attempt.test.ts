import { beforeEach, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { type CarryOut, createCarryOut } from '#idempay/payments/attempt.js';
import { createEndings } from '#idempay/payments/endings.js';
import { createLeases } from '#idempay/payments/leases.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { type FailingPort, failingPort } from '../../testkit/protocol/failing-ports.js';
import { givenClaim, LONG_MS, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { type Ports, sharePorts } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const LEASE_MS = 30_000;
const DEDUP_MS = 1_000;
const BUG = new Error('a bug');
const LOST = new StoreUnavailable('unknown', 'the answer was lost');

const ports = sharePorts();
let clock: HandClock;
let ledger: FailingPort<Ports['ledger']>;
let processor: RecordingProcessor;
let claim: Claim;
/** With which recovery was asked for its next look. */
let ages: number[];
let carryOut: CarryOut;

beforeEach(async () => {
  clock = new HandClock();
  ledger = failingPort(ports.ledger);
  useProcessor(DEDUP_MS);
  claim = await givenClaim(ports.ledger);
});

function useProcessor(dedupMs: number): void {
  processor = new RecordingProcessor('test', dedupMs);
  ages = [];
  carryOut = createCarryOut({
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
}

describe('a charge that the processor has no record of', () => {
  test.each([
    [0, DEDUP_MS, 'sent'],
    [DEDUP_MS - 1, DEDUP_MS, 'sent'],
    [DEDUP_MS, DEDUP_MS, 'not sent'],
    [-1, DEDUP_MS, 'not sent'],
    [-1, Number.POSITIVE_INFINITY, 'sent'],
  ])('at the age of %i ms, with %d ms of deduplication, is %s', async (ageMs, dedupMs, what) => {
    useProcessor(dedupMs);
    const { state } = await carryOut({ ...claim, ageMs, unsent: false }, clock.monotonic(), 'repeat');
    expect([state, processor.charges.length]).toEqual(what === 'sent' ? ['settled', 1] : ['unknown', 0]);
  });

  test('is not sent for an operator', async () => {
    await carryOut(claim, clock.monotonic(), 'operator');
    expect(processor.charges).toEqual([]);
  });
});

test('the age of a payment that stays unknown counts from the moment before its claim was sent', async () => {
  processor.plan({ outcome: 'none', after: Promise.resolve().then(() => clock.advance(300)) });
  await carryOut({ ...claim, ageMs: 20 }, clock.monotonic(), 'first claim');
  expect(ages).toEqual([320]);
});

describe('the lease of an attempt', () => {
  test('is not renewed once the attempt has settled', async () => {
    await carryOut(claim, clock.monotonic(), 'first claim');
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
    await carryOut(claim, clock.monotonic(), origin).catch(() => {});
    expect(pending).toBe(0);
  });
});

describe('a fault', () => {
  test('before the charge is thrown as it is', async () => {
    processor.planLookUp(() => Promise.reject(BUG));
    await expect(carryOut(claim, clock.monotonic(), 'repeat')).rejects.toBe(BUG);
  });

  test('after the charge is unknown, and the row is not marked unsent', async () => {
    ledger.failNext('settle', LOST);
    const charged = carryOut(claim, clock.monotonic(), 'first claim');
    await expect(charged).rejects.toMatchObject({ effect: 'unknown', cause: LOST });
    const { key, processor: name } = claim;
    const taken = await ports.ledger.takeOver({ key, processor: name, owner: newOwner(), leaseMs: LONG_MS });
    expect(taken).toMatchObject({ unsent: false });
  });

  test('of a store that is away while a row is given up changes no answer; a bug there is thrown', async () => {
    for (const fault of [LOST, BUG]) {
      processor.plan({ outcome: 'none' });
      ledger.failNext('abandon', fault);
      const answer = carryOut(claim, clock.monotonic(), 'first claim');
      if (fault === BUG) await expect(answer).rejects.toBe(BUG);
      else await expect(answer).resolves.toMatchObject({ state: 'unknown' });
    }
  });
});
