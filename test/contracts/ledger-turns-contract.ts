import { describe, expect, test } from 'vitest';
import type { Cancellation, ClaimAttempt } from '#idempay/payments/ports/ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  cancellation,
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newOwner,
  newReference,
  SHORT_MS,
  type TurnMembers,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps, statesAtOnce } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { clockSetBackMs } from '../../testkit/time/patience.js';
import { HOUR_MS, passHours } from '../../testkit/time/retention-time.js';

/** More than one batch of a store takes. */
const MANY = 200;
/** Times that two clocks of one store round to whole milliseconds. */
const ROUNDED_MS = 2;

/**
 * Guarantees of every Ledger on attempts at references, and on cancellations, beyond its types (rules P18 and P22):
 *  1. Attempt 1 asks about no other row; attempt n > 1 is claimed, or cancelled, only if attempt n-1 is DECLINED. A refusal says
 *     what it is, and writes nothing. 2. A row that is there answers by itself, whatever the attempt before it is.
 *  3. A decline of a certain age, by retention's time, lets no attempt follow. 4. A payment with a reference never expires: its
 *     outcome has a full life from any moment on. 5. Claims with and without a turn that arrive together do not change each other.
 *  6. A cancellation succeeds if there is no row, and again; otherwise the row says why not. It leaves every row as it is.
 *  7. Of claims and cancellations of one key at once one inserts its row. 8. What was cancelled is never claimed, taken over or settled.
 *     (After rows were lost: `adapters/distributed-replaced`, `adapters/embedded-restored`; of removal: `ledger-retention-contract.ts`.)
 */
export function ledgerTurnsContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  const turn = turnsOf(ports.id);
  const claim = (members: Partial<ClaimAttempt>) => ledger.claim(claimAttempt(members));
  const cancel = (members: Partial<Cancellation>) => ledger.cancel(cancellation(members));
  const ownerOf = async (key: string) => (await history.findLife(key))?.owner;

  /** How attempt 1 may be when attempt 2 is asked for. */
  const PREVIOUS: [state: string, arrange: (first: TurnMembers) => Promise<unknown>][] = [
    ['absent', async () => {}],
    ['under way', given.claim],
    ['under way', (first) => given.abandoned(first)],
    ['completed', async (first) => given.settled(await given.claim(first))],
    ['completed', (first) => claim({ ...first, settleAs: settleAs(completed({ transactionId: 'TXN1' })) })],
    ['completed', async (first) => given.resolve((await given.abandoned(first)).key)],
    ['cancelled', (first) => given.cancelled(first)],
  ];
  const settleAs = (outcome: ReturnType<typeof completed>) => ({ outcome, idempotencyTtlMs: LONG_MS });

  describe.each(PREVIOUS)('after an attempt that is %s', (previous, arrange) => {
    test('1: no attempt is claimed or cancelled, and nothing is written', async () => {
      const [text, client] = [newReference(), 'key:shop'];
      await arrange(turn(text, 1, { client }));
      const second = turn(text, 2, { client });
      const before = await history.newestAttempt(text, client);
      const refused = { state: 'not its turn', previous };
      expect(await claim(second)).toEqual(refused);
      expect(await claim({ ...second, settleAs: settleAs(DECLINED) })).toEqual(refused);
      expect(await cancel(second)).toEqual(refused);
      expect(await cancel({ ...second, isLookedUp: true })).toEqual(refused);
      expect(await ledger.find(second.key)).toEqual({ state: 'absent' });
      expect(await history.newestAttempt(text, client)).toEqual(before);
    });
  });

  /** Declines that the next attempt may follow. */
  const DECLINES: [how: string, decline: (first: TurnMembers) => Promise<unknown>][] = [
    ['by the processor', (first) => given.declined(first)],
    ['by the processor, so long ago that its record has expired', (first) => given.declined(first, SHORT_MS)],
    ['by the claim', (first) => claim({ ...first, settleAs: settleAs(DECLINED) })],
    ['by an operator', async (first) => given.resolve((await given.abandoned(first)).key, DECLINED)],
  ];

  test.each(DECLINES)(
    '1: after an attempt that was declined %s the next one is claimed, or cancelled',
    async (_how, decline) => {
      for (const client of ['key:shop', undefined]) {
        const [paid, closed] = [newReference(), newReference()].map((text) => ({
          first: turn(text, 1, { ...(client && { client }) }),
          second: turn(text, 2, { ...(client && { client }) }),
        })) as [Record<'first' | 'second', TurnMembers>, Record<'first' | 'second', TurnMembers>];
        for (const { first } of [paid, closed]) await decline(first);
        await pass(SHORT_MS);
        expect(await claim(paid.second)).toMatchObject({ state: 'claimed', claim: { epoch: 1, client, unsent: true } });
        expect(await cancel(closed.second)).toEqual({ state: 'cancelled' });
        expect(await history.find(paid.second.key)).toMatchObject({ attempt: 2, client, state: 'PROCESSING' });
      }
    },
  );

  test('1: the turn is that of one client and one text alone', async () => {
    const text = newReference();
    await given.declined(turn(text, 1, { client: 'key:shop' }));
    const refused = { state: 'not its turn', previous: 'absent' };
    for (const other of [
      turn(text, 2),
      turn(text, 2, { client: 'jwt:shop' }),
      turn(`${text}0`, 2, { client: 'key:shop' }),
    ]) {
      expect(await claim(other)).toEqual(refused);
    }
    expect(await claim(turn(text, 3, { client: 'key:shop' }))).toEqual(refused);
  });

  test('1: a whole row of attempts is claimed one after the other, each with its number', async () => {
    const text = newReference();
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      expect(await claim(turn(text, attempt + 1))).toMatchObject({ state: 'not its turn' });
      await given.declined(turn(text, attempt));
    }
    const last = turn(text, 6);
    expect(await statesAtOnce(50, () => claim(last))).toEqual({ claimed: 1, 'under way': 49 });
    expect(await history.newestAttempt(text, undefined)).toMatchObject({ key: last.key, attempt: 6, reference: text });
  });

  /**
   * Bug: an attempt that was asked for while the one before was being declined was answered as too late, as if its lock had ended.
   * Cause: its statement did not see the decline yet, and the question why did. Fix: then the claim is tried once more.
   */
  test('1: an attempt that is asked for while the one before is declined is claimed, or told that it is under way', async () => {
    const texts = Array.from({ length: MANY }, newReference);
    const firsts = await Promise.all(texts.map((text) => given.claim(turn(text))));
    const [ends, closed] = [new Set<string>(), new Set<string>()];
    const race = async (text: string, index: number) => {
      const settling = given.settled(firsts[index] as Claim, { outcome: DECLINED });
      const second = turn(text, 2);
      if (index % 2 === 0) ends.add((await claim(second)).state);
      else closed.add((await cancel(second)).state);
      await settling;
    };
    await Promise.all(texts.map(race));
    for (const state of ends) expect(['claimed', 'not its turn']).toContain(state);
    for (const state of closed) expect(['cancelled', 'not its turn']).toContain(state);
  });

  test('1: a claim or a cancellation after claimBy is too late, and writes nothing', async () => {
    const text = newReference();
    await given.declined(turn(text));
    const claimBy = clock.monotonic() - SHORT_MS;
    for (const late of [turn(text, 2), turn(newReference()), { key: newKey() }]) {
      expect(await claim({ ...late, claimBy })).toEqual({ state: 'too late' });
      expect(await cancel({ ...late, claimBy })).toEqual({ state: 'too late' });
      expect(await ledger.find(late.key)).toEqual({ state: 'absent' });
    }
  });

  test('2: a row that is there answers a claim by its own state, and is taken over, whatever the attempt before it is', async () => {
    const orphan = async () => {
      const [text, rest] = [newReference(), { lateMs: 0 }];
      await given.declined(turn(text));
      return { first: await given.claim(turn(text, 2)), again: turn(text, 2, rest) };
    };
    const [alive, dead, paid] = [await orphan(), await orphan(), await orphan()];
    expect(await claim(alive.again)).toMatchObject({ state: 'under way' });
    await ledger.abandon(dead.first, 0);
    expect(await claim(dead.again)).toMatchObject({ state: 'taken over', claim: { epoch: 2 } });
    const final = await given.settled(paid.first);
    expect(await claim(paid.again)).toMatchObject({ state: 'final', final: { outcome: final.outcome } });
    expect(await cancel(paid.again)).toMatchObject({ state: 'final', final: { outcome: final.outcome } });
  });

  test('3: after a decline of the given age, by the time that was noted, no attempt is claimed or cancelled', async () => {
    const text = newReference();
    await given.declined(turn(text));
    const [soon, late] = [turn(text, 2, { lateMs: 24 * HOUR_MS }), turn(text, 2, { lateMs: 22 * HOUR_MS })];
    // Its hour goes on for an hour at most before its age begins.
    await passHours(ledger, 23);
    const refused = { state: 'not its turn', previous: 'declined too long ago' };
    expect(await claim(late)).toEqual(refused);
    expect(await cancel(late)).toEqual(refused);
    expect(await ledger.find(late.key)).toEqual({ state: 'absent' });
    expect(await claim(soon)).toMatchObject({ state: 'claimed' });
    const other = newReference();
    await given.declined(turn(other));
    await passHours(ledger, 40);
    expect(await claim(turn(other, 2, { lateMs: 24 * HOUR_MS }))).toEqual(refused);
    expect(await claim(turn(other, 2))).toMatchObject({ state: 'claimed' });
  });

  test.each([
    ['settled', async (first: TurnMembers) => given.settled(await given.claim(first), { ttlMs: SHORT_MS })],
    [
      'settled by its claim',
      (first: TurnMembers) => claim({ ...first, settleAs: { outcome: DECLINED, idempotencyTtlMs: SHORT_MS } }),
    ],
    [
      'resolved',
      async (first: TurnMembers) =>
        given.resolve((await given.abandoned(first)).key, { ...DECLINED, idempotencyTtlMs: SHORT_MS }),
    ],
  ])(
    '4: a payment with a reference that is %s stays final, each time with a full life from then on',
    async (_end, arrange) => {
      const first = turn(newReference(), 1, { client: 'key:shop' });
      await arrange(first);
      await pass(3 * SHORT_MS);
      for (const ask of [ledger.find, ledger.find, (key: string) => claim({ ...first, key })]) {
        const before = clock.now();
        const { final } = inState(await ask(first.key), 'final');
        expect(final).toMatchObject({ client: 'key:shop', fingerprint: '100.50 USD' });
        expect(final.expiresAt).toBeGreaterThanOrEqual(before + SHORT_MS - ROUNDED_MS);
        expect(final.expiresAt).toBeLessThanOrEqual(clock.now() + SHORT_MS + clockSetBackMs());
      }
      expect(inState(await cancel(first), 'final').final.outcome.state).toBe((await history.find(first.key))?.state);
      expect(await ledger.find(first.key, 'key:rival')).toEqual({ state: 'absent' });
    },
  );

  test('5: claims that arrive together, with and without a turn and an outcome, are each what they would be alone', async () => {
    const outcome = { settleAs: settleAs(DECLINED) };
    async function fiveKinds() {
      const [first, second, early] = [newReference(), newReference(), newReference()] as const;
      await given.declined(turn(second));
      return [
        { sent: claimAttempt(), state: 'claimed', place: { reference: undefined, attempt: undefined } },
        { sent: claimAttempt(outcome), state: 'settled', place: { reference: undefined, attempt: undefined } },
        { sent: claimAttempt(turn(first)), state: 'claimed', place: { reference: first, attempt: 1 } },
        {
          sent: claimAttempt({ ...turn(second, 2), ...outcome }),
          state: 'settled',
          place: { reference: second, attempt: 2 },
        },
        { sent: claimAttempt(turn(early, 2)), state: 'not its turn', place: undefined },
      ];
    }
    const attempts = (await Promise.all(Array.from({ length: MANY / 5 }, fiveKinds))).flat();
    const claimed = await Promise.all(attempts.map(({ sent }) => ledger.claim(sent)));
    expect(claimed.map(({ state }) => state)).toEqual(attempts.map(({ state }) => state));
    for (const { sent, place } of attempts) {
      expect(await history.find(sent.key)).toEqual(place && expect.objectContaining(place));
    }
  });

  const plain = () => ({ key: newKey(), client: 'key:shop' });
  const referenced = () => turn(newReference(), 1, { client: 'key:shop' });
  describe.each<[of: string, members: () => Partial<ClaimAttempt> & { readonly key: string }]>([
    ['a plain key', plain],
    ['a reference', referenced],
  ])('a cancellation of %s', (of, members) => {
    test('6, 8: closes a payment that has no row, and says so each time; nothing can be done with it afterwards', async () => {
      const first = members();
      const [sent, before] = [cancellation(first), clock.now()];
      expect(await ledger.cancel(sent)).toEqual({ state: 'cancelled' });
      const record = await history.find(first.key);
      expect(record).toMatchObject({ state: 'CANCELLED', executions: 0, client: 'key:shop' });
      expect(record?.settledAt).toBeGreaterThanOrEqual(Math.floor(before));
      // The same command again, another request, and one that comes too late to insert anything.
      for (const again of [sent, cancellation(first), cancellation({ ...first, claimBy: clock.monotonic() - 1 })]) {
        expect(await ledger.cancel(again)).toEqual({ state: 'cancelled' });
      }
      expect(await claim(first)).toEqual({ state: 'cancelled' });
      expect(await claim({ ...first, settleAs: settleAs(DECLINED) })).toEqual({ state: 'cancelled' });
      expect(await ledger.find(first.key, 'key:shop')).toEqual({ state: 'cancelled' });
      expect(await ledger.find(first.key, 'key:rival')).toEqual({ state: 'absent' });
      const takeover = { key: first.key, owner: newOwner(), leaseMs: LONG_MS, processor: 'test' };
      expect(await ledger.takeOver(takeover)).toBeUndefined();
      expect(await given.resolve(first.key)).toEqual({ state: 'settled before' });
      expect(await history.find(first.key)).toEqual(record);
      expect(await ownerOf(first.key)).toBe(sent.owner);
    });

    /**
     * An attempt whose row was lost with a failover meets the row of a cancellation when it settles. Its write must not be taken for the
     * outcome, nor the cancellation for a decline, nor for another attempt that looks for its charge.
     */
    test('8: an attempt that meets it changes nothing, and learns that it is cancelled', async () => {
      const first = members();
      const lost: Claim = { ...claimAttempt(first), client: first.client, epoch: 1, unsent: true, ageMs: 0 };
      const { owner } = await given.cancelled(first);
      for (const attempt of [lost, { ...lost, owner }]) {
        expect(await ledger.settle(attempt, completed(lost), LONG_MS)).toEqual({ state: 'cancelled' });
        expect(await ledger.settle(attempt, DECLINED, LONG_MS, { lookedUp: 'found', sent: false })).toEqual({
          state: 'cancelled',
        });
        expect(await ledger.renew(attempt, LONG_MS)).toBe(false);
        expect(await ledger.abandon(attempt, 0)).toBe(false);
      }
      expect(await ledger.find(first.key)).toEqual({ state: 'cancelled' });
    });

    test('6: of a payment that has a row says what it is, and leaves it', async () => {
      const [live, dead, left, paid, declined] = [members(), members(), members(), members(), members()];
      await given.claim({ ...live, amount: '7.00' });
      await given.deadClaim(dead);
      await given.abandoned(left, LONG_MS);
      await given.settled(await given.claim(paid));
      await given.settled(await given.claim(declined), { outcome: DECLINED, ttlMs: SHORT_MS });
      await pass(SHORT_MS);
      const all = [live, dead, left, paid, declined];
      const before = await Promise.all(all.map(({ key }) => history.find(key)));
      const answers = await Promise.all(all.map(cancel));
      const underWay = { state: 'under way', remainingMs: 0 };
      expect(answers).toMatchObject([
        { state: 'under way', fingerprint: '7.00 USD', remainingMs: expect.any(Number) },
        underWay,
        underWay,
        { state: 'final', final: { outcome: { state: 'COMPLETED' } } },
        of === 'a reference' ? { state: 'final', final: { outcome: DECLINED } } : { state: 'expired' },
      ]);
      expect(inState(answers[0] as (typeof answers)[number], 'under way').remainingMs).toBeGreaterThan(LONG_MS / 2);
      expect(await Promise.all(all.map(({ key }) => history.find(key)))).toEqual(before);
    });

    test('7: and claims of the key at once: one of them succeeds, and all others learn which', async () => {
      const ends = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const first = members();
          const asked = await Promise.all(
            Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? claim(first) : cancel(first))),
          );
          return { key: first.key, states: asked.map(({ state }) => state) };
        }),
      );
      for (const { key, states } of ends) {
        const found = (await ledger.find(key)).state;
        const isClaimed = states.includes('claimed');
        const expected = isClaimed ? 'under way' : 'cancelled';
        expect(found).toBe(expected);
        const others = states.filter((state) => state !== 'claimed');
        expect(others).toEqual(Array(isClaimed ? 9 : 10).fill(expected));
      }
    });
  });
}
