import { expect, test } from 'vitest';
import type { DueFirst } from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
  inState,
  LONG_MS,
  newOwner,
  newProcessorName,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * Guarantees of every Ledger on abandoned payments beyond its types:
 *  1. Recovery takes over payments that are PROCESSING with a dead lease, 2. of its processor only, 3. at most `limit`, from the end of
 *     the due ones that it names. 4. Each row goes to one of any number at once, 5. with the next epoch. 6. It waits for a back-off; others
 *     do not.
 *  7. Counted is what has a dead lease, or was taken over, and is old enough. 8. An operator may resolve it once its first claim is old enough.
 * For payments of which nothing was ever sent to the processor (rule P15):
 *  9. Each takeover says so, 10. until one that may have sent something. 11. Only the owner marks a payment as unsent.
 * 12. It is counted and resolved by an age of its own.
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

  function takeOverDue(
    processor: string,
    limit: number,
    { leaseMs = LONG_MS, first = 'longest due' as DueFirst } = {},
  ) {
    return ledger.takeOverDue({ owner: newOwner(), leaseMs, processor, first, limit });
  }

  const keysOf = (claims: readonly Claim[]) => claims.map(({ key }) => key).sort();

  test('1, 6: what was taken over, by recovery or before its back-off was over, is due when its new lease dies', async () => {
    const { key, processor, ...claim } = await given.abandoned({ processor: newProcessorName() }, LONG_MS);
    await given.takeover({ key, processor, ...claim }, { leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    expect(await takeOverDue(processor, 10, { leaseMs: SHORT_MS })).toMatchObject([{ key, epoch: 3 }]);
    await pass(SHORT_MS);
    expect(await takeOverDue(processor, 10)).toMatchObject([{ key, epoch: 4 }]);
    expect(await takeOverDue(processor, 10)).toEqual([]);
  });

  test.each<DueFirst>(['longest due', 'latest due'])(
    '2: %s: payments of the processor are taken over, and no others',
    async (first) => {
      const processor = newProcessorName();
      const abandoned = await givenAbandoned(2, processor);
      await givenAbandoned(1, newProcessorName());
      expect(await takeOverDue(newProcessorName(), 10, { first })).toEqual([]);
      expect(keysOf(await takeOverDue(processor, 10, { first }))).toEqual(keysOf(abandoned));
    },
  );

  test.each<[what: string, arrange: (processor: string) => Promise<readonly Claim[]>]>([
    [
      'a lease that ended sooner',
      async (processor) => {
        const later = await given.claim({ processor, leaseMs: SHORT_MS });
        const sooner = await given.claim({ processor, leaseMs: SHORT_MS });
        // The first claim ends last, however long the machine stood still between the two.
        expect(await ledger.renew(later, 5 * SHORT_MS)).toBe(true);
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
  ])('3, 6: %s is taken first of the longest due, also when each is given up again', async (_what, arrange) => {
    const processor = newProcessorName();
    for (const { key } of await arrange(processor)) {
      const [claim] = await takeOverDue(processor, 1);
      expect(claim?.key).toBe(key);
      await ledger.abandon(claim as Claim, 0);
      await pass(1);
    }
  });

  test('3: the latest due begins with what became due last', async () => {
    const processor = newProcessorName();
    const [, , last] = await givenAbandoned(3, processor);
    await given.abandoned({ processor }, LONG_MS);
    expect(keysOf(await takeOverDue(processor, 1, { first: 'latest due' }))).toEqual([last?.key]);
  });

  test('3, 4: several at once keep their limit, never get the same row, and together get every row', async () => {
    const processor = newProcessorName();
    const claims = await given.claims(60, { processor });
    await Promise.all(claims.map((claim) => ledger.abandon(claim, 0)));
    const taken = await Promise.all(
      Array.from({ length: 6 }, (_, index) =>
        takeOverDue(processor, 9, { first: index % 2 === 0 ? 'longest due' : 'latest due' }),
      ),
    );
    for (const batch of taken) expect(batch.length).toBeLessThanOrEqual(9);
    const rest = await takeOverDue(processor, 60);
    expect(rest.length).toBeGreaterThanOrEqual(6);
    expect(keysOf([...taken.flat(), ...rest])).toEqual(keysOf(claims));
  });

  test('1, 7: counts payments with a dead lease and takes them over once due, but none that is leased, final or too young', async () => {
    const processor = newProcessorName();
    const before = await ledger.countAbandoned(0, 0);
    // Others may have left payments that an operator may resolve at any age.
    const ofAnyAge = await ledger.countAbandoned(LONG_MS, LONG_MS);
    const { payments: waiting } = await ledger.backlog();
    const dead = [await given.deadClaim({ processor }), ...(await givenAbandoned(2, processor))];
    await given.abandoned({ processor }, LONG_MS);
    await given.claim({ processor });
    await given.settled(await given.deadClaim({ processor }));
    await given.takeover(await given.deadClaim({ processor }));
    await pass(1);
    expect(await ledger.countAbandoned(0, 0)).toBe(before + 5);
    expect(await ledger.countAbandoned(LONG_MS, LONG_MS)).toBe(ofAnyAge);
    const backlog = await ledger.backlog();
    expect(backlog.payments).toBe(waiting + 4);
    expect(backlog.oldestMs).toBeGreaterThanOrEqual(1);
    expect(backlog.oldestMs).toBeLessThan(LONG_MS);
    expect(keysOf(await takeOverDue(processor, 10))).toEqual(keysOf(dead));
  });

  const givenUnsent = () => given.abandoned({ processor: newProcessorName() }, 0, 'unsent');

  async function expectTooEarly(key: string, limits: { dedupMs: number; idempotencyTtlMs?: number }): Promise<void> {
    const { remainingMs } = inState(await given.resolve(key, limits), 'too early');
    expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
    expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
  }

  test('8: a payment is too young until its first claim is old enough, whatever takeovers came since', async () => {
    const first = await given.abandoned();
    await expectTooEarly(first.key, { dedupMs: LONG_MS });
    expect(await ledger.find(first.key)).toEqual({ state: 'abandoned' });
    await pass(SHORT_MS);
    await ledger.abandon(await given.takeover(first), 0);
    expect(await given.resolve(first.key, { dedupMs: SHORT_MS })).toMatchObject({ state: 'resolved' });
  });

  test('9: claim, takeOver and takeOverDue say that the payment is unsent, each time it was given up so', async () => {
    const first = await givenUnsent();
    const { key, processor } = first;
    const unsent = (epoch: number) => ({ key, epoch, unsent: true });
    const second = inState(await ledger.claim(claimAttempt({ key, processor })), 'taken over').claim;
    expect(second).toMatchObject(unsent(2));
    expect(await ledger.abandon(second, 0, 'unsent')).toBe(true);
    const third = await given.takeover(first);
    expect(third).toMatchObject(unsent(3));
    expect(await ledger.abandon(third, 0, 'unsent')).toBe(true);
    expect(await takeOverDue(processor, 10)).toMatchObject([unsent(4)]);
  });

  test('10: after a takeover that died, or gave up without knowing, the payment is no longer unsent', async () => {
    const [died, gaveUp] = [await givenUnsent(), await givenUnsent()];
    await given.takeover(died, { leaseMs: SHORT_MS });
    await ledger.abandon(await given.takeover(gaveUp), 0);
    await pass(SHORT_MS);
    for (const claim of [died, gaveUp]) expect(await given.takeover(claim)).toMatchObject({ epoch: 3, unsent: false });
  });

  test('11: an attempt that was fenced off marks nothing, and learns it', async () => {
    const first = await given.deadClaim();
    const second = await given.takeover(first);
    expect(await ledger.abandon(first, 0, 'unsent')).toBe(false);
    expect(await ledger.abandon({ ...second, owner: newOwner() }, 0, 'unsent')).toBe(false);
    expect(await ledger.abandon(second, 0)).toBe(true);
    expect(await ledger.abandon(second, 0, 'unsent')).toBe(false);
    expect(await given.takeover(first)).toMatchObject({ unsent: false });
  });

  test('11: of many given up at once each is marked as it says', async () => {
    const claims = await given.claims(20);
    const marks = claims.map((_, index) => (index % 3 === 0 ? 'unsent' : undefined));
    const abandoned = await Promise.all(claims.map((claim, index) => ledger.abandon(claim, 0, marks[index])));
    expect(abandoned).toEqual(claims.map(() => true));
    const taken = await Promise.all(claims.map((claim) => given.takeover(claim)));
    expect(taken.map(({ unsent }) => unsent)).toEqual(marks.map((mark) => mark === 'unsent'));
  });

  test('12: an unsent payment is resolved and counted by its own least age, and by that of all others once it is sent', async () => {
    const counts = async () => [await ledger.countAbandoned(0, LONG_MS), await ledger.countAbandoned(LONG_MS, 0)];
    const [sent = 0, unsent = 0] = await counts();
    const [claim, other] = [await givenUnsent(), await givenUnsent()];
    const { key } = claim;
    await pass(1);
    expect(await counts()).toEqual([sent, unsent + 2]);
    await expectTooEarly(key, { dedupMs: 0, idempotencyTtlMs: LONG_MS });
    expect(await given.resolve(other.key, { dedupMs: LONG_MS, idempotencyTtlMs: 0 })).toMatchObject({
      state: 'resolved',
    });
    await ledger.abandon(await given.takeover(claim), 0);
    expect(await counts()).toEqual([sent + 1, unsent]);
    await expectTooEarly(key, { dedupMs: LONG_MS, idempotencyTtlMs: 0 });
    expect(await given.resolve(key, { dedupMs: 0, idempotencyTtlMs: LONG_MS })).toMatchObject({ state: 'resolved' });
  });
}
