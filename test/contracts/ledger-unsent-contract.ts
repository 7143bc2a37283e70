import { describe, expect, test } from 'vitest';
import {
  DECLINED,
  inState,
  LONG_MS,
  newOwner,
  newProcessorName,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * What every Ledger guarantees of payments for which nothing was ever sent (decision P15), beyond its types:
 *
 *  1. The takeover of a payment that was given up as unsent says so, whichever way it is taken over.
 *  2. The mark ends in the commit of the takeover: no later takeover is unsent, also when the one between did nothing.
 *  3. Only the attempt that owns the payment marks it, and learns whether it did.
 *  4. An operator resolves an unsent payment when its own least age has passed, and not before; others by theirs.
 *  5. It is counted by its own age.
 */
export function describeLedgerUnsentContract(ports: ContractPorts): void {
  describe('the ledger contract for unsent payments', () => {
    const { ledger, pass } = ports;
    const given = paymentSteps(ports);
    const givenUnsent = () => given.abandoned({ processor: newProcessorName() }, 0, 'unsent');
    const resolve = (key: string, dedupMs: number, idempotencyTtlMs: number) =>
      given.resolve(key, { ...DECLINED, dedupMs, idempotencyTtlMs });

    test('1: a first claim is unsent, and a takeover of what may have been sent is not', async () => {
      const claim = await given.deadClaim();
      expect(claim.unsent).toBe(true);
      const second = await given.takeover(claim);
      expect(second.unsent).toBe(false);
      expect(await ledger.abandon(second, 0)).toBe(true);
      expect(await given.takeover(claim)).toMatchObject({ epoch: 3, unsent: false });
    });

    test('1: claim, takeOver and takeOverAbandoned answer that the payment is unsent', async () => {
      const [claimed, taken, recovered] = [await givenUnsent(), await givenUnsent(), await givenUnsent()];
      const { key, processor } = claimed;
      const unsent = { epoch: 2, unsent: true };
      expect(await ledger.claim(given.attempt({ key, processor }))).toMatchObject({ claim: unsent });
      expect(await given.takeover(taken)).toMatchObject(unsent);
      const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor: recovered.processor, limit: 10 };
      expect(await ledger.takeOverAbandoned(takeover)).toMatchObject([{ key: recovered.key, ...unsent }]);
    });

    test('1: an unsent payment that is given up as unsent again stays so, however often', async () => {
      const claim = await givenUnsent();
      for (let epoch = 2; epoch < 5; epoch += 1) {
        const taken = await given.takeover(claim);
        expect(taken).toMatchObject({ epoch, unsent: true });
        expect(await ledger.abandon(taken, 0, 'unsent')).toBe(true);
      }
    });

    test('2: after a takeover that died, or gave up without knowing, the payment is no longer unsent', async () => {
      const [died, gaveUp] = [await givenUnsent(), await givenUnsent()];
      await given.takeover(died, { leaseMs: SHORT_MS });
      await ledger.abandon(await given.takeover(gaveUp), 0);
      await pass(SHORT_MS);
      for (const claim of [died, gaveUp])
        expect(await given.takeover(claim)).toMatchObject({ epoch: 3, unsent: false });
    });

    test('3: an attempt that was fenced off marks nothing, and learns it', async () => {
      const first = await given.deadClaim();
      const second = await given.takeover(first);
      expect(await ledger.abandon(first, 0, 'unsent')).toBe(false);
      expect(await ledger.abandon({ ...second, owner: newOwner() }, 0, 'unsent')).toBe(false);
      expect(await ledger.abandon(second, 0)).toBe(true);
      expect(await ledger.abandon(second, 0, 'unsent')).toBe(false);
      expect(await given.takeover(first)).toMatchObject({ unsent: false });
    });

    test('3: of many given up at once each is marked as it says', async () => {
      const claims = await given.claims(20);
      const marks = claims.map((_, index) => (index % 3 === 0 ? 'unsent' : undefined));
      const abandoned = await Promise.all(claims.map((claim, index) => ledger.abandon(claim, 0, marks[index])));
      expect(abandoned).toEqual(claims.map(() => true));
      const taken = await Promise.all(claims.map((claim) => given.takeover(claim)));
      expect(taken.map(({ unsent }) => unsent)).toEqual(marks.map((mark) => mark === 'unsent'));
    });

    test('4: an unsent payment is resolved by its own least age', async () => {
      const { key } = await givenUnsent();
      await pass(1);
      const { remainingMs } = inState(await resolve(key, 0, LONG_MS), 'too early');
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await resolve(key, LONG_MS, 0)).toMatchObject({ state: 'resolved' });
    });

    test('4: a payment that is no longer unsent is resolved by the age of all others', async () => {
      const claim = await givenUnsent();
      await ledger.abandon(await given.takeover(claim), 0);
      await pass(1);
      expect(await resolve(claim.key, LONG_MS, 0)).toMatchObject({ state: 'too early' });
      expect(await resolve(claim.key, 0, LONG_MS)).toMatchObject({ state: 'resolved' });
    });

    test('5: an unsent payment is counted by its own age', async () => {
      const counts = async () => [await ledger.countAbandoned(0, LONG_MS), await ledger.countAbandoned(LONG_MS, 0)];
      const [sent = 0, unsent = 0] = await counts();
      const claim = await givenUnsent();
      await pass(1);
      expect(await counts()).toEqual([sent, unsent + 1]);
      await ledger.abandon(await given.takeover(claim), 0);
      expect(await counts()).toEqual([sent + 1, unsent]);
    });
  });
}
