import { expect, test } from 'vitest';
import {
  claimAttempt,
  completed,
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
 * What every Ledger guarantees of `resolve`, and of payments for which nothing was ever sent (decision P15), beyond its types
 * (`ledger-contract.ts` has the states in which nothing is resolved, `payment-history-contract.ts` what is shown of it):
 *
 *  1. It settles an abandoned payment with the operator's verdict: its own transaction id, or the operator's reason.
 *  2. It changes nothing while an attempt is at work, and says for how long that may be.
 *  3. It changes nothing before the payment has its least age, counted from the first claim, and says how long that is.
 *  4. Of any number of verdicts, and attempts that settle, exactly one is written.
 *  5. The takeover of a payment that was given up as unsent says so, whichever way it is taken over.
 *  6. The mark ends in the commit of the takeover: no later takeover is unsent, also when the one between did nothing.
 *  7. Only the attempt that owns the payment marks it, and learns whether it did.
 *  8. An unsent payment is resolved, and counted, by its own least age; others by theirs.
 */
export function ledgerResolutionContract(ports: ContractPorts): void {
  const { keys, ledger, clock, pass } = ports;
  const given = paymentSteps(ports);
  const { resolve } = given;
  const givenUnsent = () => given.abandoned({ processor: newProcessorName() }, 0, 'unsent');

  function expectNearly(remainingMs: number, ms: number): void {
    expect(remainingMs).toBeGreaterThan(ms / 2);
    expect(remainingMs).toBeLessThanOrEqual(ms);
  }

  test.each(['completed', 'declined'])(
    '1: a payment resolved as %s is final with its own id or the reason, and a life from now',
    async (verdict) => {
      const claim = await given.abandoned({ key: await given.issuedKey() });
      const { key, fingerprint } = claim;
      const outcome = verdict === 'declined' ? DECLINED : completed(claim);
      const before = clock.now();
      const { final } = inState(await resolve(key, { ...outcome, owner: 'operator' }), 'resolved');
      expect(final).toMatchObject({ outcome, fingerprint });
      expect(final.expiresAt).toBeGreaterThanOrEqual(Math.floor(before) + LONG_MS);
      expect(final.expiresAt).toBeLessThanOrEqual(clock.now() + LONG_MS);
      expect(await ledger.find(key)).toEqual({ state: 'final', final });
      await keys.finish(key, 'operator', final);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
    },
  );

  test('2: a payment under a live lease is not resolved, and the verdict learns how long that may be', async () => {
    const { key } = await given.claim();
    expectNearly(inState(await resolve(key), 'under way').remainingMs, LONG_MS);
  });

  test('3: a payment is too young until its first claim is old enough, whatever takeovers came since', async () => {
    const first = await given.abandoned();
    expectNearly(inState(await resolve(first.key, { dedupMs: LONG_MS }), 'too early').remainingMs, LONG_MS);
    expect(await ledger.find(first.key)).toEqual({ state: 'abandoned' });
    await pass(SHORT_MS);
    await ledger.abandon(await given.takeover(first), 0);
    expect(await resolve(first.key, { dedupMs: SHORT_MS })).toMatchObject({ state: 'resolved' });
  });

  test('4: of many verdicts, and the owner, at once exactly one is written', async () => {
    const claim = await given.deadClaim();
    const [settled, ...resolved] = await Promise.all([
      ledger.settle(claim, completed(claim), LONG_MS),
      ...Array.from({ length: 20 }, () => resolve(claim.key, DECLINED)),
    ]);
    const written = [settled, ...resolved].filter(({ state }) => state === 'settled' || state === 'resolved');
    expect(written).toHaveLength(1);
    const state = settled.state === 'settled' ? 'COMPLETED' : 'DECLINED';
    expect(await ledger.find(claim.key)).toMatchObject({ final: { outcome: { state } } });
  });

  test('5: a first claim is unsent, and a takeover of what may have been sent is not', async () => {
    const claim = await given.deadClaim();
    expect(claim.unsent).toBe(true);
    const second = await given.takeover(claim);
    expect(second.unsent).toBe(false);
    expect(await ledger.abandon(second, 0)).toBe(true);
    expect(await given.takeover(claim)).toMatchObject({ epoch: 3, unsent: false });
  });

  test('5: claim, takeOver and takeOverAbandoned say that the payment is unsent, each time it was given up so', async () => {
    const first = await givenUnsent();
    const { key, processor } = first;
    const unsent = (epoch: number) => ({ key, epoch, unsent: true });
    const second = inState(await ledger.claim(claimAttempt({ key, processor })), 'taken over').claim;
    expect(second).toMatchObject(unsent(2));
    expect(await ledger.abandon(second, 0, 'unsent')).toBe(true);
    const third = await given.takeover(first);
    expect(third).toMatchObject(unsent(3));
    expect(await ledger.abandon(third, 0, 'unsent')).toBe(true);
    const recovered = await ledger.takeOverAbandoned({ owner: newOwner(), leaseMs: LONG_MS, processor, limit: 10 });
    expect(recovered).toMatchObject([unsent(4)]);
  });

  test('6: after a takeover that died, or gave up without knowing, the payment is no longer unsent', async () => {
    const [died, gaveUp] = [await givenUnsent(), await givenUnsent()];
    await given.takeover(died, { leaseMs: SHORT_MS });
    await ledger.abandon(await given.takeover(gaveUp), 0);
    await pass(SHORT_MS);
    for (const claim of [died, gaveUp]) expect(await given.takeover(claim)).toMatchObject({ epoch: 3, unsent: false });
  });

  test('7: an attempt that was fenced off marks nothing, and learns it', async () => {
    const first = await given.deadClaim();
    const second = await given.takeover(first);
    expect(await ledger.abandon(first, 0, 'unsent')).toBe(false);
    expect(await ledger.abandon({ ...second, owner: newOwner() }, 0, 'unsent')).toBe(false);
    expect(await ledger.abandon(second, 0)).toBe(true);
    expect(await ledger.abandon(second, 0, 'unsent')).toBe(false);
    expect(await given.takeover(first)).toMatchObject({ unsent: false });
  });

  test('7: of many given up at once each is marked as it says', async () => {
    const claims = await given.claims(20);
    const marks = claims.map((_, index) => (index % 3 === 0 ? 'unsent' : undefined));
    const abandoned = await Promise.all(claims.map((claim, index) => ledger.abandon(claim, 0, marks[index])));
    expect(abandoned).toEqual(claims.map(() => true));
    const taken = await Promise.all(claims.map((claim) => given.takeover(claim)));
    expect(taken.map(({ unsent }) => unsent)).toEqual(marks.map((mark) => mark === 'unsent'));
  });

  test('8: an unsent payment is resolved and counted by its own least age, and by that of all others once it is sent', async () => {
    const counts = async () => [await ledger.countAbandoned(0, LONG_MS), await ledger.countAbandoned(LONG_MS, 0)];
    const [sent = 0, unsent = 0] = await counts();
    const [claim, other] = [await givenUnsent(), await givenUnsent()];
    const { key } = claim;
    await pass(1);
    expect(await counts()).toEqual([sent, unsent + 2]);
    const tooEarly = await resolve(key, { dedupMs: 0, idempotencyTtlMs: LONG_MS });
    expectNearly(inState(tooEarly, 'too early').remainingMs, LONG_MS);
    expect(await resolve(other.key, { dedupMs: LONG_MS, idempotencyTtlMs: 0 })).toMatchObject({ state: 'resolved' });
    await ledger.abandon(await given.takeover(claim), 0);
    expect(await counts()).toEqual([sent + 1, unsent]);
    expect(await resolve(key, { dedupMs: LONG_MS, idempotencyTtlMs: 0 })).toMatchObject({ state: 'too early' });
    expect(await resolve(key, { dedupMs: 0, idempotencyTtlMs: LONG_MS })).toMatchObject({ state: 'resolved' });
  });
}
