import { expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { DECLINED, LONG_MS, newOwner, newProcessorName, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * What every Ledger guarantees of `takeOverAbandoned` and `countAbandoned` beyond their types:
 *
 *  1. It takes over PROCESSING rows with a dead lease, and no others: not the living, not the final.
 *  2. It takes over rows of the given processor only.
 *  3. It takes over at most `limit` rows, those longest due first, so that none waits for ever behind others.
 *  4. Two at once never get the same row, and together they get every row.
 *  5. Each row taken over has one epoch more, the new owner and lease, and its own values.
 *  6. What was given up with a back-off is not due before it is over; `claim` and `takeOver` may take it at once.
 *  7. Counted are rows that are PROCESSING with a dead lease and old enough, due or not; and no others.
 */
export function ledgerRecoveryContract(ports: ContractPorts): void {
  const { ledger, pass } = ports;
  const given = paymentSteps(ports);

  /** Claims of one processor, given up by their owners one after the other, each a while after the one before. */
  async function givenAbandoned(count: number, processor: string): Promise<Claim[]> {
    const claims = await given.claims(count, { processor });
    // Not in the order of the keys, or the order of the keys alone could pass for the order of time.
    claims.sort((a, b) => (a.key < b.key ? 1 : -1));
    for (const claim of claims) {
      await ledger.abandon(claim, 0);
      await pass(1);
    }
    return claims;
  }

  function takeOverAbandoned(processor: string, limit: number, leaseMs = LONG_MS, owner = newOwner()) {
    return ledger.takeOverAbandoned({ owner, leaseMs, processor, limit });
  }

  const keysOf = (claims: readonly Claim[]) => claims.map(({ key }) => key).sort();

  test('1: dead leases are taken over; living leases and final payments are left alone', async () => {
    const processor = newProcessorName();
    const living = await given.claim({ processor });
    const final = await given.claim({ processor, leaseMs: SHORT_MS });
    await given.settled(final);
    const dead = await given.deadClaim({ processor });
    expect(keysOf(await takeOverAbandoned(processor, 10))).toEqual([dead.key]);
    expect(await ledger.renew(living, LONG_MS)).toBe(true);
    expect(await ledger.find(final.key)).toMatchObject({ state: 'final' });
  });

  test('1, 6: what was taken over, by recovery or before its back-off was over, is due when its new lease dies', async () => {
    const { key, processor, ...claim } = await given.abandoned({ processor: newProcessorName() }, LONG_MS);
    await given.takeover({ key, processor, ...claim }, { leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    expect(await takeOverAbandoned(processor, 10, SHORT_MS)).toMatchObject([{ key, epoch: 3 }]);
    await pass(SHORT_MS);
    expect(await takeOverAbandoned(processor, 10)).toMatchObject([{ key, epoch: 4 }]);
    expect(await takeOverAbandoned(processor, 10)).toEqual([]);
  });

  test('2: payments of the processor are taken over, under its own name and a former one, and no others', async () => {
    const [processor, formerProcessor] = [newProcessorName(), newProcessorName()];
    const abandoned = [...(await givenAbandoned(1, processor)), ...(await givenAbandoned(1, formerProcessor))];
    expect(await takeOverAbandoned(newProcessorName(), 10)).toEqual([]);
    const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor, formerProcessor, limit: 10 };
    expect(keysOf(await ledger.takeOverAbandoned(takeover))).toEqual(keysOf(abandoned));
  });

  test('3: a limit is kept, and the next call gets the rest', async () => {
    const processor = newProcessorName();
    const abandoned = await givenAbandoned(5, processor);
    const first = await takeOverAbandoned(processor, 3);
    const second = await takeOverAbandoned(processor, 3);
    expect([first.length, second.length]).toEqual([3, 2]);
    expect(keysOf([...first, ...second])).toEqual(keysOf(abandoned));
  });

  test.each<[what: string, arrange: (processor: string) => Promise<readonly Claim[]>]>([
    [
      'a lease that ended sooner',
      async (processor) => {
        const later = await given.claim({ processor, leaseMs: 5 * SHORT_MS });
        const sooner = await given.claim({ processor, leaseMs: SHORT_MS });
        await pass(5 * SHORT_MS);
        return [sooner, later];
      },
    ],
    ['a payment that was given up first', (processor) => givenAbandoned(3, processor)],
    [
      'a payment whose back-off was over first',
      async (processor) => {
        const [longer, shorter] = (await given.claims(2, { processor })) as [Claim, Claim];
        await Promise.all([ledger.abandon(longer, 5 * SHORT_MS), ledger.abandon(shorter, SHORT_MS)]);
        await pass(5 * SHORT_MS);
        return [shorter, longer];
      },
    ],
    [
      'a payment that is due, and not one given up before it whose back-off is not over,',
      async (processor) => {
        const backedOff = await given.abandoned({ processor }, LONG_MS);
        expect(await ledger.find(backedOff.key)).toEqual({ state: 'abandoned' });
        return [await given.abandoned({ processor })];
      },
    ],
  ])('3, 6: %s is taken first, also when each is given up again', async (_what, arrange) => {
    const processor = newProcessorName();
    for (const { key } of await arrange(processor)) {
      const [claim] = await takeOverAbandoned(processor, 1);
      expect(claim?.key).toBe(key);
      await ledger.abandon(claim as Claim, 0);
      await pass(1);
    }
  });

  test('4: two at once never get the same row, and together they get every row', async () => {
    const processor = newProcessorName();
    const claims = await given.claims(60, { processor });
    await Promise.all(claims.map((claim) => ledger.abandon(claim, 0)));
    const taken = (await Promise.all(Array.from({ length: 6 }, () => takeOverAbandoned(processor, 20)))).flat();
    const rest = await takeOverAbandoned(processor, 60);
    expect(keysOf([...taken, ...rest])).toEqual(keysOf(claims));
  });

  test('5: each has one epoch more, the new owner and lease, and its own values', async () => {
    const processor = newProcessorName();
    const first = await given.deadClaim({ processor, amount: '7.00', currency: 'EUR' });
    const [taken] = (await takeOverAbandoned(processor, 10, LONG_MS, 'recovery')) as [Claim];
    expect({ ...taken, ageMs: 0 }).toEqual({ ...first, epoch: 2, owner: 'recovery', unsent: false });
    expect(taken.ageMs).toBeGreaterThanOrEqual(SHORT_MS);
    expect(await ledger.find(first.key)).toMatchObject({ state: 'under way' });
    expect(await ledger.settle(first, DECLINED, LONG_MS)).toEqual({ state: 'fenced off' });
  });

  test('7: counted is what has a dead lease, due or not; not the living, not the final, not the young', async () => {
    const before = await ledger.countAbandoned(0, 0);
    await given.abandoned({}, LONG_MS);
    await givenAbandoned(2, newProcessorName());
    await given.claim();
    await given.settled(await given.claim());
    await pass(1);
    expect(await ledger.countAbandoned(0, 0)).toBe(before + 3);
    expect(await ledger.countAbandoned(LONG_MS, LONG_MS)).toBe(0);
  });
}
