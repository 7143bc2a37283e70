import { expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  claimAttempt,
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
import { clockSetBackMs } from '../../testkit/time/patience.js';

/**
 * Guarantees of every PaymentHistory on `findLife` beyond its type: 1. It tells each step besides the first attempt and its settlement, and
 * whose it was; it tells nothing of a payment without other steps. 2. If there are many steps, the first and the last are kept, and the
 * others are counted.
 */
export function paymentLifeContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);

  function expectBetween(time: number | undefined, from: number): void {
    expect(time).toBeGreaterThanOrEqual(Math.floor(from));
    expect(time).toBeLessThanOrEqual(clock.now() + clockSetBackMs());
  }

  const lifeOf = async (key: string) => {
    const life = await history.findLife(key);
    if (!life) throw new Error('there is no such payment');
    return life;
  };

  test('1: of a payment that one attempt claims and settles nothing more is kept, whatever its outcome', async () => {
    expect(await history.findLife(newKey())).toBeUndefined();
    const claims = (await given.claims(3)) as [Claim, Claim, Claim];
    const [paid, declined, open] = claims;
    // In one batch with one that has something to tell.
    const noted = await given.takeover(await given.abandoned());
    await Promise.all([
      given.settled(paid),
      given.settled(declined, { outcome: DECLINED }),
      ledger.settle(noted, { ...DECLINED }, LONG_MS, { lookedUp: 'found', sent: false }),
    ]);
    for (const { key, owner } of claims) {
      const life = await lifeOf(key);
      expect(life).toMatchObject({ events: [], omitted: 0, epoch: 1, owner, unsent: false });
      expect(life.payment).toEqual(await history.find(key));
    }
    expect((await lifeOf(noted.key)).events).toHaveLength(3);
    const { leaseUntil, recoverAt, now, expiresAt, payment } = await lifeOf(open.key);
    expect([recoverAt, expiresAt]).toEqual([leaseUntil, undefined]);
    expect(leaseUntil - payment.claimedAt).toBe(LONG_MS);
    expectBetween(now, payment.claimedAt);
    expect((await lifeOf(paid.key)).expiresAt).toBeGreaterThan(now);
    const at = { ...claimAttempt(), settleAs: { outcome: DECLINED, idempotencyTtlMs: LONG_MS } };
    expect(await ledger.claim(at)).toMatchObject({ state: 'settled' });
    expect(await lifeOf(at.key)).toMatchObject({ events: [], owner: at.owner, payment: DECLINED });
  });

  test('1: each step names the attempt and its owner, also an attempt that wrote no end', async () => {
    const before = Math.floor(clock.now());
    const first = await given.deadClaim();
    const second = await given.takeover(first);
    const cause = 'no connection\nto \u0000 the processor \ud83d';
    await ledger.abandon(second, 0, undefined, { sent: false, lookedUp: 'no record', cause });
    const third = await given.takeover(first, { leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    const fourth = inState(await ledger.claim(claimAttempt({ key: first.key })), 'taken over').claim;
    await ledger.settle(fourth, { ...DECLINED }, LONG_MS, { lookedUp: 'no record', sent: true });
    const life = await lifeOf(first.key);
    expect(life).toMatchObject({ epoch: 4, owner: fourth.owner, omitted: 0, payment: { executions: 4, ...DECLINED } });
    expect(life.events).toEqual([
      { kind: 'taken over', execution: 2, from: first.owner, at: expect.any(Number) },
      {
        ...{ kind: 'given up', execution: 2, owner: second.owner, at: expect.any(Number), sent: false },
        ...{ lookedUp: 'no record', cause: 'no connection to   the processor \ufffd' },
      },
      { kind: 'taken over', execution: 3, from: undefined, at: expect.any(Number) },
      { kind: 'taken over', execution: 4, from: third.owner, at: expect.any(Number) },
      { kind: 'settled', execution: 4, owner: fourth.owner, lookedUp: 'no record', at: expect.any(Number) },
    ]);
    const times = [before, ...life.events.map(({ at }) => at), clock.now()];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
  });

  test('1: recovery and an operator name the owner that they overwrite, and a fenced-off attempt writes nothing', async () => {
    const processor = newProcessorName();
    const [first, second] = [await given.deadClaim({ processor }), await given.deadClaim({ processor })];
    await ledger.abandon(second, 0, 'unsent', { sent: false, cause: 'é'.repeat(500) });
    expect(await lifeOf(second.key)).toMatchObject({ unsent: true, owner: undefined });
    const third = await given.deadClaim();
    await ledger.abandon(third, 0, 'charged an amount that is not known', { sent: true });
    const unknownAmount = await lifeOf(third.key);
    expect(unknownAmount).toMatchObject({ unsent: false, chargedUnknownAmount: true });
    expect(unknownAmount.resolutionCountsFrom).toBe(unknownAmount.payment.claimedAt);
    const owner = newOwner();
    await ledger.takeOverDue({ owner, leaseMs: SHORT_MS, processor, first: 'longest due', limit: 10 });
    expect(await ledger.abandon(first, 0, undefined, { sent: true, cause: 'late' })).toBe(false);
    await pass(SHORT_MS);
    await given.resolve(first.key, { owner: 'operator' });
    const taken = { kind: 'taken over', execution: 2, at: expect.any(Number) };
    const resolved = { kind: 'resolved', execution: 3, from: owner, at: expect.any(Number) };
    expect(await lifeOf(first.key)).toMatchObject({
      ...{ events: [{ ...taken, from: first.owner }, resolved], owner: 'operator' },
      payment: { executions: 2, resolution: 'seen on the statement' },
    });
    const givenUp = { kind: 'given up', execution: 1, owner: second.owner, sent: false, at: expect.any(Number) };
    expect((await lifeOf(second.key)).events).toEqual([
      { ...givenUp, cause: expect.stringMatching(/^é{89}…$/) },
      { ...taken, from: undefined },
    ]);
  });

  test('2: of many steps the first eight and the last forty are kept, in a column that stops growing', async () => {
    let claim = await given.claim();
    const cause = '語'.repeat(200);
    for (let execution = 1; execution <= 40; execution += 1) {
      await ledger.abandon(claim, 0, undefined, { sent: true, lookedUp: 'no record', cause });
      claim = await given.takeover(claim);
      const { events, omitted } = await lifeOf(claim.key);
      expect(events.length + omitted).toBe(2 * execution);
      expect(events.length).toBeLessThanOrEqual(48);
    }
    const { events, omitted } = await lifeOf(claim.key);
    expect([events.length, omitted]).toEqual([48, 32]);
    const executions = events.map(({ execution }) => execution);
    expect(executions.slice(0, 8)).toEqual([1, 2, 2, 3, 3, 4, 4, 5]);
    expect(executions.slice(8, 11)).toEqual([21, 22, 22]);
    expect(executions.at(-1)).toBe(41);
  });
}
