import { expect, test } from 'vitest';
import { RESOLVABLE_AFTER_UNTIL_MS } from '#idempay/payments/ports/ledger.js';
import type { Claim, PendingPayment } from '#idempay/payments/values/payment.js';
import {
  cancellation,
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newOwner,
  newProcessorName,
  newReference,
  SHORT_MS,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { clockSetBackMs } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

const NOTE = { sent: true, cause: 'cannot be ended' } as const;
/** The shortest time until a pending payment is asked about again. */
const NEXT_QUESTION_MS = 5_000;
const SOONEST_QUESTION_MS = 1_000;
const MINUTE_MS = 60_000;
const DEADLINE_MS = 20_000;

/**
 * Guarantees of every Ledger on payments that wait at the processor, and on payments that a cancellation ends, beyond its types (rules P24
 * and P25; for times of hours and days: `adapters/pending-rows`):
 *  1. `find`, `claim` and `cancel` report a payment that was left as pending as such, with a lease or without. 2. Only a `takeOver` that
 *     says so and `beginEnding` take it over; a claim and recovery never do. 3. Only the execution that has the payment leaves it.
 *     4. `leave` keeps everything that it does not change: the expected end, the ending, the processor's name of the charge, the content.
 *  5. `duePending` returns due pending payments of its processor, at most `limit`, each to one of several concurrent calls, and moves
 *     nothing but the time of their next question. 6. `movePending` moves the end without an event, and changes no final or other row.
 *  7. Counts of abandoned payments leave pending ones out, which have a count of their own. 8. An operator resolves a pending payment an
 *     hour after its expected end. 9. No attempt follows one that is pending, and the refusal says why.
 * 10. An ending takes over a payment of its processor that no execution works on, pending or not, and stays in the row until it is
 *     cleared. 11. With `onlyUnsent` it takes over only a payment that was last given up as unsent. 12. An ending of the order is never
 *     narrowed to an attempt.
 * 13. A settlement writes the processor's name of the charge, or keeps it.
 */
export function ledgerPendingContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  const turn = turnsOf(ports.id);
  const inMs = (ms: number) => Math.floor(clock.now()) + ms;

  async function lifeOf(key: string) {
    const life = await history.findLife(key);
    if (!life) throw new Error('there is no such payment');
    return life;
  }

  /** The payment as `find` tells it. */
  async function pendingOf(key: string): Promise<PendingPayment> {
    return inState(await ledger.find(key), 'pending').payment;
  }

  const duePending = (processor: string, limit = 10) => ledger.duePending({ processor, limit });
  const keysOf = (payments: readonly { readonly key: string }[]) => payments.map(({ key }) => key).sort();

  async function begunEnding(
    claim: Pick<Claim, 'key' | 'processor'>,
    members: Parameters<typeof given.beginEnding>[1] = {},
  ) {
    const begun = await given.beginEnding(claim, members);
    if (!begun) throw new Error('the payment was not taken over');
    return begun;
  }

  test('1, 4: a payment that was left as pending is told so, with all that its question needs, and has no lease', async () => {
    const [processor, untilMs] = [newProcessorName(), inMs(LONG_MS)];
    const at = turn(newReference(), 1, { client: 'key:shop' });
    const claim = await given.pending({ ...at, processor }, { pendingUntilMs: untilMs, processorId: 'ch_1' });
    const { key, transactionId, fingerprint, amount, currency } = claim;
    const payment = {
      ...{ key, transactionId, fingerprint, amount, currency, processor, client: 'key:shop' },
      ...{ reference: at.turn.reference.text, attempt: 1, processorId: 'ch_1', untilMs, remainingMs: 0 },
    };
    expect(await ledger.find(key)).toEqual({ state: 'pending', payment });
    expect(await ledger.find(key, 'key:shop')).toEqual({ state: 'pending', payment });
    expect(await ledger.find(key, 'key:other')).toEqual({ state: 'absent' });
    expect(await ledger.claim(claimAttempt({ ...at, processor }))).toEqual({ state: 'pending', payment });
    expect(await ledger.cancel(cancellation({ ...at, processor }))).toEqual({ state: 'pending', payment });
    expect(await lifeOf(key)).toMatchObject({ leaseUntil: 0, owner: undefined, epoch: 1, unsent: false });
    expect(await history.find(key)).toMatchObject({ state: 'PROCESSING', pendingUntil: untilMs, processorId: 'ch_1' });
  });

  test('1, 2: only a takeover that says so takes it over; under its lease it is pending still, and is not taken over again', async () => {
    const content = { source: 'tok_1', description: 'Shoes', returnUrl: 'https://shop.example/back?a=1' };
    const left = await given.pending({ processor: newProcessorName(), content }, { processorId: 'ch_1' });
    const { key, processor } = left;
    const by = { key, processor, owner: newOwner(), leaseMs: LONG_MS };
    expect(await ledger.takeOver(by)).toBeUndefined();
    expect(await ledger.takeOver({ ...by, isPending: false })).toBeUndefined();
    expect(await ledger.takeOver({ ...by, isPending: true, processor: 'other' })).toBeUndefined();
    const taken = await given.takeover(left, { isPending: true });
    expect(taken).toMatchObject({ epoch: 2, isPending: true, processorId: 'ch_1', unsent: false, content });
    expect((await pendingOf(key)).remainingMs).toBeGreaterThan(0);
    expect(
      inState(await ledger.claim(claimAttempt({ key, processor })), 'pending').payment.remainingMs,
    ).toBeGreaterThan(0);
    expect(
      inState(await ledger.cancel(cancellation({ key, processor })), 'pending').payment.remainingMs,
    ).toBeGreaterThan(0);
    expect(await ledger.takeOver({ ...by, isPending: true })).toBeUndefined();
    expect(await given.beginEnding(left)).toBeUndefined();
    expect((await lifeOf(key)).events.map(({ kind }) => kind)).toEqual(['given up', 'taken over']);
  });

  test('2: a takeover of pending payments takes over others too, and a former name counts', async () => {
    const [former, processor] = [newProcessorName(), newProcessorName()];
    const [pending, abandoned] = [
      await given.pending({ processor: former }),
      await given.abandoned({ processor: former }),
    ];
    for (const [{ key }, isPending] of [[pending, true] as const, [abandoned, undefined] as const]) {
      const owner = newOwner();
      const by = { key, owner, leaseMs: LONG_MS, processor, formerProcessors: [former], isPending: true };
      const taken = await ledger.takeOver(by);
      expect(taken).toMatchObject({ key, epoch: 2, owner, processor: former });
      expect(taken?.isPending).toBe(isPending);
    }
  });

  test('2: recovery does not take a pending payment over, whatever its lease was', async () => {
    const processor = newProcessorName();
    const left = await given.pending({ processor });
    const dead = await given.pending({ processor });
    await given.takeover(dead, { isPending: true, leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    for (const first of ['longest due', 'latest due'] as const) {
      const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor, first, limit: 10 };
      expect(await ledger.takeOverDue(takeover)).toEqual([]);
    }
    expect(keysOf(await duePending(processor))).toEqual(keysOf([left, dead]));
  });

  test('3: an execution that was fenced off leaves nothing, and nobody leaves a payment that is final', async () => {
    const first = await given.deadClaim();
    const second = await given.takeover(first);
    const left = { recoverAfterMs: 0, pendingUntilMs: inMs(LONG_MS), processorId: 'ch_late' };
    expect(await ledger.leave(first, left, NOTE)).toBe(false);
    expect(await ledger.leave({ ...second, owner: newOwner() }, left, NOTE)).toBe(false);
    expect(await ledger.leave({ ...second, epoch: 1 }, left, NOTE)).toBe(false);
    expect(await ledger.find(first.key)).toMatchObject({ state: 'under way' });
    expect(await ledger.leave(second, left, NOTE)).toBe(true);
    expect(await ledger.leave(second, left, NOTE)).toBe(false);
    const paid = await given.claim();
    await given.settled(paid);
    expect(await ledger.leave(paid, left, NOTE)).toBe(false);
    expect(await history.find(paid.key)).toMatchObject({ state: 'COMPLETED', processorId: undefined });
  });

  test('3: of many that are left at once each is left as it says', async () => {
    const claims = await given.claims(20);
    const untilMs = inMs(LONG_MS);
    const written = await Promise.all(
      claims.map((claim, n) => {
        const pendingUntilMs = n % 3 === 0 ? undefined : untilMs + n;
        const processorId = n % 2 === 0 ? `ch_${n}` : undefined;
        return ledger.leave(claim, { recoverAfterMs: 0, pendingUntilMs, processorId }, { sent: true, cause: `${n}` });
      }),
    );
    expect(written).toEqual(claims.map(() => true));
    for (const [n, { key }] of claims.entries()) {
      if (n % 3 === 0) expect(await ledger.find(key)).toEqual({ state: 'abandoned' });
      else expect(await pendingOf(key)).toMatchObject({ untilMs: untilMs + n });
      expect((await history.find(key))?.processorId).toBe(n % 2 === 0 ? `ch_${n}` : undefined);
      expect((await lifeOf(key)).events).toMatchObject([{ kind: 'given up', cause: `${n}` }]);
    }
  });

  test('4: what a later leaving or giving up does not name stays as it is', async () => {
    const untilMs = inMs(LONG_MS);
    const left = await given.pending(
      { processor: newProcessorName() },
      { pendingUntilMs: untilMs, processorId: 'ch_1' },
    );
    const second = await given.takeover(left, { isPending: true });
    const note = { lookedUp: 'found', sent: false, pendingUntil: untilMs } as const;
    expect(await ledger.leave(second, { recoverAfterMs: LONG_MS }, note)).toBe(true);
    expect(await pendingOf(left.key)).toMatchObject({ untilMs, processorId: 'ch_1' });
    const life = await lifeOf(left.key);
    expect(life.recoverAt - life.now).toBeGreaterThan(LONG_MS / 2);
    expect(life.events.at(-1)).toMatchObject({ kind: 'given up', execution: 2, owner: second.owner, ...note });
    const third = await given.takeover(left, { isPending: true });
    expect(await ledger.abandon(third, 0)).toBe(true);
    expect(await pendingOf(left.key)).toMatchObject({ untilMs, processorId: 'ch_1', remainingMs: 0 });
    expect(keysOf(await duePending(left.processor))).toEqual([left.key]);
  });

  test('4: a leaving that says what is charged writes that, and the other ones of its batch keep their own', async () => {
    const claims = await given.claims(3, { processor: newProcessorName() });
    const charged = { amount: '9.50', currency: 'EUR', fingerprint: '9.50 EUR' };
    const left = { recoverAfterMs: 0, pendingUntilMs: inMs(LONG_MS) };
    await Promise.all(
      claims.map((claim, n) => ledger.leave(claim, { ...left, ...(n === 1 && { charged }) }, { sent: true })),
    );
    for (const [n, { key, amount, currency, fingerprint }] of claims.entries())
      expect(await pendingOf(key)).toMatchObject(n === 1 ? charged : { amount, currency, fingerprint });
  });

  test('4: a mark of an unsent payment does not outlive its leaving', async () => {
    const unsent = await given.abandoned({}, 0, 'unsent');
    const left = await given.takeover(unsent);
    expect(left.unsent).toBe(true);
    await ledger.leave(left, { recoverAfterMs: 0 }, NOTE);
    expect(await given.beginEnding(left, { onlyUnsent: true })).toBeUndefined();
    expect(await given.takeover(left)).toMatchObject({ epoch: 3, unsent: false });
  });

  test('5: pending payments of the processor that are due are told, longest due first, and are not due again at once', async () => {
    const processor = newProcessorName();
    const claims: Claim[] = [];
    for (let n = 0; n < 3; n += 1) {
      claims.unshift(await given.pending({ processor, client: `key:${n}` }));
      await pass(1);
    }
    const [third, second, first] = claims as [Claim, Claim, Claim];
    await given.pending({ processor }, { recoverAfterMs: LONG_MS });
    await given.pending({ processor: newProcessorName() });
    const other = await given.abandoned({ processor });
    const before = await lifeOf(first.key);
    expect(await duePending(processor, 1)).toEqual([await pendingOf(first.key)]);
    const { recoverAt, ...after } = await lifeOf(first.key);
    expect(after).toEqual({ ...before, recoverAt: undefined, now: after.now });
    expect(recoverAt - after.now).toBeGreaterThan(NEXT_QUESTION_MS - SOONEST_QUESTION_MS);
    expect(recoverAt - before.now).toBeLessThan(LONG_MS);
    expect(keysOf(await duePending(processor, 10))).toEqual(keysOf([second, third]));
    expect(await duePending(processor, 10)).toEqual([]);
    const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor, first: 'longest due', limit: 10 } as const;
    expect(keysOf(await ledger.takeOverDue(takeover))).toEqual([other.key]);
  });

  test('5: of several at once each gets payments of its own, at most so many, and together all', async () => {
    const processor = newProcessorName();
    const claims = await Promise.all(Array.from({ length: 40 }, () => given.pending({ processor })));
    const told = await Promise.all(Array.from({ length: 6 }, () => duePending(processor, 6)));
    for (const batch of told) expect(batch.length).toBeLessThanOrEqual(6);
    const rest = await duePending(processor, 40);
    expect(keysOf([...told.flat(), ...rest])).toEqual(keysOf(claims));
  });

  test('5: a question that would come after the expected end comes then, but not at once', async () => {
    const processor = newProcessorName();
    const nextOf = async (pendingUntilMs: number) => {
      const { key } = await given.pending({ processor }, { pendingUntilMs });
      const asked = await lifeOf(key);
      await duePending(processor);
      const { now: answered, recoverAt: next } = await lifeOf(key);
      return { asked: asked.now, answered, next };
    };
    const { soon, next } = await until('a question in time before the end', DEADLINE_MS, async () => {
      const end = inMs(3_000);
      const question = await nextOf(end);
      return question.answered < end - SOONEST_QUESTION_MS && { soon: end, next: question.next };
    });
    expect(next).toBe(soon);
    const now = inMs(1);
    const atOnce = await nextOf(now + SOONEST_QUESTION_MS / 2);
    expect(atOnce.next - atOnce.asked).toBeGreaterThanOrEqual(SOONEST_QUESTION_MS);
    const past = await nextOf(now - MINUTE_MS);
    expect(past.next - past.asked).toBeGreaterThanOrEqual(NEXT_QUESTION_MS);
  });

  test('6: the end moves without an event, and so does a question that was to come after it', async () => {
    const left = await given.pending({}, { recoverAfterMs: LONG_MS });
    const before = await lifeOf(left.key);
    const later = inMs(LONG_MS * 2);
    await ledger.movePending(left.key, later);
    expect(await pendingOf(left.key)).toMatchObject({ untilMs: later });
    const moved = await lifeOf(left.key);
    expect([moved.recoverAt, moved.events, moved.epoch]).toEqual([before.recoverAt, before.events, before.epoch]);
    const past = inMs(-MINUTE_MS);
    await ledger.movePending(left.key, past);
    expect(await pendingOf(left.key)).toMatchObject({ untilMs: past });
    expect((await lifeOf(left.key)).recoverAt).toBe(before.recoverAt);
    const sooner = inMs(LONG_MS / 2);
    await ledger.movePending(left.key, sooner);
    expect((await lifeOf(left.key)).recoverAt).toBe(sooner);
    await ledger.movePending(left.key, inMs(10));
    const { now, recoverAt } = await lifeOf(left.key);
    expect(recoverAt - now).toBeLessThanOrEqual(SOONEST_QUESTION_MS + clockSetBackMs());
    expect(recoverAt).toBeLessThan(sooner);
  });

  test('6: no end is moved of a payment that is final, is not pending or is not there', async () => {
    const [final, other] = [await given.pending(), await given.claim()];
    await given.settled(await given.takeover(final, { isPending: true }));
    const before = [await lifeOf(final.key), await lifeOf(other.key)].map((life) => ({ ...life, now: 0 }));
    for (const key of [final.key, other.key, newKey()]) await ledger.movePending(key, inMs(LONG_MS / 2));
    expect([await lifeOf(final.key), await lifeOf(other.key)].map((life) => ({ ...life, now: 0 }))).toEqual(before);
    expect(await history.find(final.key)).toMatchObject({ state: 'COMPLETED', pendingUntil: undefined });
    expect(await ledger.find(other.key)).toMatchObject({ state: 'under way' });
  });

  test('7: pending payments are counted apart, and those whose end was expected before now', async () => {
    const before = [await ledger.countAbandoned(0, 0), (await ledger.backlog()).payments];
    const counted = await ledger.pendingBacklog();
    const [first] = [await given.pending(), await given.pending({}, { pendingUntilMs: inMs(-MINUTE_MS) })];
    await given.takeover(first, { isPending: true });
    await given.settled(await given.takeover(await given.pending(), { isPending: true }));
    await pass(1);
    const backlog = await ledger.pendingBacklog();
    expect(backlog.payments).toBe(counted.payments + 2);
    // The ends of other tests' payments may come meanwhile, except that of the first one here.
    expect(backlog.pastUntil).toBeGreaterThanOrEqual(counted.pastUntil + 1);
    expect(backlog.pastUntil).toBeLessThan(backlog.payments);
    expect(backlog.oldestMs).toBeGreaterThanOrEqual(1);
    expect([await ledger.countAbandoned(0, 0), (await ledger.backlog()).payments]).toEqual(before);
  });

  test('8: an operator resolves a pending payment an hour after its expected end, whatever its age, and under no lease', async () => {
    const soon = await given.pending({}, { pendingUntilMs: inMs(MINUTE_MS - RESOLVABLE_AFTER_UNTIL_MS) });
    const { remainingMs } = inState(await given.resolve(soon.key, { dedupMs: 0, idempotencyTtlMs: 1 }), 'too early');
    expect(remainingMs).toBeGreaterThan(0);
    expect(remainingMs).toBeLessThanOrEqual(MINUTE_MS + clockSetBackMs());
    const late = await given.pending(
      {},
      { pendingUntilMs: inMs(-RESOLVABLE_AFTER_UNTIL_MS - MINUTE_MS), processorId: 'ch_1' },
    );
    const taken = await given.takeover(late, { isPending: true });
    expect(await given.resolve(late.key)).toMatchObject({ state: 'under way' });
    await ledger.abandon(taken, LONG_MS);
    expect(await given.resolve(late.key, { dedupMs: LONG_MS, idempotencyTtlMs: LONG_MS })).toMatchObject({
      state: 'resolved',
    });
    expect(await history.find(late.key)).toMatchObject({
      state: 'COMPLETED',
      processorId: 'ch_1',
      pendingUntil: undefined,
    });
    expect(await ledger.takeOver({ ...late, owner: newOwner(), leaseMs: LONG_MS, isPending: true })).toBeUndefined();
  });

  test('8: one that was charged, and nobody knows how much, is resolved at once, also if it is pending', async () => {
    const left = await given.pending();
    const taken = await given.takeover(left, { isPending: true });
    await ledger.abandon(taken, LONG_MS, 'charged an amount that is not known');
    expect(await given.resolve(left.key, { dedupMs: LONG_MS })).toMatchObject({ state: 'resolved' });
    const other = await given.claim();
    await ledger.abandon(other, 0, 'charged an amount that is not known');
    await ledger.leave(await given.takeover(other), { recoverAfterMs: 0, pendingUntilMs: inMs(LONG_MS) }, NOTE);
    expect(await given.resolve(other.key)).toMatchObject({ state: 'too early' });
  });

  test('9: no attempt follows one that is pending, by a claim or by a cancellation, until it is declined', async () => {
    const text = newReference();
    const first = await given.pending(turn(text, 1));
    const second = turn(text, 2);
    const refused = { state: 'not its turn', previous: 'pending' };
    expect(await ledger.claim(claimAttempt(second))).toEqual(refused);
    expect(await ledger.cancel(cancellation(second))).toEqual(refused);
    const taken = await given.takeover(first, { isPending: true });
    expect(await ledger.claim(claimAttempt(second))).toEqual(refused);
    await given.settled(taken, { outcome: DECLINED });
    expect(await ledger.claim(claimAttempt(second))).toMatchObject({ state: 'claimed' });
    // The end that was expected of it stays in the row of one that was pending.
    const paid = newReference();
    await given.settled(await given.takeover(await given.pending(turn(paid, 1)), { isPending: true }));
    expect(await ledger.claim(claimAttempt(turn(paid, 2)))).toEqual({ ...refused, previous: 'completed' });
    expect(await ledger.claim(claimAttempt(turn(text, 3)))).toEqual({ ...refused, previous: 'under way' });
  });

  test.each([
    ['abandoned', () => given.abandoned({ processor: newProcessorName() }, LONG_MS)],
    ['pending', () => given.pending({ processor: newProcessorName() })],
  ])('10: an ending takes over what is %s, and is in the row, its claims and its record', async (state, arrange) => {
    const claim = await arrange();
    const { key, processor } = claim;
    const owner = newOwner();
    const begun = await begunEnding(claim, { owner, scope: 'attempt' });
    expect(begun).toMatchObject({ key, owner, epoch: 2, ending: 'attempt', processor, unsent: false });
    expect(begun.isPending).toBe(state === 'pending' ? true : undefined);
    const life = await lifeOf(key);
    expect(life.events.at(-1)).toMatchObject({ kind: 'taken over', execution: 2 });
    expect(life).toMatchObject({ owner, payment: { ending: 'attempt' } });
    expect(life.leaseUntil - life.now).toBeGreaterThan(LONG_MS / 2);
    expect(life.recoverAt).toBe(life.leaseUntil);
    await ledger.abandon(begun, 0);
    const again =
      state === 'pending'
        ? await given.takeover(claim, { isPending: true })
        : inState(await ledger.claim(claimAttempt({ key, processor })), 'taken over').claim;
    expect(again).toMatchObject({ epoch: 3, ending: 'attempt' });
    await given.settled(again, { outcome: DECLINED });
    expect(await history.find(key)).toMatchObject({ ...DECLINED, ending: 'attempt' });
    expect(await given.beginEnding(claim)).toBeUndefined();
  });

  test('10: recovery tells the ending of what it finds, pending or not', async () => {
    const processor = newProcessorName();
    const [other, pending] = [await given.abandoned({ processor }), await given.pending({ processor })];
    for (const claim of [other, pending]) await begunEnding(claim, { leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor, first: 'longest due', limit: 10 } as const;
    expect(await ledger.takeOverDue(takeover)).toMatchObject([{ key: other.key, ending: 'order' }]);
    expect(await duePending(processor)).toMatchObject([{ key: pending.key, ending: 'order' }]);
    expect(await pendingOf(pending.key)).toMatchObject({ ending: 'order' });
  });

  test('10: an ending takes over no live lease, nothing final, no payment of another processor, and one of a former name', async () => {
    const [former, processor] = [newProcessorName(), newProcessorName()];
    const live = await given.claim({ processor });
    expect(await given.beginEnding(live)).toBeUndefined();
    expect(await history.find(live.key)).toMatchObject({ ending: undefined, executions: 1 });
    expect(await given.beginEnding({ key: newKey(), processor })).toBeUndefined();
    const final = await given.deadClaim({ processor });
    await given.settled(final);
    expect(await given.beginEnding(final)).toBeUndefined();
    expect(await history.find(final.key)).toMatchObject({ state: 'COMPLETED', ending: undefined, executions: 1 });
    const claim = await given.abandoned({ processor: former });
    expect(await given.beginEnding({ ...claim, processor })).toBeUndefined();
    const by = { processor, formerProcessors: [former] };
    expect(await given.beginEnding(claim, by)).toMatchObject({ processor: former, ending: 'order' });
  });

  test('10: a leaving clears the ending only if it says so', async () => {
    const claim = await given.pending({ processor: newProcessorName() });
    await ledger.leave(await begunEnding(claim), { recoverAfterMs: 0 }, NOTE);
    expect(await pendingOf(claim.key)).toMatchObject({ ending: 'order' });
    const again = await given.takeover(claim, { isPending: true });
    await ledger.leave(again, { recoverAfterMs: 0, clearsEnding: true }, NOTE);
    expect((await pendingOf(claim.key)).ending).toBeUndefined();
    const other = await given.abandoned();
    await ledger.leave(await begunEnding(other), { recoverAfterMs: 0, clearsEnding: true }, NOTE);
    expect(await ledger.find(other.key)).toEqual({ state: 'abandoned' });
    const taken = await given.takeover(other);
    expect([taken.ending, taken.isPending, taken.unsent]).toEqual([undefined, undefined, false]);
  });

  test('11: an ending of unsent payments only takes over what was given up as unsent last', async () => {
    const unsent = await given.abandoned({}, 0, 'unsent');
    const [sent, died, pending] = [await given.abandoned(), await given.deadClaim(), await given.pending()];
    const sentSince = await given.abandoned({}, 0, 'unsent');
    await ledger.abandon(await given.takeover(sentSince), 0);
    const takenSince = await given.abandoned({}, 0, 'unsent');
    await given.takeover(takenSince, { leaseMs: SHORT_MS });
    const charged = await given.claim();
    await ledger.abandon(charged, 0, 'charged an amount that is not known');
    const sinceALoss = await given.claim();
    await ledger.abandon(sinceALoss, 0, 'unsent since a loss');
    await pass(SHORT_MS);
    for (const claim of [sent, died, pending, sentSince, takenSince, charged, sinceALoss]) {
      expect(await given.beginEnding(claim, { onlyUnsent: true })).toBeUndefined();
      expect(await history.find(claim.key)).toMatchObject({ ending: undefined });
    }
    expect(await given.beginEnding(unsent, { onlyUnsent: true })).toMatchObject({ unsent: true, ending: 'order' });
    const other = await given.abandoned({}, 0, 'unsent');
    expect(await given.beginEnding(other)).toMatchObject({ unsent: true, ending: 'order' });
    expect(await given.beginEnding(sent)).toMatchObject({ unsent: false, ending: 'order' });
  });

  test('12: an ending of the order stays one, and an ending of the attempt may become one', async () => {
    const claim = await given.pending();
    for (const [scope, ending] of [
      ['attempt', 'attempt'],
      ['order', 'order'],
      ['attempt', 'order'],
    ] as const) {
      const begun = await begunEnding(claim, { scope });
      expect(begun.ending).toBe(ending);
      await ledger.abandon(begun, 0);
    }
  });

  test("13: a settlement writes the processor's name of the charge, keeps one that is there, and changes no other row", async () => {
    const [named, renamed, without] = [
      { ...(await given.claim()), processorId: 'ch_1' },
      {
        ...(await given.takeover(await given.pending({}, { processorId: 'ch_2' }), { isPending: true })),
        processorId: 'ch_3',
      },
      await given.claim(),
    ];
    const { processorId: _, ...kept } = await given.takeover(await given.pending({}, { processorId: 'ch_4' }), {
      isPending: true,
    });
    const note = { lookedUp: 'found', sent: false } as const;
    await Promise.all([
      given.settled(named),
      ledger.settle(renamed, completed(renamed), LONG_MS, note),
      given.settled(without, { outcome: DECLINED }),
      given.settled(kept),
    ]);
    const ids = await Promise.all(
      [named, renamed, without, kept].map(async ({ key }) => (await history.find(key))?.processorId),
    );
    expect(ids).toEqual(['ch_1', 'ch_3', undefined, 'ch_4']);
    const left = await given.pending({}, { processorId: 'ch_6' });
    const { processorId: _6, ...unnamed } = await given.takeover(left, { isPending: true });
    const [lost, other] = [{ ...(await given.claim()), processorId: 'ch_5' }, await given.claim()];
    for (const [claim, processorId] of [
      [lost, 'ch_5'],
      [other, undefined],
      [unnamed, 'ch_6'],
    ] as const) {
      const settlement = { outcome: completed(claim), idempotencyTtlMs: LONG_MS, note };
      inState(await ledger.settleAfterLoss(claim, settlement), 'settled');
      expect((await history.find(claim.key))?.processorId).toBe(processorId);
    }
  });
}
