import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { type Clock, systemClock } from '#idempay/platform/clock.js';
import { LastCommit, readLastCommit } from '#idempay/stores/embedded/file/last-commit.js';
import { migrate } from '#idempay/stores/embedded/migrate.js';
import { StoreClock } from '#idempay/stores/embedded/store-clock.js';
import { createBatchCommits } from '#idempay/stores/embedded/writer/batch-commits.js';
import { createWriteOperations } from '#idempay/stores/embedded/writer/write-operations.js';
import { openWithWarnings } from '../../testkit/protocol/embedded-with-warnings.js';
import { claimAttempt, givenClaim, LONG_MS, newKey, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY } from '../../testkit/protocol/payment-composition.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

/**
 * Bug: a key that was refused as expired while the wall clock was ahead was good again, and was charged, when the clock was set
 * right. Cause: keys were issued, claimed and refused by the wall clock. Fix: they have the store's clock, which runs by
 * monotonic time and never begins before the last time that the store wrote.
 */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The machine's clock, wrong by as much as the test says. */
class WrongClock implements Clock {
  aheadMs = 0;
  stoodStillMs = 0;
  readonly now = () => Date.now() + this.aheadMs;
  readonly monotonic = () => performance.now() - this.stoodStillMs;
  readonly after = systemClock.after;
}

async function newFolder(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-clock-'));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  return dataDir;
}

const openAt = async (dataDir: string, aheadMs: number) => {
  const clock = new WrongClock();
  clock.aheadMs = aheadMs;
  return { ...(await openWithWarnings(dataDir, clock)), clock };
};

test('a clock that jumps while the process runs expires no key, and no outcome', async () => {
  const clock = new WrongClock();
  const { keys, ledger } = await openWithWarnings(await newFolder(), clock);
  const [key, paid] = [newKey(), await givenClaim(ledger)];
  await keys.issue(key, HOUR_MS);
  await ledger.settle(paid, { state: 'COMPLETED', transactionId: paid.transactionId }, HOUR_MS);
  for (const aheadMs of [DAY_MS, -DAY_MS]) {
    clock.aheadMs = aheadMs;
    expect(await keys.look(key)).toEqual({ state: 'generated' });
    expect(await ledger.find(paid.key)).toMatchObject({ state: 'final' });
  }
});

test('a key that was refused as expired is refused for ever, whatever the clock is at later starts', async () => {
  const dataDir = await newFolder();
  const [unpaid, paid] = [newKey(), newKey()];
  const first = await openAt(dataDir, 0);
  await first.keys.issue(unpaid, HOUR_MS);
  const claim = await givenClaim(first.ledger, { key: paid });
  await first.ledger.settle(claim, { state: 'COMPLETED', transactionId: claim.transactionId }, HOUR_MS);
  await first.close();

  const ahead = await openAt(dataDir, DAY_MS);
  expect(await ahead.keys.look(unpaid)).toEqual({ state: 'absent' });
  expect(await ahead.ledger.find(paid)).toEqual({ state: 'expired' });
  await ahead.close();

  for (const aheadMs of [0, -DAY_MS]) {
    const { warnings, close, ...ports } = await openAt(dataDir, aheadMs);
    const { payments, processor } = compose(ports);
    for (const key of [unpaid, paid]) {
      expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'invalid key' });
      expect(processor.chargesOf(key)).toEqual([]);
    }
    expect(warnings).toEqual([expect.stringMatching(/^The store's clock is \d+ s ahead of this machine's/)]);
    await close();
  }
});

/** By each way to a refusal, with no other commit that would have written the time. */
test.each([
  ['looking at its record', async ({ keys }, key) => expect(await keys.look(key)).toEqual({ state: 'absent' })],
  [
    'beginning its payment',
    async ({ keys }, key) => {
      const attempt = { key, owner: newOwner(), leaseMs: LONG_MS, fingerprint: '1.00 USD', client: undefined };
      expect(await keys.begin(attempt)).toEqual({ state: 'absent' });
    },
  ],
  ['reading its row', async ({ ledger }, key) => expect(await ledger.find(key)).toEqual({ state: 'expired' })],
] as [string, (ports: Awaited<ReturnType<typeof openWithWarnings>>, key: string) => Promise<void>][])(
  'a refusal after %s is told only when a time past the end of the key is on the disk',
  async (_what, refuse) => {
    const dataDir = await newFolder();
    const first = await openAt(dataDir, 0);
    const key = newKey();
    await first.keys.issue(key, HOUR_MS);
    const claim = await givenClaim(first.ledger, { key });
    await first.ledger.settle(claim, { state: 'COMPLETED', transactionId: claim.transactionId }, HOUR_MS);
    await first.close();
    // Just before the end: the start itself writes no time past it.
    const clock = new WrongClock();
    clock.aheadMs = HOUR_MS - 5_000;
    const second = await openWithWarnings(dataDir, clock);
    const before = second.clock.now();
    clock.stoodStillMs = -10_000;
    expect(second.clock.now()).toBeGreaterThan(before + 9_000);
    await refuse(second, key);
    await second.close();
    const third = await openAt(dataDir, 0);
    expect(await third.ledger.find(key)).toEqual({ state: 'expired' });
  },
);

test('a charge is sent again only where both clocks say that it is recent enough', async () => {
  const dataDir = await newFolder();
  const clock = new WrongClock();
  const ports = await openWithWarnings(dataDir, clock);
  const { payments, processor, recovery, unknownPayment } = compose(ports, { dedupMs: HOUR_MS, clock });
  const key = await unknownPayment('none');
  const sent = processor.chargesOf(key).length;
  // The machine was suspended: its monotonic clock, and so the store's, stood still.
  clock.aheadMs = 2 * HOUR_MS;
  expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
  await recovery.runOnce();
  expect(processor.chargesOf(key)).toHaveLength(sent);
  expect(await ports.ledger.countAbandoned(HOUR_MS, HOUR_MS)).toBe(1);
});

test('a claim of a key whose outcome has expired writes the time by which it is refused', () => {
  const database = new DatabaseSync(':memory:');
  onTestFinished(() => database.close());
  migrate(database);
  const clock = new HandClock(Date.now());
  const storeClock = new StoreClock(clock, 0);
  const lastCommit = new LastCommit(database, storeClock);
  const commit = createBatchCommits(database, createWriteOperations(database, lastCommit, storeClock.now), lastCommit);
  const outcome = { state: 'COMPLETED', transactionId: 'TXN1' } as const;
  const attempt = claimAttempt({ transactionId: 'TXN1', settleAs: { outcome, idempotencyTtlMs: HOUR_MS } });
  const claim = () => {
    const input = { ...attempt, claimBefore: clock.now(), wallMs: clock.now() };
    return commit([{ names: ['claim'], inputs: [input] }])[0]?.values[0];
  };
  const endsAt = claim();
  expect(endsAt).toBe(clock.now() + HOUR_MS);
  clock.advance(HOUR_MS + 1);
  expect(claim()).toEqual({ state: 'expired' });
  expect(readLastCommit(database).clockMs).toBeGreaterThan(Number(endsAt));
});

test('a payment of before a suspend says when it may be resolved, by the wall clock, as its resolution judges it', async () => {
  const { ledger, paymentHistory, clock } = await openAt(await newFolder(), 0);
  const claim = await givenClaim(ledger);
  await ledger.abandon(claim, 0);
  const resolution = { owner: newOwner(), state: 'DECLINED', reason: 'not on the statement' } as const;
  const resolve = () => ledger.resolve({ ...resolution, key: claim.key, dedupMs: HOUR_MS, idempotencyTtlMs: DAY_MS });
  const countsFrom = async () => {
    const life = await paymentHistory.findLife(claim.key);
    return (life?.resolutionCountsFrom ?? 0) - (life?.payment.claimedAt ?? 0);
  };
  expect(await countsFrom()).toBe(0);
  expect(await resolve()).toMatchObject({ state: 'too early' });
  clock.aheadMs += HOUR_MS + 1_000;
  expect(await countsFrom()).toBeLessThanOrEqual(-HOUR_MS);
  expect(await resolve()).toMatchObject({ state: 'resolved' });
});
