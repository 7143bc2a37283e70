import { describe, expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newOwner,
  newProcessorName,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * What every Ledger guarantees of one payment beyond its types (of many abandoned ones: `ledger-recovery-contract.ts`, of
 * an operator's verdict: `ledger-resolution-contract.ts`, of old ones: `ledger-retention-contract.ts`):
 *
 *  1. One row per key: of any number of claims at once exactly one is claimed, with epoch 1 and the values it was sent with.
 *  2. A claim that the store executes after `claimBy` writes nothing.
 *  3. While the lease lives, other claims learn that the payment is under way, and of which content it is.
 *  4. A dead lease is taken over: one epoch more, the new owner, and the row's own transaction id, amount and currency.
 *  5. An attempt that was fenced off changes nothing: not the lease, not the outcome.
 *  6. A dead lease alone fences nobody off: until another attempt takes over, the owner may renew and settle.
 *  7. A final state is written once; every later attempt is answered with it.
 *  8. A final outcome past its expiry is refused, and never claimed again.
 *  9. `abandon` ends the lease at once and for good: nothing that the attempt sent before it or sends after it counts.
 * 10. Only an instance with the row's processor takes a payment over.
 * 11. `find` tells what the row was at a moment after the call, also where many questions share one statement.
 */
export function describeLedgerContract(ports: ContractPorts): void {
  describe('the ledger contract', () => {
    const { ledger, clock, pass } = ports;
    const given = paymentSteps(ports);
    const { attempt } = given;
    const finalState = (final: unknown) => ({ state: 'final', final });
    const underWay = async (key: string) => inState(await ledger.find(key), 'under way');

    async function expectFencedOff(claim: Claim): Promise<void> {
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toEqual({ state: 'fenced off' });
      expect(await ledger.renew(claim, 2 * LONG_MS)).toBe(false);
      expect(await ledger.abandon(claim, 0)).toBe(false);
    }

    test('1: the claim carries the values it was sent with, epoch 1, and its owner', async () => {
      const { leaseMs, claimBy, ...sent } = attempt({ amount: '0.01', currency: 'EUR' });
      const claimed = await ledger.claim({ leaseMs, claimBy, ...sent });
      expect(claimed).toEqual({ state: 'claimed', claim: { ...sent, epoch: 1, unsent: true, ageMs: 0 } });
    });

    test('1: of two hundred claims on one key at once exactly one is claimed, the others find it under way', async () => {
      const key = newKey();
      const claimed = await Promise.all(Array.from({ length: 200 }, () => ledger.claim(attempt({ key }))));
      expect(claimed.filter(({ state }) => state === 'claimed')).toHaveLength(1);
      expect(claimed.filter(({ state }) => state === 'under way')).toHaveLength(199);
    });

    test('1: a transaction id that another payment has is refused without a row, and claims sent with it succeed', async () => {
      const { transactionId } = await given.claim();
      const attempts = [attempt(), attempt({ transactionId }), attempt()];
      const ends = await Promise.allSettled(attempts.map((each) => ledger.claim(each)));
      expect(ends.map((end) => (end.status === 'fulfilled' ? end.value.state : end.status))).toEqual([
        'claimed',
        'rejected',
        'claimed',
      ]);
      expect(await ledger.find(attempts[1]?.key ?? '')).toEqual({ state: 'absent' });
    });

    test('2: a claim after claimBy is refused and leaves no row', async () => {
      const late = attempt({ claimBy: clock.monotonic() - SHORT_MS });
      expect(await ledger.claim(late)).toEqual({ state: 'too late' });
      expect(await ledger.find(late.key)).toEqual({ state: 'absent' });
    });

    test('2: a late claim on a key that has a row is still answered with what became of it', async () => {
      const claim = await given.claim();
      const late = attempt({ key: claim.key, claimBy: clock.monotonic() - SHORT_MS });
      expect(await ledger.claim(late)).toMatchObject({ state: 'under way' });
      const final = await given.settled(claim);
      expect(await ledger.claim(late)).toEqual(finalState(final));
    });

    test('3: under a live lease the payment is under way, with its fingerprint and remaining lease, and not taken over', async () => {
      const claim = await given.claim({ amount: '7.00', currency: 'EUR' });
      const second = await ledger.claim(attempt({ key: claim.key, amount: '9.00', currency: 'CHF' }));
      const { fingerprint, remainingMs } = inState(second, 'under way');
      expect(fingerprint).toBe('7.00 EUR');
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await underWay(claim.key)).toMatchObject({ fingerprint: '7.00 EUR' });
      expect(await ledger.takeOver({ ...claim, owner: newOwner(), leaseMs: LONG_MS })).toBeUndefined();
    });

    test('4: a claim on a dead lease takes over with the next epoch and the values of the row', async () => {
      const first = await given.deadClaim({ amount: '7.00', currency: 'EUR' });
      expect(await ledger.find(first.key)).toMatchObject({ state: 'abandoned' });
      const second = attempt({ key: first.key, amount: '9.00', currency: 'CHF' });
      const { ageMs, ...claim } = inState(await ledger.claim(second), 'taken over').claim;
      expect({ ...claim, ageMs: 0 }).toEqual({ ...first, epoch: 2, owner: second.owner, unsent: false });
      expect(ageMs).toBeGreaterThanOrEqual(SHORT_MS);
      expect(await underWay(first.key)).toMatchObject({ fingerprint: '7.00 EUR' });
    });

    test('4: takeOver does the same, and each takeover has an epoch of its own', async () => {
      const { key, transactionId, amount, currency, processor } = await given.deadClaim();
      const second = await ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: SHORT_MS });
      expect(second).toMatchObject({ key, epoch: 2, transactionId });
      await pass(SHORT_MS);
      const third = await ledger.takeOver({ key, processor, owner: 'third', leaseMs: LONG_MS });
      expect(third).toMatchObject({ epoch: 3, owner: 'third', amount, currency });
    });

    test('4: of fifty takeovers at once exactly one succeeds', async () => {
      const { key, processor } = await given.deadClaim();
      const takeOver = () => ledger.takeOver({ key, owner: newOwner(), leaseMs: LONG_MS, processor });
      const takeovers = await Promise.all(Array.from({ length: 50 }, takeOver));
      expect(takeovers.filter((takeover) => takeover !== undefined)).toHaveLength(1);
    });

    test('5: an attempt that was fenced off neither settles, nor renews, nor abandons, not even under the same owner', async () => {
      const first = await given.deadClaim();
      await given.takeover(first);
      await expectFencedOff(first);
      expect((await underWay(first.key)).remainingMs).toBeLessThanOrEqual(LONG_MS);
      const same = await given.deadClaim();
      await given.takeover(same, { owner: same.owner });
      await expectFencedOff(same);
      expect(await underWay(same.key)).toBeDefined();
    });

    test('5: nobody settles, renews or abandons with the epoch of another owner', async () => {
      const claim = await given.claim();
      await expectFencedOff({ ...claim, owner: newOwner() });
      expect(await underWay(claim.key)).toBeDefined();
    });

    test('5, 7: an attempt that was fenced off is answered with the outcome of the winner', async () => {
      const first = await given.deadClaim();
      const final = await given.settled(await given.takeover(first), { outcome: DECLINED });
      expect(await ledger.settle(first, completed(first), LONG_MS)).toEqual(finalState(final));
      expect(await ledger.find(first.key)).toEqual(finalState(final));
    });

    test('6: an owner whose lease died, and whose payment nobody took over, may renew or settle', async () => {
      const [renewing, settling] = [await given.deadClaim(), await given.deadClaim()];
      expect(await ledger.renew(renewing, LONG_MS)).toBe(true);
      expect(await underWay(renewing.key)).toBeDefined();
      expect(await ledger.settle(settling, completed(settling), LONG_MS)).toMatchObject({ state: 'settled' });
    });

    test('6: a renewal lengthens the lease', async () => {
      const claim = await given.claim({ leaseMs: LONG_MS });
      expect(await ledger.renew(claim, 2 * LONG_MS)).toBe(true);
      expect((await underWay(claim.key)).remainingMs).toBeGreaterThan(LONG_MS);
    });

    test('7: settle answers the outcome with the fingerprint of the row and an expiry a life from now', async () => {
      const claim = await given.claim();
      const before = clock.now();
      const final = await given.settled(claim);
      expect(final).toMatchObject({ outcome: completed(claim), fingerprint: claim.fingerprint });
      expect(final.expiresAt).toBeGreaterThanOrEqual(Math.floor(before) + LONG_MS);
      expect(final.expiresAt).toBeLessThanOrEqual(clock.now() + LONG_MS);
      expect(await ledger.find(claim.key)).toEqual(finalState(final));
      expect(await ledger.claim(attempt({ key: claim.key }))).toEqual(finalState(final));
    });

    test('7: a second settle by the same attempt changes nothing and is answered with the first', async () => {
      const claim = await given.claim();
      const final = await given.settled(claim);
      expect(await ledger.settle(claim, DECLINED, 2 * LONG_MS)).toEqual(finalState(final));
      expect(await ledger.find(claim.key)).toEqual(finalState(final));
    });

    test('7: of many settles at once exactly one is settled', async () => {
      const claim = await given.claim();
      const settle = () => ledger.settle(claim, completed(claim), LONG_MS);
      const settled = await Promise.all(Array.from({ length: 20 }, settle));
      expect(settled.filter(({ state }) => state === 'settled')).toHaveLength(1);
      expect(settled.filter(({ state }) => state === 'final')).toHaveLength(19);
    });

    test('7: a final payment is neither renewed, nor abandoned, nor taken over', async () => {
      const claim = await given.claim({ leaseMs: SHORT_MS });
      const final = await given.settled(claim);
      await pass(SHORT_MS);
      expect(await ledger.renew(claim, LONG_MS)).toBe(false);
      expect(await ledger.abandon(claim, 0)).toBe(false);
      expect(await ledger.takeOver({ ...claim, owner: newOwner(), leaseMs: LONG_MS })).toBeUndefined();
      expect(await ledger.find(claim.key)).toEqual(finalState(final));
    });

    test('8: a final outcome past its expiry is expired to find and refused to claim', async () => {
      const claim = await given.claim();
      await given.settled(claim, { ttlMs: SHORT_MS });
      await pass(SHORT_MS);
      expect(await ledger.find(claim.key)).toEqual({ state: 'expired' });
      expect(await ledger.claim(attempt({ key: claim.key }))).toEqual({ state: 'expired' });
      expect(await ledger.takeOver({ ...claim, owner: newOwner(), leaseMs: LONG_MS })).toBeUndefined();
    });

    test('9: an abandoned payment is taken over at once, also after a back-off of a part of a millisecond', async () => {
      for (const recoverAfterMs of [0, 0.25]) {
        const { key, transactionId } = await given.abandoned({ leaseMs: LONG_MS }, recoverAfterMs);
        expect(await ledger.find(key)).toEqual({ state: 'abandoned' });
        const taken = { state: 'taken over', claim: { epoch: 2, transactionId } };
        expect(await ledger.claim(attempt({ key }))).toMatchObject(taken);
      }
    });

    /**
     * Bug: a payment that was given up stayed leased for a whole lease. Cause: a renewal of the same attempt, sent just
     * before and in the same statement, was executed last. Fix: an abandonment takes the owner away as well.
     */
    test('9: an abandoned lease stays dead, whatever the attempt sent before and sends afterwards', async () => {
      const abandoned = await given.claims(50);
      await Promise.all(abandoned.flatMap((claim) => [ledger.renew(claim, LONG_MS), ledger.abandon(claim, 0)]));
      for (const claim of abandoned) {
        expect(await ledger.find(claim.key)).toEqual({ state: 'abandoned' });
        expect(await ledger.renew(claim, LONG_MS)).toBe(false);
        expect(await ledger.settle(claim, completed(claim), LONG_MS)).toEqual({ state: 'fenced off' });
      }
    });

    test('10: an instance with another processor finds an abandoned payment under way, and does not take it over', async () => {
      const { key } = await given.abandoned({ processor: newProcessorName() });
      const processor = newProcessorName();
      expect(await ledger.claim(attempt({ key, processor }))).toMatchObject({ state: 'under way' });
      expect(await ledger.takeOver({ key, owner: newOwner(), leaseMs: LONG_MS, processor })).toBeUndefined();
    });

    test('10: a payment under a former name of the processor is taken over, and keeps that name', async () => {
      const [processor, formerProcessor] = [newProcessorName(), newProcessorName()];
      const [claimed, found] = [
        await given.abandoned({ processor: formerProcessor }),
        await given.abandoned({ processor: formerProcessor }),
      ];
      const taken = inState(
        await ledger.claim(attempt({ key: claimed.key, processor, formerProcessor })),
        'taken over',
      );
      expect(taken.claim).toMatchObject({ processor: formerProcessor, epoch: 2 });
      expect(await given.takeover(found, { processor, formerProcessor })).toMatchObject({ processor: formerProcessor });
    });

    test('11: of many rows asked for at once each is answered with its own', async () => {
      const claims = await given.claims(20);
      const finals = await Promise.all(claims.slice(0, 10).map((claim) => given.settled(claim)));
      const keys = claims.map(({ key }) => key);
      const found = await Promise.all([newKey(), ...keys, ...keys].map((key) => ledger.find(key)));
      const expected = [...finals.map(finalState), ...claims.slice(10).map(() => ({ state: 'under way' }))];
      expect(found).toMatchObject([{ state: 'absent' }, ...expected, ...expected]);
    });

    test('11: a row asked for after its settlement is final, however many ask for it at that moment', async () => {
      const claim = await given.claim();
      const before = Array.from({ length: 20 }, () => ledger.find(claim.key));
      const after = ledger.settle(claim, completed(claim), LONG_MS).then(() => ledger.find(claim.key));
      await Promise.all(before);
      expect(await after).toMatchObject({ state: 'final' });
    });
  });
}
