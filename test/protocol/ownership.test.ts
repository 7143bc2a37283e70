import { describe, expect, test } from 'vitest';
import { decoratedEach } from '#idempay/platform/decorated.js';
import { newKey, newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { compose, MONEY, NO_MONEY, readyToWait, shareProtocol } from '../../testkit/protocol/payment-composition.js';

const OWNER = 'key:shop';
const OTHER = 'key:rival';
const DAY_MS = 86_400_000;
const { ports } = await shareProtocol();

/** The operations that reach a port, by name, in their order. */
function recorded<P extends object>(real: P, calls: string[]): P {
  return decoratedEach(real, (next, name) => (...parameters: unknown[]) => {
    calls.push(String(name));
    return next(...parameters);
  });
}

describe("another client's key (rule A5)", () => {
  const calls: string[] = [];
  const process = compose({
    keys: recorded(ports.keys, calls),
    ledger: recorded(ports.ledger, calls),
    refunds: recorded(ports.refunds, calls),
    paymentHistory: recorded(ports.paymentHistory, calls),
    settlements: ports.settlements,
  });
  const { payments, records, findTimeline, processor } = process;

  const unpaid = async () => payments.issueKey(OWNER);
  const paid = async () => {
    const key = await unpaid();
    await payments.pay({ key, client: OWNER }, MONEY);
    return key;
  };
  const locked = async () => {
    const key = await unpaid();
    await ports.keys.begin({ key, owner: 'another process', leaseMs: 60_000, fingerprint: '1.00 USD' });
    return key;
  };

  test.each<[string, (key: string) => unknown]>([
    ['a payment', (key) => payments.pay({ key, client: OTHER }, MONEY)],
    ['a payment that would wait', (key) => payments.pay({ key, client: OTHER }, MONEY, readyToWait())],
    ['a payment of nothing', (key) => payments.pay({ key, client: OTHER }, NO_MONEY)],
    ['a cancellation', (key) => payments.cancel({ key, client: OTHER })],
    ['a status', (key) => payments.outcome(key, OTHER)],
    ['a look', (key) => records.get(key, OTHER)],
    ['a timeline', (key) => findTimeline(key, OTHER)],
  ])('%s is answered as an unknown one is, and asks the stores the same', async (_what, question) => {
    const answersAndCalls = async (key: string) => {
      calls.length = 0;
      return [await question(key), [...calls]];
    };
    const unknown = await answersAndCalls(newKey());
    expect(unknown[1]).not.toEqual([]);
    for (const arrange of [unpaid, paid, locked]) {
      const key = await arrange();
      const charged = processor.charges.length;
      expect(await answersAndCalls(key)).toEqual(unknown);
      expect(processor.charges).toHaveLength(charged);
    }
  });

  test.each([1, 365])(
    'a look at one of %s days ago is answered alike, whether it was paid, expired or never issued',
    async (days) => {
      const old = () => newKeyOf(Date.now() - days * DAY_MS);
      const look = async (key: string) => {
        calls.length = 0;
        return [await records.get(key, OTHER), [...calls]];
      };
      const unknown = await look(old());
      const [unpaidKey, paidKey] = [old(), old()];
      for (const key of [unpaidKey, paidKey]) await ports.keys.issue(key, 60_000, { client: OWNER });
      await payments.pay({ key: paidKey, client: OWNER }, MONEY);
      for (const key of [unpaidKey, paidKey]) expect(await look(key)).toEqual(unknown);
      expect(await records.get(paidKey, OWNER)).toMatchObject({ state: 'COMPLETED' });
    },
  );

  test('is paid by its own client afterwards, and replayed to it', async () => {
    const key = await unpaid();
    await payments.pay({ key, client: OTHER }, MONEY);
    expect(await payments.pay({ key, client: OWNER }, MONEY)).toMatchObject({ state: 'processed' });
    expect(await payments.pay({ key, client: OWNER }, MONEY)).toMatchObject({ state: 'replayed' });
  });
});

test("a payment that recovery or a takeover ends stays its client's", async () => {
  const first = compose(ports);
  const key = await first.payments.issueKey(OWNER);
  first.processor.plan({ outcome: 'succeeded', answerLost: true });
  expect(await first.payments.pay({ key, client: OWNER }, MONEY)).toMatchObject({ state: 'unknown' });
  expect(await first.payments.pay({ key, client: OWNER }, MONEY)).toMatchObject({ final: { client: OWNER } });
  expect(await ports.ledger.find(key, OTHER)).toEqual({ state: 'absent' });
  expect(await ports.keys.look(key, OTHER)).toEqual({ state: 'absent' });
});
