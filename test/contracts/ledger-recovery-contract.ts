import { describe, expect, test } from 'vitest';
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
export function describeLedgerRecoveryContract(ports: ContractPorts): void {
  describe('the ledger contract for recovery', () => {
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

    async function expectTakenOneByOne(expected: readonly Claim[], processor: string): Promise<void> {
      for (const { key } of expected) expect(await takeOverAbandoned(processor, 1)).toMatchObject([{ key }]);
    }

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

    test('1: what was taken over is no longer abandoned until its new lease dies', async () => {
      const { key, processor } = await given.abandoned({ processor: newProcessorName() });
      expect(await takeOverAbandoned(processor, 10, SHORT_MS)).toHaveLength(1);
      await pass(SHORT_MS);
      expect(await takeOverAbandoned(processor, 10)).toMatchObject([{ key, epoch: 3 }]);
      expect(await takeOverAbandoned(processor, 10)).toEqual([]);
    });

    test('2: payments of another processor are left alone', async () => {
      const { processor } = await given.abandoned({ processor: newProcessorName() });
      expect(await takeOverAbandoned(newProcessorName(), 10)).toEqual([]);
      expect(await takeOverAbandoned(processor, 10)).toHaveLength(1);
    });

    test('2: payments under a former name of the processor are taken over beside its own', async () => {
      const [processor, formerProcessor] = [newProcessorName(), newProcessorName()];
      const abandoned = [...(await givenAbandoned(1, processor)), ...(await givenAbandoned(1, formerProcessor))];
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

    test('3: of leases that ran out, the one that ended first is taken first', async () => {
      const processor = newProcessorName();
      const later = await given.claim({ processor, leaseMs: 5 * SHORT_MS });
      const sooner = await given.claim({ processor, leaseMs: SHORT_MS });
      await pass(5 * SHORT_MS);
      await expectTakenOneByOne([sooner, later], processor);
    });

    test('3: of payments that were given up, the one given up first is taken first', async () => {
      const processor = newProcessorName();
      await expectTakenOneByOne(await givenAbandoned(3, processor), processor);
    });

    test('3: a payment that is given up again and again does not keep the others waiting', async () => {
      const processor = newProcessorName();
      for (const { key } of await givenAbandoned(3, processor)) {
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

    describe('6: a payment that was given up with a back-off', () => {
      const givenBackedOff = (recoverAfterMs: number, processor = newProcessorName()) =>
        given.abandoned({ processor }, recoverAfterMs);

      test('is found abandoned, and is not taken over by recovery before the back-off is over', async () => {
        const { key, processor } = await givenBackedOff(LONG_MS);
        await pass(SHORT_MS);
        expect(await ledger.find(key)).toEqual({ state: 'abandoned' });
        expect(await takeOverAbandoned(processor, 10)).toEqual([]);
      });

      test('is due when the back-off is over, and its owner cannot renew it meanwhile', async () => {
        const claim = await givenBackedOff(SHORT_MS);
        expect(await ledger.renew(claim, LONG_MS)).toBe(false);
        await pass(SHORT_MS);
        expect(keysOf(await takeOverAbandoned(claim.processor, 10))).toEqual([claim.key]);
      });

      test('is taken over at once by a claim and by takeOver, and is then due with the end of its new lease', async () => {
        const { key, processor } = await givenBackedOff(LONG_MS);
        expect(await ledger.claim(given.attempt({ key, processor }))).toMatchObject({ state: 'taken over' });
        const second = await givenBackedOff(LONG_MS);
        expect(await given.takeover(second, { leaseMs: SHORT_MS })).toMatchObject({ epoch: 2 });
        await pass(SHORT_MS);
        expect(keysOf(await takeOverAbandoned(second.processor, 10))).toEqual([second.key]);
      });

      test('does not keep those from being taken that are due later than it was given up', async () => {
        const { processor } = await givenBackedOff(LONG_MS);
        const due = await givenBackedOff(0, processor);
        expect(keysOf(await takeOverAbandoned(processor, 1))).toEqual([due.key]);
      });

      test('is taken over after those that became due before it, whichever was given up first', async () => {
        const processor = newProcessorName();
        const [longer, shorter] = (await given.claims(2, { processor })) as [Claim, Claim];
        await Promise.all([ledger.abandon(longer, 5 * SHORT_MS), ledger.abandon(shorter, SHORT_MS)]);
        await pass(5 * SHORT_MS);
        await expectTakenOneByOne([shorter, longer], processor);
      });
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
  });
}
