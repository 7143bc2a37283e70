import { expect, test } from 'vitest';
import type { ClaimAttempt, ClaimResult } from '#idempay/payments/ports/ledger.js';
import type { Claim, FinalOutcome, Outcome } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newKeyOf,
  newOwner,
  newProcessorName,
  newReference,
  SHORT_MS,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps, statesAtOnce } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { clockSetBackMs } from '../../testkit/time/patience.js';

type Answer = string | boolean;

/**
 * Guarantees of every Ledger on one payment beyond its types, on which exactly once depends (on abandoned payments:
 * `ledger-recovery-contract.ts`, on old ones: `ledger-retention-contract.ts`).
 *  1. One row per key: of claims at once one is claimed, with epoch 1, or settled if it names the outcome. 2. A claim after `claimBy`
 *     writes nothing.
 *  3. Under a live lease others learn that the payment is under way, and of which content it is.
 *  4. A dead lease is taken over, with the next epoch and the values of the row. 6. It alone fences nobody off.
 *  5. An attempt that was fenced off changes nothing: not the lease, not the outcome.
 *  7. An outcome is written once, and every later attempt is answered with it. 8. One that expired is never claimed again.
 *  9. `abandon` ends the lease for good. 10. Only an instance with the row's processor takes a payment over.
 * 11. `find` tells what the row was after the call, also where many questions share one statement.
 * 12. `endedUnclaimed` is true only of a key that is old enough and has no row that the client sees (of lost and removed rows:
 *     `adapters/distributed-replaced`, `adapters/embedded-backup`, `ledger-retention-contract.ts`).
 * 13. `mayBeLost` is false of every key where no row was lost (after a loss: `ledger-loss-contract.ts`).
 */
export function ledgerContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  const finalState = (final: FinalOutcome) => ({ state: 'final', final });
  const underWay = async (key: string) => inState(await ledger.find(key), 'under way');

  /** The steps of a claimed payment: `claim`, `takeOver` and `resolve` by others, the rest by its own attempt. */
  const operations: ((claim: Claim) => Promise<Answer | { readonly state: string }>)[] = [
    ({ key }) => ledger.find(key),
    ({ key, processor }) => ledger.claim(claimAttempt({ key, processor, amount: '9.00' })),
    ({ key, processor }) =>
      ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS }).then((claim) => claim !== undefined),
    (claim) => ledger.renew(claim, 2 * LONG_MS),
    (claim) => ledger.settle(claim, DECLINED, 2 * LONG_MS),
    (claim) => ledger.abandon(claim, 0),
    ({ key }) => given.resolve(key, DECLINED),
  ];
  const changes: Answer[] = [true, 'claimed', 'taken over', 'settled', 'resolved'];

  async function lookAt(key: string) {
    const found = await ledger.find(key);
    const { remainingMs = 0, ...rest } = { remainingMs: 0, ...found };
    return { found, remainingMs, shown: [rest, await history.find(key)] };
  }

  /** Fails when an operation that answers that it did nothing changed the row. */
  async function answerOf(operation: (typeof operations)[number], claim: Claim): Promise<Answer> {
    const before = await lookAt(claim.key);
    const answer = await operation(claim);
    const state = typeof answer === 'object' ? answer.state : answer;
    if (before.found.state === 'final' && state === 'final') expect(answer).toEqual(before.found);
    if (!changes.includes(state)) {
      const after = await lookAt(claim.key);
      expect(after.shown).toEqual(before.shown);
      expect(after.remainingMs).toBeLessThanOrEqual(before.remainingMs);
    }
    return state;
  }

  const unclaimed = async (): Promise<Claim> => ({
    client: undefined,
    ...claimAttempt(),
    epoch: 1,
    unsent: true,
    ageMs: 0,
  });
  const foreign = async () => ({ ...(await given.abandoned()), processor: newProcessorName() });
  const stolen = async () => ({ ...(await given.claim()), owner: newOwner() });
  const takenOver = (owner?: string) => async () => {
    const claim = await given.deadClaim();
    await given.takeover(claim, { owner: owner ?? claim.owner });
    return claim;
  };
  const settled = (ttlMs: number) => async () => {
    const claim = await given.claim({ leaseMs: SHORT_MS });
    await given.settled(claim, { ttlMs });
    await pass(SHORT_MS);
    return claim;
  };
  const resolved = (owner?: string) => async () => {
    const claim = await given.deadClaim();
    inState(await given.resolve(claim.key, { owner: owner ?? claim.owner }), 'resolved');
    return claim;
  };
  const GIVEN_UP = ['abandoned', 'taken over', true, false, 'fenced off', false, 'resolved'] as const;
  const FENCED_OFF = ['under way', 'under way', false, false, 'fenced off', false, 'under way'] as const;
  const FINAL = ['final', 'final', false, false, 'final', false, 'settled before'] as const;

  test.each<[state: string, arrange: () => Promise<Claim>, ...Answer[]]>([
    // find, claim, takeOver, renew, settle, abandon, resolve
    ['no row', unclaimed, 'absent', 'claimed', false, false, 'fenced off', false, 'absent'],
    ['a live lease', given.claim, 'under way', 'under way', false, true, 'settled', true, 'under way'],
    ['a dead lease', given.deadClaim, 'abandoned', 'taken over', true, true, 'settled', true, 'resolved'],
    ['no lease', given.abandoned, ...GIVEN_UP],
    ['a back-off of a part of a millisecond', () => given.abandoned({}, 0.25), ...GIVEN_UP],
    ['a back-off of recovery', () => given.abandoned({}, LONG_MS), ...GIVEN_UP],
    ['another processor', foreign, 'abandoned', 'under way', false, false, 'fenced off', false, 'resolved'],
    ['a live lease of another owner', stolen, ...FENCED_OFF],
    ['a takeover by another owner', takenOver('another'), ...FENCED_OFF],
    ['a takeover by its own owner', takenOver(), ...FENCED_OFF],
    ['an outcome', settled(LONG_MS), ...FINAL],
    ['an expired outcome', settled(SHORT_MS), 'expired', 'expired', false, false, 'final', false, 'settled before'],
    ['a verdict', resolved('operator'), ...FINAL],
    ['a verdict under the name of its owner', resolved(), ...FINAL],
  ])('2 to 10: a payment with %s is answered by its state, and what it refuses changes nothing', async (...row) => {
    const [, arrange, ...expected] = row;
    const answers = operations.map(async (operation) => answerOf(operation, await arrange()));
    expect(await Promise.all(answers)).toEqual(expected);
  });

  test('1: the claim carries the values it was sent with, epoch 1, and its owner', async () => {
    const { leaseMs, claimBy, waitAfterLossMs, ...sent } = claimAttempt({
      amount: '0.01',
      currency: 'EUR',
      client: 'key:shop',
    });
    const claimed = await ledger.claim({ leaseMs, claimBy, waitAfterLossMs, ...sent });
    expect(claimed).toEqual({ state: 'claimed', claim: { ...sent, epoch: 1, unsent: true, ageMs: 0 } });
  });

  test('1: of two hundred claims on one key at once exactly one is claimed, the others find it under way', async () => {
    const key = newKey();
    expect(await statesAtOnce(200, () => ledger.claim(claimAttempt({ key })))).toEqual({
      claimed: 1,
      'under way': 199,
    });
  });

  test.each([['completed'], ['declined']])(
    '1, 7: a claim that names its outcome is settled in its commit, as %s',
    async (end) => {
      const attempt = claimAttempt({ amount: '0.01', currency: 'EUR', client: 'key:shop' });
      const { key, transactionId, fingerprint, client } = attempt;
      const outcome = end === 'declined' ? DECLINED : completed(attempt);
      const before = clock.now();
      const settleAs = { outcome, idempotencyTtlMs: LONG_MS };
      const { final } = inState(await ledger.claim({ ...attempt, settleAs }), 'settled');
      expect(final).toEqual({ outcome, fingerprint, client, expiresAt: expect.any(Number) });
      expect(final.expiresAt).toBeGreaterThanOrEqual(Math.floor(before) + LONG_MS);
      expect(final.expiresAt).toBeLessThanOrEqual(clock.now() + LONG_MS + clockSetBackMs());
      expect(await ledger.find(key)).toEqual(finalState(final));
      const state = outcome.state;
      expect(await history.find(key)).toMatchObject({ state, transactionId, amount: '0.01', executions: 1 });
      expect(await ledger.claim(claimAttempt({ key }))).toEqual(finalState(final));
    },
  );

  test('1, 7: of two hundred claims at once that name their outcome one writes it, and the others are answered with it', async () => {
    const key = newKey();
    const claim = (attempt: ClaimAttempt) =>
      ledger.claim({ ...attempt, settleAs: { outcome: completed(attempt), idempotencyTtlMs: LONG_MS } });
    const ends = await Promise.all(Array.from({ length: 200 }, () => claim(claimAttempt({ key }))));
    const [settled, ...more] = ends.filter(({ state }) => state === 'settled');
    expect(more).toEqual([]);
    const { final } = inState(settled as ClaimResult, 'settled');
    expect(ends.filter((end) => end !== settled)).toEqual(Array(199).fill(finalState(final)));
    const { transactionId } = final.outcome as Extract<Outcome, { state: 'COMPLETED' }>;
    expect(await history.find(key)).toMatchObject({ transactionId });
  });

  test('2 to 4: a claim that names its outcome changes no row that was there, and writes none when it is late', async () => {
    const claim = (members: Partial<ClaimAttempt>) =>
      ledger.claim(claimAttempt({ ...members, settleAs: { outcome: DECLINED, idempotencyTtlMs: LONG_MS } }));
    const late = newKey();
    expect(await claim({ key: late, claimBy: clock.monotonic() - SHORT_MS })).toEqual({ state: 'too late' });
    expect(await ledger.find(late)).toEqual({ state: 'absent' });
    expect(await claim({ key: (await given.claim()).key })).toMatchObject({ state: 'under way' });
    const { key, processor } = await given.deadClaim();
    expect(await claim({ key, processor })).toMatchObject({ state: 'taken over', claim: { epoch: 2 } });
    expect(await underWay(key)).toMatchObject({ state: 'under way' });
  });

  test('1: a transaction id that another payment has is refused without a row, and claims sent with it succeed', async () => {
    const { transactionId } = await given.claim();
    const refused = claimAttempt({ transactionId });
    const ends = await Promise.allSettled([claimAttempt(), refused, claimAttempt()].map((each) => ledger.claim(each)));
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(await ledger.find(refused.key)).toEqual({ state: 'absent' });
  });

  test('2: a claim after claimBy is too late and leaves no row, unless there is one', async () => {
    const late = claimAttempt({ claimBy: clock.monotonic() - SHORT_MS });
    expect(await ledger.claim(late)).toEqual({ state: 'too late' });
    expect(await ledger.find(late.key)).toEqual({ state: 'absent' });
    const claim = await given.claim({ key: late.key });
    expect(await ledger.claim(late)).toMatchObject({ state: 'under way' });
    const final = await given.settled(claim);
    expect(await ledger.claim(late)).toEqual(finalState(final));
  });

  test('3, 6: under a live lease its fingerprint and remaining life are told, and a renewal lengthens it', async () => {
    const claim = await given.claim({ amount: '7.00', currency: 'EUR' });
    const other = inState(await ledger.claim(claimAttempt({ key: claim.key, amount: '9.00' })), 'under way');
    const verdict = inState(await given.resolve(claim.key), 'under way');
    expect(other.fingerprint).toBe('7.00 EUR');
    for (const { remainingMs } of [other, verdict, await underWay(claim.key)]) {
      expect(remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(remainingMs).toBeLessThanOrEqual(LONG_MS);
    }
    expect(await ledger.renew(claim, 2 * LONG_MS)).toBe(true);
    expect((await underWay(claim.key)).remainingMs).toBeGreaterThan(LONG_MS);
    const dead = await given.deadClaim();
    expect(await ledger.renew(dead, LONG_MS)).toBe(true);
    expect((await underWay(dead.key)).remainingMs).toBeGreaterThan(LONG_MS / 2);
  });

  test('4: a takeover has the next epoch, its own owner, and the values of the row', async () => {
    const processor = newProcessorName();
    const first = await given.deadClaim({ processor, amount: '7.00', currency: 'EUR', client: 'jwt:shop' });
    const { key } = first;
    const second = await ledger.takeOver({ key, processor, owner: 'second', leaseMs: SHORT_MS });
    const { claimedAtWallMs } = second as Claim;
    const taken = { ...first, ageMs: expect.any(Number), unsent: false, claimedAtWallMs };
    expect(second).toEqual({ ...taken, epoch: 2, owner: 'second' });
    expect(second?.ageMs).toBeGreaterThanOrEqual(SHORT_MS);
    await pass(SHORT_MS);
    const [third] = await ledger.takeOverDue({
      processor,
      owner: 'third',
      leaseMs: SHORT_MS,
      first: 'longest due',
      limit: 10,
    });
    expect(third).toEqual({ ...taken, epoch: 3, owner: 'third' });
    await pass(SHORT_MS);
    const attempt = claimAttempt({ key, processor, owner: 'fourth', amount: '9.00', currency: 'CHF' });
    const fourth = inState(await ledger.claim(attempt), 'taken over').claim;
    expect(fourth).toEqual({ ...taken, epoch: 4, owner: 'fourth' });
    expect(await underWay(key)).toMatchObject({ fingerprint: '7.00 EUR' });
    expect(await ledger.settle(fourth, completed(fourth), LONG_MS)).toMatchObject({ state: 'settled' });
  });

  test('4: of fifty takeovers at once exactly one succeeds', async () => {
    const { key, processor } = await given.deadClaim();
    const takeOver = () => ledger.takeOver({ key, owner: newOwner(), leaseMs: LONG_MS, processor });
    const ask = async () => ({ state: (await takeOver()) ? 'taken over' : 'left' });
    expect(await statesAtOnce(50, ask)).toEqual({ 'taken over': 1, left: 49 });
  });

  test.each(['settled', 'resolved as completed', 'resolved as declined'])(
    '7: a payment that is %s is final with its own id or the reason, its fingerprint, and a life from now',
    async (end) => {
      const client = 'key:shop';
      const claim = end === 'settled' ? await given.claim({ client }) : await given.abandoned({ client });
      const { key, fingerprint } = claim;
      const outcome = end === 'resolved as declined' ? DECLINED : completed(claim);
      const before = clock.now();
      const ended = end === 'settled' ? ledger.settle(claim, outcome, LONG_MS) : given.resolve(key, { ...outcome });
      const { final } = { final: undefined, ...(await ended) };
      expect(final).toEqual({ outcome, fingerprint, client, expiresAt: expect.any(Number) });
      expect(final?.expiresAt).toBeGreaterThanOrEqual(Math.floor(before) + LONG_MS);
      expect(final?.expiresAt).toBeLessThanOrEqual(clock.now() + LONG_MS + clockSetBackMs());
      expect(await ledger.find(key)).toEqual({ state: 'final', final });
    },
  );

  test('7: of many settles and verdicts at once exactly one is written', async () => {
    const claim = await given.deadClaim();
    const settle = () => statesAtOnce(20, () => ledger.settle(claim, completed(claim), LONG_MS));
    const [settles, verdicts] = await Promise.all([
      settle(),
      statesAtOnce(20, () => given.resolve(claim.key, DECLINED)),
    ]);
    const { settled: won = 0 } = settles;
    expect(settles).toEqual(won ? { settled: 1, final: 19 } : { final: 20 });
    expect(verdicts).toEqual(won ? { 'settled before': 20 } : { resolved: 1, 'settled before': 19 });
    const state = won ? 'COMPLETED' : 'DECLINED';
    expect(await ledger.find(claim.key)).toMatchObject({ final: { outcome: { state } } });
  });

  /**
   * Bug: a payment that was given up stayed leased for a whole lease. Cause: a renewal of the same attempt, sent just
   * before and in the same statement, was executed last. Fix: an abandonment removes the owner as well.
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

  test('12: in every state a row is absent for another client, and found by its owner and by a caller that sees all keys', async () => {
    const client = 'key:shop';
    const owned = [await given.claim({ client }), await given.abandoned({ client }), await given.claim({ client })];
    await given.settled(owned[2] as Claim);
    for (const { key } of owned) {
      expect(await ledger.find(key, 'key:sho')).toEqual({ state: 'absent' });
      expect((await ledger.find(key, client)).state).toBe((await ledger.find(key)).state);
      expect(await ledger.find(key, client)).not.toEqual({ state: 'absent' });
    }
    const { key } = await given.claim();
    expect(await ledger.find(key, client)).toMatchObject({ state: 'under way' });
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

  test('12: a key has ended unclaimed only when it is older than its life and has no row', async () => {
    const keyOfAge = (ms: number) => newKeyOf(clock.now() - ms);
    const ended = (key: string, client?: string) => ledger.endedUnclaimed(key, LONG_MS, client);
    const young = [keyOfAge(0), keyOfAge(LONG_MS / 2), keyOfAge(-LONG_MS), `f${newKey().slice(1)}`];
    for (const key of young) expect(await ended(key)).toBe(false);
    const old = keyOfAge(2 * LONG_MS);
    expect(await ended(old)).toBe(true);
    await given.claim({ key: old });
    expect(await ended(old)).toBe(false);
    const paid = await given.claim({ key: keyOfAge(2 * LONG_MS) });
    await given.settled(paid, { ttlMs: SHORT_MS });
    await pass(SHORT_MS);
    expect(await ended(paid.key)).toBe(false);
  });

  test('12: a row of another client is none, and one without a client is one for each', async () => {
    const [owned, free] = [newKeyOf(clock.now() - 2 * LONG_MS), newKeyOf(clock.now() - 2 * LONG_MS)];
    await given.claim({ key: owned, client: 'key:shop' });
    await given.claim({ key: free });
    const ended = (key: string) =>
      Promise.all(['key:shop', 'key:rival', undefined].map((client) => ledger.endedUnclaimed(key, LONG_MS, client)));
    expect(await ended(owned)).toEqual([false, true, false]);
    expect(await ended(free)).toEqual([false, false, false]);
  });

  test('13: no row is said to be lost where none was', async () => {
    const computed = turnsOf(ports.id)(newReference()).key;
    for (const key of [newKey(), newKeyOf(clock.now() - 2 * LONG_MS), computed]) {
      expect(await ledger.mayBeLost(key)).toBe(false);
    }
  });
}
