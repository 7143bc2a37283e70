import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { StoreUnavailable } from '#idempay/faults.js';
import { givenClaim, LONG_MS, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { type Composition, compose } from '../../testkit/protocol/payment-composition.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { RecordingProcessor } from '../../testkit/protocol/recording-processor.js';
import { until } from '../../testkit/time/until.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Recovery: what a dead owner left PROCESSING is finished by whoever is alive, once, under the id it had (protocol, step 6). */

const MONEY = { amount: '100.50', currency: 'USD' };
const FULL = new StoreUnavailable('unchanged', 'the disk is full');
const DEADLINE_MS = 15_000;
/** More than recovery takes over at a time. */
const MANY = 150;

describe('recovery', () => {
  let ports: Ports;

  beforeAll(async () => {
    ports = await openEmbeddedPorts();
  });
  afterAll(() => ports.close());

  function given(settings: Parameters<typeof compose>[2] = {}): { processor: RecordingProcessor } & Composition {
    const processor = new RecordingProcessor(newProcessorName());
    return { processor, ...compose(ports, processor, settings) };
  }

  /** A payment whose first attempt ended without knowing the outcome. */
  async function givenUnknown(
    { payments, processor }: ReturnType<typeof given>,
    outcome: 'succeeded' | 'declined' | 'none',
  ): Promise<string> {
    const key = await payments.issueKey();
    processor.plan({ outcome, answerLost: true });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    return key;
  }

  /** Claims whose owners have died, with nothing charged. */
  async function givenAbandoned(processor: string, count: number): Promise<string[]> {
    const claims = await Promise.all(Array.from({ length: count }, () => givenClaim(ports.ledger, { processor })));
    await Promise.all(claims.map((claim) => ports.ledger.abandon(claim, 0)));
    return claims.map(({ key }) => key);
  }

  test('finishes what the processor already has without charging again, and the payment gives repeats only', async () => {
    const process = given();
    const key = await givenUnknown(process, 'succeeded');
    expect(await process.recovery.runOnce()).toBe(1);
    const transactionId = process.processor.charges[0]?.transactionId;
    for (let repeat = 0; repeat < 2; repeat += 1) {
      expect(await process.payments.pay(key, MONEY)).toMatchObject({
        state: 'replayed',
        final: { outcome: { state: 'COMPLETED', transactionId } },
      });
    }
    expect(process.processor.charges).toHaveLength(1);
  });

  test('finishes what the processor has declined, and the payment gives repeats only', async () => {
    const process = given();
    const key = await givenUnknown(process, 'declined');
    expect(await process.recovery.runOnce()).toBe(1);
    expect(await process.payments.pay(key, MONEY)).toMatchObject({
      state: 'replayed',
      final: { outcome: { state: 'DECLINED' } },
    });
    expect(process.processor.charges).toHaveLength(1);
  });

  test('sends what never arrived, once, with the transaction id and the money of the row', async () => {
    const { processor, recovery, payments } = given();
    const claim = await givenClaim(ports.ledger, { processor: processor.name, amount: '7.00', currency: 'EUR' });
    await ports.ledger.abandon(claim, 0);
    expect(await recovery.runOnce()).toBe(1);
    const { key, transactionId } = claim;
    expect(processor.lookUps).toEqual([key]);
    expect(processor.charges).toEqual([{ reference: key, transactionId, amount: '7.00', currency: 'EUR' }]);
    expect(await payments.pay(key, MONEY)).toMatchObject({ state: 'replayed', final: { outcome: { transactionId } } });
  });

  test('leaves payments under a live lease, final ones and those of another processor alone', async () => {
    const { processor, recovery, payments } = given();
    const living = await givenClaim(ports.ledger, { processor: processor.name });
    const strangers = await givenAbandoned(newProcessorName(), 1);
    await payments.pay(await payments.issueKey(), MONEY);
    expect(await recovery.runOnce()).toBe(0);
    expect(processor.lookUps).toEqual([]);
    expect(await ports.ledger.find(living.key)).toMatchObject({ state: 'under way' });
    expect(await ports.ledger.find(strangers[0] ?? '')).toMatchObject({ state: 'abandoned' });
  });

  test('finishes all of many in one run, each charged once', async () => {
    const { processor, recovery } = given();
    const keys = await givenAbandoned(processor.name, MANY);
    expect(await recovery.runOnce()).toBe(MANY);
    expect(processor.charges.map(({ reference }) => reference).sort()).toEqual(keys.sort());
    expect(await recovery.runOnce()).toBe(0);
  });

  test('of two processes at once each finishes its own part, and nothing is charged twice', async () => {
    const { processor, recovery } = given();
    const other = compose(ports, processor);
    const keys = await givenAbandoned(processor.name, MANY);
    const finished = await Promise.all([recovery.runOnce(), other.recovery.runOnce()]);
    expect(finished[0] + finished[1]).toBe(MANY);
    expect(processor.charges.map(({ reference }) => reference).sort()).toEqual(keys.sort());
  });

  test('leaves what is still unclear to the next run, which asks again', async () => {
    const process = given();
    const key = await givenUnknown(process, 'succeeded');
    process.processor.planLookUp(async () => ({ state: 'unknown', cause: 'no answer' }));
    expect(await process.recovery.runOnce()).toBe(0);
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'abandoned' });
    expect(await process.recovery.runOnce()).toBe(1);
    expect(process.processor.charges).toHaveLength(1);
  });

  test('leaves a payment alone for as long as its age says, whoever gave it up', async () => {
    const processor = new RecordingProcessor(newProcessorName());
    const ages: number[] = [];
    const recoverAfterMs = (ageMs: number) => {
      ages.push(ageMs);
      return ages.length < 3 ? 0 : LONG_MS;
    };
    const { payments, recovery } = compose(ports, processor, { recoverAfterMs });
    const key = await payments.issueKey();
    processor.plan({ outcome: 'none' }, { outcome: 'none' }, { outcome: 'none' });
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
    await untilPast(SHORT_MS);
    expect(await payments.pay(key, MONEY)).toEqual({ state: 'unknown' });
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
    const { name } = new RecordingProcessor(newProcessorName());
    await givenAbandoned(name, MANY);
    await untilPast(SHORT_MS);
    const processor = new RecordingProcessor(name, SHORT_MS);
    let patienceMs = LONG_MS;
    const { recovery, payments } = compose(ports, processor, { recoverAfterMs: () => patienceMs });
    expect(await recovery.runOnce(), 'finished of those that stay unclear').toBe(0);
    patienceMs = 0;

    const key = await payments.issueKey();
    processor.plan({ outcome: 'succeeded', answerLost: true });
    await payments.pay(key, MONEY);
    for (let run = 0; run < 5; run += 1) await recovery.runOnce();
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'final' });
  });

  test('a payment whose settle fails is reported, and does not keep the others from being finished', async () => {
    const { processor, recovery, ledger, faults } = given();
    const keys = await givenAbandoned(processor.name, 3);
    ledger.failNext('settle', FULL);
    expect(await recovery.runOnce()).toBe(2);
    expect(faults).toMatchObject([{ effect: 'unknown', cause: FULL }]);
    expect(await recovery.runOnce()).toBe(1);
    expect(processor.charges.map(({ reference }) => reference).sort()).toEqual(keys.sort());
  });

  test('start finishes what is there before it resolves, and stop begins nothing more', async () => {
    const { processor, recovery } = given();
    const [key = ''] = await givenAbandoned(processor.name, 1);
    await recovery.start(LONG_MS);
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'final' });
    await recovery.stop();
    await givenAbandoned(processor.name, 1);
    expect(await recovery.runOnce()).toBe(0);
  });

  test('start waits for a slow processor no longer than it is told, and the round goes on behind it', async () => {
    const { processor, recovery } = given();
    const [key = ''] = await givenAbandoned(processor.name, 1);
    let answer = () => {};
    const after = new Promise<void>((resolve) => {
      answer = resolve;
    });
    processor.plan({ outcome: 'succeeded', after });
    await recovery.start(SHORT_MS);
    expect(await ports.ledger.find(key)).toMatchObject({ state: 'under way' });
    answer();
    await until('the payment to be finished', DEADLINE_MS, async () => {
      return (await ports.ledger.find(key)).state === 'final';
    });
    await recovery.stop();
  });

  test('a round that fails is reported, and the next one comes by itself', async () => {
    const { processor, recovery, ledger, faults } = given();
    const [key = ''] = await givenAbandoned(processor.name, 1);
    ledger.failNext('takeOverAbandoned', FULL);
    await recovery.start(LONG_MS);
    expect(faults).toEqual([FULL]);
    await until('the next round to finish the payment', DEADLINE_MS, async () => {
      return (await ports.ledger.find(key)).state === 'final';
    });
    await recovery.stop();
    expect(processor.charges).toHaveLength(1);
  });
});
