import { describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { gate } from '../../testkit/concurrency.js';
import { LONG_MS, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  type Composition,
  DOWN,
  LOST,
  MONEY,
  readyToWait,
  shareProtocol,
} from '../../testkit/protocol/payment-composition.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { until, untilPast } from '../../testkit/time/until.js';

/**
 * The payment protocol when a store fails or a process stands still between two steps. Each test ends with one transaction id and at most
 * one charge.
 */

const DEADLINE_MS = 10_000;
const WAIT_MS = 1_000;
const FULL = new StoreUnavailable('unchanged', 'the disk is full');
const VERDICT = { state: 'DECLINED', reason: 'not on the statement' } as const;
const unwritten = (cause: Error) => ({ effect: 'unknown', cause });

const { compose, composeWithKey, statesOf } = await shareProtocol();

/** One charge, and its transaction id is what the outcome and every repeat name. */
async function expectPaidOnce(key: string, { processor, another }: Pick<Composition, 'processor' | 'another'>) {
  const [{ transactionId } = { transactionId: '' }] = processor.charges;
  expect(transactionId).toMatch(/^TXN\d+$/);
  const { payments } = another();
  expect((await payments.outcome(key))?.outcome).toEqual({ state: 'COMPLETED', transactionId });
  expect(await payments.pay({ key }, MONEY)).toMatchObject({
    state: 'replayed',
    final: { outcome: { transactionId } },
  });
  expect(processor.charges).toHaveLength(1);
}

type Fault = (process: Composition) => void;
const pauseAtClaim: Fault = ({ ledger }) =>
  ledger.interruptNext('claim', async (proceed) => {
    await untilPast(SHORT_MS);
    return proceed();
  });
function failSettleAndAbandon({ ledger }: Composition): void {
  for (const operation of ['settle', 'abandon', 'renew'] as const) ledger.failAll(operation, FULL);
}

/** `left`: what the key store and the row say when the lease has died. */
test.each<[title: string, fail: Fault, fault: object, charges: number, left: [string, string], leaseMs?: number]>([
  ['fails at begin', ({ keys }) => keys.failNext('begin', FULL), FULL, 0, ['generated', 'absent']],
  ['fails at the claim', ({ ledger }) => ledger.failNext('claim', FULL), FULL, 0, ['generated', 'absent']],
  ['is asked to claim too late', pauseAtClaim, { effect: 'unchanged' }, 0, ['generated', 'absent'], SHORT_MS],
  ['loses a claim', ({ ledger }) => ledger.loseNextAnswer('claim', LOST), LOST, 0, ['generated', 'abandoned']],
  [
    'fails at the settle',
    ({ ledger }) => ledger.failNext('settle', FULL),
    unwritten(FULL),
    1,
    ['generated', 'abandoned'],
  ],
  ['fails at settle and abandon', failSettleAndAbandon, unwritten(FULL), 1, ['generated', 'abandoned']],
  ['loses a settle', ({ ledger }) => ledger.loseNextAnswer('settle', LOST), unwritten(LOST), 1, ['generated', 'final']],
])(
  'a store that %s is a fault, and the next repeat finishes the payment once',
  async (_, fail, fault, charges, left, leaseMs = LONG_MS) => {
    const process = await composeWithKey({ leaseMs });
    const { processor, key } = process;
    fail(process);
    await expect(process.payments.pay({ key }, MONEY)).rejects.toMatchObject(fault);
    expect(processor.charges).toHaveLength(charges);
    process.ledger.heal();
    await process.endLease(key);
    expect(await statesOf(key)).toEqual(left);
    const { payments } = process.another();
    expect(await payments.pay({ key }, MONEY)).toMatchObject({ state: left[1] === 'final' ? 'replayed' : 'processed' });
    expect(processor.lookUps).toEqual(left[1] === 'abandoned' ? [key] : []);
    await expectPaidOnce(key, process);
  },
);

/**
 * Bug: a charge of unknown outcome was answered 503 "nothing was changed". Cause: the store failed in the look for another
 * attempt's outcome, and its fault was passed on. Fix: then the outcome is unknown, like before the look.
 */
test('a store that fails after a charge of unknown outcome leaves it unknown, never unchanged', async () => {
  const { payments, ledger, unknown, processor, key } = await composeWithKey();
  processor.plan({ outcome: 'succeeded', answerLost: true });
  for (const operation of ['find', 'abandon'] as const) ledger.failAll(operation, FULL);
  expect(await payments.pay({ key }, MONEY)).toEqual({ state: 'unknown' });
  expect(unknown).toMatchObject([{ key, cause: 'the answer was lost' }]);
});

describe('an owner', () => {
  /** Its charge is with the processor, its lease dies, and it hears nothing until `finish`. */
  async function givenFrozenWhileCharging() {
    const frozen = compose();
    const charging = await frozen.chargingPayment();
    await frozen.endLease(charging.key);
    expect(await statesOf(charging.key)).toEqual(['generated', 'abandoned']);
    return { ...frozen, ...charging };
  }

  test('that lost its payment while it charged answers the outcome of the winner, also where its own differs', async () => {
    const { key, answer, finish, processor, another } = await givenFrozenWhileCharging();
    processor.planLookUp({ state: 'declined', reason: 'insufficient funds' });
    const winner = await another().payments.pay({ key }, MONEY);
    expect(winner).toMatchObject({ state: 'processed', final: { outcome: { state: 'DECLINED' } } });
    finish();
    expect(await answer).toEqual({ ...winner, state: 'replayed' });
  });

  test('that lost its payment answers unknown while the winner is at work, and leaves the lock of the winner', async () => {
    const { key, answer, finish, ...process } = await givenFrozenWhileCharging();
    const found = gate();
    process.processor.planLookUp(() => found.opened.then(() => ({ state: 'succeeded' })));
    const winner = process.another().payments.pay({ key }, MONEY);
    await until('the winner to look it up', DEADLINE_MS, () => process.processor.lookUps.length === 1);
    finish();
    expect(await answer).toEqual({ state: 'unknown' });
    expect(await statesOf(key)).toEqual(['locked', 'under way']);
    found.open();
    expect(await winner).toMatchObject({ state: 'processed' });
    await expectPaidOnce(key, process);
  });

  type End = (process: Composition, key: string) => unknown;
  const pays: End = ({ another }, key) => another().payments.pay({ key }, MONEY);
  const declines: End = ({ another }, key) => another({ dedupMs: 0 }).records.resolve(key, VERDICT);
  // The protocol, step 4: a fenced-off owner answers the outcome of the winner, also when it never sent anything.
  test.each([
    ['before its claim', 'another attempt pays', pays, 'COMPLETED', 1],
    ['after its claim', 'another attempt pays', pays, 'COMPLETED', 1],
    ['after its claim', 'an operator declines', declines, 'DECLINED', 0],
  ] as const)('that lost its lease %s sends nothing when %s', async (when, _what, end, state, charges) => {
    const leaseMs = when === 'after its claim' ? LONG_MS : SHORT_MS;
    const clock = new HandClock(Date.now());
    const { key, ...process } = await composeWithKey({ leaseMs, clock });
    process.ledger.interruptNext('claim', async (proceed) => {
      const claimed = when === 'after its claim' && (await proceed());
      if (claimed) await process.endLease(key);
      else await untilPast(leaseMs);
      clock.leap(leaseMs);
      await end(process, key);
      return claimed || proceed();
    });
    const answer = await process.payments.pay({ key }, MONEY);
    expect(answer).toEqual({ state: 'replayed', final: await process.payments.outcome(key) });
    expect(answer).toMatchObject({ final: { outcome: { state } } });
    expect(process.processor.charges).toHaveLength(charges);
  });
});

/**
 * Bug: a request that had charged was answered that it changed nothing. Cause: while it waited, a later try met a store that was down, and this
 * fault took the place of the first one. Fix: an unknown write stays unknown.
 */
test('a request that waits is not told that nothing was changed after one of its tries has charged', async () => {
  const { payments, keys, ledger, processor } = compose();
  const key = await payments.issueKey();
  keys.interruptNext('begin', async () => ({ state: 'locked', fingerprint: '', heldMs: 1, remainingMs: 1 }));
  ledger.interruptNext('settle', () => {
    keys.failAll('begin', DOWN);
    ledger.failAll('find', DOWN);
    ledger.failAll('settle', DOWN);
    return Promise.reject(LOST);
  });
  const paying = payments.pay({ key }, MONEY, readyToWait(WAIT_MS));
  await expect(paying).rejects.toMatchObject({ effect: 'unknown' });
  expect(processor.chargesOf(key)).toHaveLength(1);
});
