import { describe, expect, test } from 'vitest';
import { gate } from '../../testkit/concurrency.js';
import { LONG_MS, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import {
  AWAY,
  type Composition,
  MONEY,
  OTHER_MONEY,
  shareProtocol,
} from '../../testkit/protocol/payment-composition.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until, untilPast } from '../../testkit/time/until.js';

/** What an attempt left PROCESSING is finished once, under the id it had: by a repeat or by recovery (protocol, step 6). */

const DEADLINE_MS = 15_000;
/** More than two processes take over at a time. */
const MANY = 150;

const { ports, compose, ...given } = await shareProtocol();

/** Claims whose owners have died, with nothing charged. */
async function givenAbandoned({ name }: RecordingProcessor, count: number): Promise<[string, ...string[]]> {
  const claims = await Promise.all(Array.from({ length: count }, () => given.abandoned({ processor: name })));
  return claims.map(({ key }) => key).sort() as [string];
}

const references = ({ charges }: RecordingProcessor) => charges.map(({ reference }) => reference).sort();
const stateOf = async (key: string) => (await ports.ledger.find(key)).state;

async function untilFinal(key: string): Promise<void> {
  await until('the payment to be finished', DEADLINE_MS, async () => (await stateOf(key)) === 'final');
}

/** The first repeat of a payment gives the first answer; recovery gives none. */
async function finishBy(by: 'a repeat' | 'recovery', { payments, recovery }: Composition, key: string): Promise<void> {
  if (by === 'recovery') expect(await recovery.runOnce()).toBe(1);
  else expect(await payments.pay(key, OTHER_MONEY)).toMatchObject({ state: 'processed' });
}

describe('an outcome that is not known', () => {
  test.each([
    ['a repeat', 'succeeded'],
    ['a repeat', 'declined'],
    ['recovery', 'succeeded'],
    ['recovery', 'declined'],
  ] as const)('ends lease and lock, and %s looks up that it has %s and sends nothing', async (by, at) => {
    const process = compose();
    const { payments, processor, unknownPayment } = process;
    const key = await unknownPayment(at);
    expect(await given.statesOf(key)).toEqual(['generated', 'abandoned']);
    await finishBy(by, process, key);
    const { transactionId } = processor.charges[0] ?? {};
    const outcome = at === 'succeeded' ? { state: 'COMPLETED', transactionId } : { state: 'DECLINED' };
    for (let repeat = 0; repeat < 2; repeat += 1)
      expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final: { outcome } });
    expect([processor.charges.length, processor.lookUps]).toEqual([1, [key]]);
  });

  test.each(['a repeat', 'recovery'] as const)(
    'of a charge that never arrived: %s sends it, once, with the id and the money of the row',
    async (by) => {
      const process = compose();
      const { payments, processor } = process;
      const money = { amount: '7.00', currency: 'EUR' };
      const { key, transactionId } = await given.abandoned({ processor: processor.name, ...money });
      await ports.keys.issue(key, LONG_MS);
      await finishBy(by, process, key);
      expect(processor.lookUps).toEqual([key]);
      expect(processor.charges).toEqual([{ reference: key, transactionId, ...money }]);
      const final = { outcome: { transactionId }, fingerprint: '7.00 EUR' };
      expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final });
    },
  );

  test('is finished by a repeat with another amount, which is a mismatch where that is rejected', async () => {
    const { payments, processor, unknownPayment } = compose({ payloadMismatch: 'reject' });
    const key = await unknownPayment('none');
    expect(await payments.pay(key, OTHER_MONEY)).toEqual({ state: 'mismatch' });
    expect(processor.charges).toMatchObject([MONEY]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed' });
  });

  test('stays unknown while the look-up is unclear too, and nothing is sent', async () => {
    const { payments, recovery, processor, unknownPayment } = compose();
    const key = await unknownPayment('none');
    const unclear = { state: 'unknown', cause: 'no answer' } as const;
    processor.planLookUp(unclear, unclear);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(await recovery.runOnce()).toBe(0);
    expect([processor.charges, await stateOf(key)]).toEqual([[], 'abandoned']);
    expect(await recovery.runOnce()).toBe(1);
    expect(processor.charges).toHaveLength(1);
  });

  // Also one whose former name is the beginning of the name in the row (decision P14).
  test('is left alone by an instance with another processor, or another account at the same', async () => {
    const name = newProcessorName();
    const owner = compose({}, new RecordingProcessor(`${name}?account=b`));
    const key = await owner.unknownPayment('succeeded');
    const otherAccount = new RecordingProcessor(`${name}?account=a`, undefined, name);
    for (const stranger of [compose(), compose({}, otherAccount)]) {
      expect(await stranger.payments.pay(key, MONEY)).toMatchObject({ state: 'in progress' });
      expect(await stranger.recovery.runOnce()).toBe(0);
      expect([stranger.processor.charges, stranger.processor.lookUps]).toEqual([[], []]);
    }
    expect(await owner.payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });
});

/**
 * Bug: a row named its processor without the account, so an instance with another account took it over, found no record
 * there, and charged the second account. Fix: names have the account (decision P14). Rows of the time before have a name
 * without it: they are looked up, and never sent again.
 */
describe('a payment under the former name of its processor', () => {
  async function givenFormer(charged: boolean) {
    const formerName = newProcessorName();
    const processor = new RecordingProcessor(`${formerName}?account=a`, undefined, formerName);
    const claim = await given.abandoned({ processor: formerName, key: await given.issuedKey() });
    const { key, transactionId } = claim;
    if (charged) await processor.charge({ reference: key, ...claim });
    return { ...compose({ dedupMs: 0 }, processor), key, transactionId };
  }

  test.each(['a repeat', 'recovery'] as const)(
    'is finished by %s when the processor has a record of it',
    async (by) => {
      const { key, transactionId, ...process } = await givenFormer(true);
      await finishBy(by, process, key);
      expect(await process.payments.outcome(key)).toMatchObject({ outcome: { transactionId } });
      expect(process.processor.charges).toHaveLength(1);
    },
  );

  test('is never sent again without a record, by a repeat or by recovery', async () => {
    const { recovery, payments, processor, key, unknown } = await givenFormer(false);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    expect(await recovery.runOnce()).toBe(0);
    expect([processor.lookUps, processor.charges]).toEqual([[key, key], []]);
    expect(unknown[0]?.cause).toContain('by a version that did not store the account');
  });

  test('is looked up before an operator resolves it', async () => {
    const verdict = { state: 'DECLINED', reason: 'not on the statement' } as const;
    const [charged, unsent] = [await givenFormer(true), await givenFormer(false)];
    await untilPast(1);
    const kept = { state: 'final', payment: { state: 'COMPLETED' } };
    expect(await charged.records.resolve(charged.key, verdict)).toMatchObject(kept);
    expect(await unsent.records.resolve(unsent.key, verdict)).toMatchObject({ state: 'resolved' });
  });
});

describe('recovery', () => {
  test('finishes all of many in one run, shared by two processes, each charged once', async () => {
    const { processor, recovery, another } = compose();
    const keys = await givenAbandoned(processor, MANY);
    const [one, other] = await Promise.all([recovery.runOnce(), another().recovery.runOnce()]);
    expect(one + other).toBe(MANY);
    expect(references(processor)).toEqual(keys);
    expect(await recovery.runOnce()).toBe(0);
  });

  test('leaves a payment alone for as long as its age says, whichever attempt gave it up', async () => {
    const ages: number[] = [];
    const recoverAfterMs = (ageMs: number) => {
      ages.push(ageMs);
      return ages.length < 3 ? 0 : LONG_MS;
    };
    const { payments, recovery, processor, unknownPayment } = compose({ recoverAfterMs });
    const key = await unknownPayment('none');
    await untilPast(SHORT_MS);
    processor.plan({ outcome: 'none' }, { outcome: 'none' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    await untilPast(SHORT_MS);
    expect(await recovery.runOnce()).toBe(0);
    expect(ages).toHaveLength(3);
    expect(ages).toEqual(ages.toSorted((a, b) => a - b));
    expect(ages[1]).toBeGreaterThanOrEqual(SHORT_MS);
    // Recovery is patient now; a repeat of the payer is not kept waiting by that.
    expect(await recovery.runOnce()).toBe(0);
    expect(processor.lookUps).toHaveLength(2);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'processed' });
  });

  // Payments without a record that are too old to be sent again stay unclear until an operator resolves them.
  test('is not kept from the others by payments that stay unclear, however many those are', async () => {
    let patienceMs = LONG_MS;
    const settings = { dedupMs: SHORT_MS, recoverAfterMs: () => patienceMs };
    const { processor, recovery, unknownPayment } = compose(settings);
    await givenAbandoned(processor, MANY);
    await untilPast(SHORT_MS);
    expect(await recovery.runOnce(), 'finished of those that stay unclear').toBe(0);
    patienceMs = 0;
    const key = await unknownPayment('succeeded');
    for (let run = 0; run < 5; run += 1) await recovery.runOnce();
    expect(await stateOf(key)).toBe('final');
  });

  test('reports a payment whose settle fails, and finishes the others all the same', async () => {
    const { processor, recovery, ledger, faults } = compose();
    const keys = await givenAbandoned(processor, 3);
    ledger.failNext('settle', AWAY);
    expect(await recovery.runOnce()).toBe(2);
    expect(faults).toMatchObject([{ effect: 'unknown', cause: AWAY }]);
    expect(await recovery.runOnce()).toBe(1);
    expect(references(processor)).toEqual(keys);
  });

  test('finishes what is there before start resolves, and begins nothing more after stop', async () => {
    const { processor, recovery } = compose();
    const [key] = await givenAbandoned(processor, 1);
    await recovery.start(LONG_MS);
    expect(await stateOf(key)).toBe('final');
    await recovery.stop();
    await givenAbandoned(processor, 1);
    expect(await recovery.runOnce()).toBe(0);
  });

  test('waits at its start for a slow processor no longer than it is told, and the round goes on behind it', async () => {
    const { processor, recovery } = compose();
    const [key] = await givenAbandoned(processor, 1);
    const answer = gate();
    processor.plan({ outcome: 'succeeded', after: answer.opened });
    await recovery.start(SHORT_MS);
    expect(await stateOf(key)).toBe('under way');
    answer.open();
    await untilFinal(key);
    await recovery.stop();
  });

  test('reports a round that fails, and begins the next one by itself', async () => {
    const { processor, recovery, ledger, faults } = compose();
    const [key] = await givenAbandoned(processor, 1);
    ledger.failNext('takeOverAbandoned', AWAY);
    await recovery.start(LONG_MS);
    expect(faults).toEqual([AWAY]);
    await untilFinal(key);
    await recovery.stop();
    expect(processor.charges).toHaveLength(1);
  });
});
