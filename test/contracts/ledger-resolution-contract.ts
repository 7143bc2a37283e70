import { describe, expect, test } from 'vitest';
import { completed, DECLINED, inState, LONG_MS, newKey, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/**
 * What every Ledger guarantees of `resolve` beyond its types (`payment-history-contract.ts` says what is shown of it):
 *
 *  1. It settles an abandoned payment with the operator's verdict: its own transaction id, or the operator's reason.
 *  2. Whoever held the payment before can no longer settle, renew or abandon it, and is answered with the verdict.
 *  3. It changes nothing while an attempt is at work, and says for how long that may be.
 *  4. It changes nothing before the payment has its least age, counted from the first claim, and says how long that is.
 *  5. Nothing final is resolved: of any number of verdicts, and attempts that settle, exactly one is written.
 *  6. A back-off is no hindrance: a payment that waits for recovery has no attempt at work.
 *  7. It never makes a row.
 */
export function describeLedgerResolutionContract(ports: ContractPorts): void {
  describe('the ledger contract for resolutions', () => {
    const { keys, ledger, clock, pass } = ports;
    const given = paymentSteps(ports);
    const { resolve } = given;

    test('1: a payment resolved as completed is final with its own transaction id, and a life from now', async () => {
      const { key, ...claim } = await given.abandoned();
      const before = clock.now();
      const { final } = inState(await resolve(key), 'resolved');
      expect(final).toMatchObject({ outcome: completed({ key, ...claim }), fingerprint: claim.fingerprint });
      expect(final.expiresAt).toBeGreaterThanOrEqual(Math.floor(before) + LONG_MS);
      expect(final.expiresAt).toBeLessThanOrEqual(clock.now() + LONG_MS);
      expect(await ledger.find(key)).toEqual({ state: 'final', final });
      expect(await ledger.claim(given.attempt({ key }))).toEqual({ state: 'final', final });
    });

    test('1: a payment resolved as declined is final with the reason, and the key store repeats the verdict', async () => {
      const { key } = await given.abandoned({ key: await given.issuedKey() });
      const { final } = inState(await resolve(key, { ...DECLINED, owner: 'operator' }), 'resolved');
      expect(final).toMatchObject({ outcome: DECLINED });
      expect(await ledger.find(key)).toEqual({ state: 'final', final });
      await keys.finish(key, 'operator', final);
      expect(await keys.look(key)).toEqual({ state: 'final', final });
    });

    test('2: the owner that was paused neither settles, nor renews, nor abandons, and is answered with the verdict', async () => {
      const claim = await given.deadClaim();
      const resolved = { ...inState(await resolve(claim.key, DECLINED), 'resolved'), state: 'final' };
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toEqual(resolved);
      expect(await ledger.renew(claim, LONG_MS)).toBe(false);
      expect(await ledger.abandon(claim, 0)).toBe(false);
      expect(await ledger.takeOver({ ...claim, leaseMs: LONG_MS })).toBeUndefined();
      expect(await ledger.find(claim.key)).toEqual(resolved);
    });

    test('2: the epoch fences the owner off even when the verdict came under its own name', async () => {
      const claim = await given.abandoned();
      inState(await resolve(claim.key, { ...DECLINED, owner: claim.owner }), 'resolved');
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toMatchObject({ state: 'final' });
      expect(await ledger.find(claim.key)).toMatchObject({ final: { outcome: DECLINED } });
    });

    test('3: a payment under a live lease is not resolved, and goes on', async () => {
      const claim = await given.claim();
      const { remainingMs } = inState(await resolve(claim.key), 'under way');
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await ledger.settle(claim, completed(claim), LONG_MS)).toMatchObject({ state: 'settled' });
    });

    test('4: a payment that is too young is not resolved', async () => {
      const { key } = await given.abandoned();
      const { remainingMs } = inState(await resolve(key, { dedupMs: LONG_MS }), 'too early');
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
      expect(await ledger.find(key)).toEqual({ state: 'abandoned' });
    });

    test('4: the age is that of the first claim, whatever takeovers came since', async () => {
      const first = await given.abandoned();
      await pass(SHORT_MS);
      await ledger.abandon(await given.takeover(first), 0);
      expect(await resolve(first.key, { dedupMs: SHORT_MS })).toMatchObject({ state: 'resolved' });
    });

    test('5: a payment that is final, settled or resolved, is not resolved', async () => {
      const [settled, { key }] = [await given.claim(), await given.abandoned()];
      const finals = [await given.settled(settled), inState(await resolve(key), 'resolved').final];
      for (const [index, each] of [settled.key, key].entries()) {
        expect(await resolve(each, DECLINED)).toEqual({ state: 'settled before' });
        expect(await ledger.find(each)).toEqual({ state: 'final', final: finals[index] });
      }
    });

    test('5: of many verdicts, and the owner, at once exactly one is written', async () => {
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

    test('6: a payment whose recovery is put off is resolved', async () => {
      const { key } = await given.abandoned({}, LONG_MS);
      expect(await resolve(key)).toMatchObject({ state: 'resolved' });
    });

    test('7: a key without a row is absent, and stays so', async () => {
      const key = newKey();
      expect(await resolve(key)).toEqual({ state: 'absent' });
      expect(await ledger.find(key)).toEqual({ state: 'absent' });
    });
  });
}
