import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
  givenClaim,
  LONG_MS,
  newOwner,
  newProcessorName,
  SHORT_MS,
} from '../../testkit/protocol/payment-attempts.js';
import type { OpenPorts, Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until-past.js';

/**
 * What every Ledger guarantees of payments for which nothing was ever sent (decisions P15), beyond its types:
 *
 *  1. Whoever takes over a payment that was given up as unsent is told so, whichever way it is taken over.
 *  2. The mark ends in the commit of the takeover: whoever comes after it is told nothing, also when the one between did nothing.
 *  3. Only the attempt that owns the payment marks it, and is told whether it did.
 *  4. An operator resolves an unsent payment when its own least age has passed, and not before; others by theirs.
 *  5. It is counted by its own age.
 */
export function describeLedgerUnsentContract(name: string, open: OpenPorts): void {
  describe(`the ledger's contract for unsent payments (${name})`, () => {
    let ports: Ports;
    let ledger: Ledger;

    beforeAll(async () => {
      ports = await open();
      ledger = ports.ledger;
    });
    afterAll(() => ports.close());

    async function givenUnsent(): Promise<Claim> {
      const claim = await givenClaim(ledger, { processor: newProcessorName() });
      expect(await ledger.abandon(claim, 0, 'unsent')).toBe(true);
      return claim;
    }

    async function takeOver({ key, processor }: Claim, leaseMs = LONG_MS): Promise<Claim> {
      const taken = await ledger.takeOver({ key, processor, owner: newOwner(), leaseMs });
      if (!taken) throw new Error('what was given up could not be taken over');
      return taken;
    }

    const resolutionOf = ({ key }: Claim, dedupMs: number, idempotencyTtlMs: number) => ({
      ...{ key, owner: newOwner(), state: 'DECLINED' as const, reason: 'cancelled' },
      ...{ dedupMs, idempotencyTtlMs },
    });

    test('1: a first claim is unsent, and a takeover of what may have been sent is not', async () => {
      const claim = await givenClaim(ledger, { leaseMs: SHORT_MS });
      expect(claim.unsent).toBe(true);
      await untilPast(SHORT_MS);
      const second = await takeOver(claim);
      expect(second.unsent).toBe(false);
      expect(await ledger.abandon(second, 0)).toBe(true);
      expect(await takeOver(claim)).toMatchObject({ epoch: 3, unsent: false });
    });

    test('1: a claim, takeOver and takeOverAbandoned tell that the payment is unsent', async () => {
      const [claimed, taken, recovered] = [await givenUnsent(), await givenUnsent(), await givenUnsent()];
      const { key, processor } = claimed;
      expect(await ledger.claim(claimAttempt({ key, processor }))).toMatchObject({
        state: 'taken over',
        claim: { epoch: 2, unsent: true },
      });
      expect(await takeOver(taken)).toMatchObject({ epoch: 2, unsent: true });
      const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor: recovered.processor, limit: 10 };
      expect(await ledger.takeOverAbandoned(takeover)).toMatchObject([{ key: recovered.key, epoch: 2, unsent: true }]);
    });

    test('1: an unsent payment that is given up as unsent again stays so, however often', async () => {
      const claim = await givenUnsent();
      for (let epoch = 2; epoch < 5; epoch += 1) {
        const taken = await takeOver(claim);
        expect(taken).toMatchObject({ epoch, unsent: true });
        expect(await ledger.abandon(taken, 0, 'unsent')).toBe(true);
      }
    });

    test('2: after a takeover that died nobody is told that the payment is unsent', async () => {
      const claim = await givenUnsent();
      await takeOver(claim, SHORT_MS);
      await untilPast(SHORT_MS);
      expect(await takeOver(claim)).toMatchObject({ epoch: 3, unsent: false });
    });

    test('2: after a takeover that gave up without knowing nobody is told that the payment is unsent', async () => {
      const claim = await givenUnsent();
      await ledger.abandon(await takeOver(claim), 0);
      expect(await takeOver(claim)).toMatchObject({ epoch: 3, unsent: false });
    });

    test('3: an attempt that was fenced off marks nothing, and is told so', async () => {
      const first = await givenClaim(ledger, { leaseMs: SHORT_MS });
      await untilPast(SHORT_MS);
      const second = await takeOver(first);
      expect(await ledger.abandon(first, 0, 'unsent')).toBe(false);
      expect(await ledger.abandon({ ...second, owner: newOwner() }, 0, 'unsent')).toBe(false);
      expect(await ledger.abandon(second, 0)).toBe(true);
      expect(await ledger.abandon(second, 0, 'unsent')).toBe(false);
      expect(await takeOver(first)).toMatchObject({ unsent: false });
    });

    test('3: of many given up at once each is marked as it says', async () => {
      const claims = await Promise.all(Array.from({ length: 20 }, () => givenClaim(ledger)));
      const marks = claims.map((_, index) => (index % 3 === 0 ? 'unsent' : undefined));
      const given = await Promise.all(claims.map((claim, index) => ledger.abandon(claim, 0, marks[index])));
      expect(given).toEqual(claims.map(() => true));
      const taken = await Promise.all(claims.map((claim) => takeOver(claim)));
      expect(taken.map(({ unsent }) => unsent)).toEqual(marks.map((mark) => mark === 'unsent'));
    });

    test('4: an unsent payment is resolved by its own least age', async () => {
      const claim = await givenUnsent();
      await untilPast(1);
      const early = await ledger.resolve(resolutionOf(claim, 0, LONG_MS));
      if (early.state !== 'too early') throw new Error(`resolve was answered '${early.state}'`);
      expect(early.remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(early.remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await ledger.resolve(resolutionOf(claim, LONG_MS, 0))).toMatchObject({ state: 'resolved' });
    });

    test('4: a payment that is no longer unsent is resolved by the age of all others', async () => {
      const claim = await givenUnsent();
      await ledger.abandon(await takeOver(claim), 0);
      await untilPast(1);
      expect(await ledger.resolve(resolutionOf(claim, LONG_MS, 0))).toMatchObject({ state: 'too early' });
      expect(await ledger.resolve(resolutionOf(claim, 0, LONG_MS))).toMatchObject({ state: 'resolved' });
    });

    test('5: an unsent payment is counted by its own age', async () => {
      const before = await ledger.countAbandoned(0, LONG_MS);
      const unsentBefore = await ledger.countAbandoned(LONG_MS, 0);
      const claim = await givenUnsent();
      await untilPast(1);
      expect(await ledger.countAbandoned(0, LONG_MS)).toBe(before);
      expect(await ledger.countAbandoned(LONG_MS, 0)).toBe(unsentBefore + 1);
      await ledger.abandon(await takeOver(claim), 0);
      expect(await ledger.countAbandoned(0, LONG_MS)).toBe(before + 1);
      expect(await ledger.countAbandoned(LONG_MS, 0)).toBe(unsentBefore);
    });
  });
}
