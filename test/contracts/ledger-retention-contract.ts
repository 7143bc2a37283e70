import { beforeAll, beforeEach, expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import {
  cancellation,
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newKey,
  newReference,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { until } from '../../testkit/time/until.js';

/** Claimed before the horizon passes: none can be afterwards. Each test takes what it needs. */
const CLAIMS = 100;
const RETENTION_MS = 24 * HOUR_MS;
/** After this number of hours it is over for payments that were settled before, with the hours by which it may be longer. */
const RETENTION_HOURS = 24 + 2;
const DEADLINE_MS = 15_000;
const ROUNDS = 4;

/**
 * Guarantees of every Ledger on `removeSettled` beyond its types:
 *  1. It removes payments that are final, expired and settled longer ago than the retention: the oldest first, at most `limit`,
 *  2. and nothing else. 3. Each row is removed once. 4. The key of a removed row is expired for ever, and so is a key as old
 *     that has no row. 5. Rows that are there go on as before. 6. Younger keys are claimed.
 *  7. Ages are the time that was noted: the wall clock of a process or of the store, however wrong, makes no payment older.
 *  8. All attempts at a reference go together, when the last of them may go, and none while one is under way. Then it is new: its
 *     keys have no time, so they are claimed again.
 */
export function ledgerRetentionContract(ports: ContractPorts): void {
  const { keys, ledger, paymentHistory: history, clock, pass } = ports;
  const given = paymentSteps(ports);
  const turn = turnsOf(ports.id);
  let claims: Claim[];
  /** Generated with the claims, and never claimed. */
  let unused: string[];

  beforeAll(async () => {
    unused = [newKey(), newKey()];
    claims = await given.claims(CLAIMS);
    const [probe] = await givenRemovable(1);
    await until('the horizon to have passed', DEADLINE_MS, async () => {
      await ports.endClaims();
      await removeOld(ledger, RETENTION_MS);
      return (await history.find(probe.key)) === undefined;
    });
  });
  // Payments that the test before left are not counted by the next one.
  beforeEach(async () => {
    await removeOld(ledger, RETENTION_MS);
  });

  function oldClaims(count: number): [Claim, ...Claim[]] {
    if (claims.length < count) throw new Error('all the old claims are used up');
    return claims.splice(0, count) as [Claim];
  }
  const remove = (limit: number) => ledger.removeSettled(RETENTION_MS, limit);
  const expectRemoved = async (count: number) => expect(await removeOld(ledger, RETENTION_MS)).toBe(count);
  const claim = (key: string) => ledger.claim(claimAttempt({ key }));

  /** Old claims that are settled one after the other, and may be removed when this resolves. */
  async function givenRemovable(count: number): Promise<[Claim, ...Claim[]]> {
    const removable = oldClaims(count);
    for (const each of removable) {
      await given.settled(each, { ttlMs: 1 });
      await pass(1);
    }
    await passHours(ledger, RETENTION_HOURS);
    return removable;
  }

  async function kept(payments: readonly Claim[]): Promise<string[]> {
    const found = await Promise.all(payments.map(({ key }) => history.find(key)));
    return found.flatMap((payment) => payment?.key ?? []);
  }

  test('1: a payment that is completed, declined or resolved, expired and old enough is removed', async () => {
    const [refused, resolved] = oldClaims(2) as [Claim, Claim];
    await given.settled(refused, { outcome: DECLINED, ttlMs: 1 });
    await ledger.abandon(resolved, 0);
    await given.resolve(resolved.key, { idempotencyTtlMs: 1 });
    const [paid] = await givenRemovable(1);
    await expectRemoved(3);
    expect(await kept([paid, refused, resolved])).toEqual([]);
    expect(await ledger.find(paid.key)).toEqual({ state: 'absent' });
  });

  test('1: a limit is kept, and those settled first go first', async () => {
    const payments = await givenRemovable(5);
    const left = payments.map(({ key }) => key);
    for (const gone of [2, 4]) {
      expect(await remove(2)).toEqual({ removed: 2, more: true });
      expect(await kept(payments)).toEqual(left.slice(gone));
    }
    expect(await remove(2)).toEqual({ removed: 1, more: false });
    expect(await remove(2)).toEqual({ removed: 0, more: false });
  });

  /** Bug: when ten times `limit` old payments were still repeated, nothing was removed any more. */
  test('1, 2: payments that are still repeated are kept, and hide none that were settled after them', async () => {
    const repeated = oldClaims(12);
    const finals = [];
    for (const each of repeated) finals.push(await given.settled(each));
    await pass(1);
    const removable = await givenRemovable(1);
    let removed = 0;
    for (let more = true; more; ) {
      const round = await remove(1);
      removed += round.removed;
      more = round.more;
    }
    expect(removed).toBe(1);
    expect(await kept([...repeated, ...removable])).toEqual(repeated.map(({ key }) => key));
    for (const answer of [await ledger.find(repeated[0].key), await claim(repeated[0].key)])
      expect(answer).toEqual({ state: 'final', final: finals[0] });
  });

  test('2, 5: an old payment that is PROCESSING is kept, is taken over once it is abandoned, and settles', async () => {
    const [alive, abandoned] = oldClaims(2) as [Claim, Claim];
    await ledger.abandon(abandoned, 0);
    await passHours(ledger, RETENTION_HOURS);
    await expectRemoved(0);
    expect(await claim(alive.key)).toMatchObject({ state: 'under way' });
    const second = inState(await claim(abandoned.key), 'taken over').claim;
    expect(await ledger.settle(second, completed(second), LONG_MS)).toMatchObject({ state: 'settled' });
  });

  test('3: several at once remove each row once, and together all of them', async () => {
    const payments = await givenRemovable(20);
    let removed = 0;
    const look = async () => {
      for (const round of await Promise.all(Array.from({ length: 4 }, () => remove(7)))) removed += round.removed;
      return kept(payments);
    };
    await expect.poll(look).toEqual([]);
    expect(removed).toBe(20);
  });

  test('2, 4: a payment is kept until it is old enough; its removed key is expired, whatever the key store has', async () => {
    const [{ key }] = await givenRemovable(1);
    const removeOlder = () => removeOld(ledger, RETENTION_MS + 24 * HOUR_MS);
    expect(await removeOlder()).toBe(0);
    await expectRemoved(1);
    await removeOlder();
    // As a key store would have it that was restored from a copy. One that still has the outcome must forget it first.
    const look = async () => {
      await keys.issue(key, LONG_MS);
      return keys.look(key);
    };
    await expect.poll(look).toEqual({ state: 'generated' });
    const { claimBy } = inState(await given.begin(key), 'taken');
    expect(await ledger.claim(claimAttempt({ key, claimBy }))).toEqual({ state: 'expired' });
    expect(await ledger.cancel(cancellation({ key, claimBy, isLookedUp: true }))).toEqual({ state: 'expired' });
    expect(await ledger.find(key)).toEqual({ state: 'absent' });
  });

  test('4, 6: an old key that never had a row is expired, in time or late, and younger ones are claimed alongside it', async () => {
    const [first, second] = unused as [string, string];
    const late = claimAttempt({ key: first, claimBy: clock.monotonic() - 1 });
    expect(await ledger.claim(late)).toEqual({ state: 'expired' });
    // Its row may have been removed, so nobody is told that it never had one.
    for (const key of [first, second]) expect(await ledger.endedUnclaimed(key, -LONG_MS)).toBe(false);
    expect(await ledger.endedUnclaimed(newKey(), -LONG_MS)).toBe(true);
    const claimed = await Promise.all([newKey(), second, newKey()].map(claim));
    expect(claimed.map(({ state }) => state)).toEqual(['claimed', 'expired', 'claimed']);
    expect(await ledger.find(second)).toEqual({ state: 'absent' });
  });

  /** In some rounds: a store may have to be sure that all its processes know how far the first one may go. */
  async function removeReferences(): Promise<number> {
    let removed = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      await ports.endClaims();
      removed += await removeOld(ledger, RETENTION_MS);
    }
    return removed;
  }
  const attemptsOf = (text: string, count: number) =>
    Array.from({ length: count }, (_, index) => turn(text, index + 1));
  const keptOf = async (text: string) => {
    const found = await Promise.all(attemptsOf(text, 9).map(({ key }) => history.find(key)));
    return found.flatMap((payment) => payment?.attempt ?? []);
  };

  /**
   * Bug: PostgreSQL was taken for a database that had lost rows, and first payments were looked up for 30 days. Cause: the newest commit
   * that a process remembers may come from a payment with a reference, and after its removal nothing said that it may have been
   * removed, because its key has no time. Fix: the commit has one.
   */
  test('8: a reference of one attempt, whatever became of it, is removed, and claimed, declined and cancelled anew', async () => {
    const [paid, declined, closed, resolved] = Array.from({ length: 4 }, newReference) as [
      string,
      string,
      string,
      string,
    ];
    await given.settled(await given.claim(turn(paid)), { ttlMs: 1 });
    await given.declined(turn(declined), 1);
    await given.cancelled({ ...turn(closed), idempotencyTtlMs: 1 });
    await given.resolve((await given.abandoned(turn(resolved))).key, { idempotencyTtlMs: 1 });
    await pass(1);
    await passHours(ledger, RETENTION_HOURS - 3);
    expect(await removeReferences()).toBe(0);
    await passHours(ledger, 3);
    expect(await removeReferences()).toBe(4);
    for (const text of [paid, declined, closed, resolved]) {
      expect(await ledger.find(turn(text).key)).toEqual({ state: 'absent' });
      // An attempt that follows none is refused, as in the beginning.
      expect(await ledger.claim(claimAttempt(turn(text, 2)))).toMatchObject({ previous: 'absent' });
    }
    expect(await ledger.claim(claimAttempt(turn(paid)))).toMatchObject({ state: 'claimed', claim: { epoch: 1 } });
    await given.cancelled(turn(closed));
  });

  test('8: attempts that were made hours apart are removed together, when the last of them is old enough', async () => {
    const text = newReference();
    const [first, second, third] = attemptsOf(text, 3) as [
      ReturnType<typeof turn>,
      ReturnType<typeof turn>,
      ReturnType<typeof turn>,
    ];
    for (const attempt of [first, second]) {
      await given.declined(attempt, 1);
      await passHours(ledger, 20);
      expect(await removeReferences()).toBe(0);
    }
    await given.settled(await given.claim(third), { ttlMs: 1 });
    await pass(1);
    // The first two were settled longer ago than the retention.
    await passHours(ledger, RETENTION_HOURS - 3);
    expect(await removeReferences()).toBe(0);
    expect(await keptOf(text)).toEqual([1, 2, 3]);
    await passHours(ledger, 3);
    expect(await removeReferences()).toBe(3);
    expect(await keptOf(text)).toEqual([]);
  });

  test('8: none of them is removed while one is under way, is repeated as another payment is, or is that of another client', async () => {
    const [open, repeated, shared] = Array.from({ length: 3 }, newReference) as [string, string, string];
    for (const text of [open, repeated]) await given.declined(turn(text), 1);
    const last = await given.claim(turn(open, 2));
    await given.settled(await given.claim(turn(repeated, 2)), { ttlMs: LONG_MS });
    await given.declined(turn(shared, 1), 1);
    const foreign = turn(shared, 1, { client: 'key:shop' });
    await given.claim(foreign);
    await pass(1);
    await passHours(ledger, 3 * RETENTION_HOURS);
    expect(await removeReferences()).toBe(1);
    expect(await keptOf(open)).toEqual([1, 2]);
    expect(await keptOf(repeated)).toEqual([1, 2]);
    // The text is another client's as well, whose payment is under way.
    expect(await keptOf(shared)).toEqual([]);
    expect(await ledger.find(foreign.key)).toMatchObject({ state: 'under way' });
    // A payment that is under way goes on, and nothing it needs has gone.
    await given.settled(last, { outcome: DECLINED, ttlMs: 1 });
    expect(await ledger.claim(claimAttempt(turn(open, 3)))).toMatchObject({ state: 'claimed' });
    await pass(1);
    await passHours(ledger, RETENTION_HOURS);
    expect(await removeReferences()).toBe(0);
    expect(await keptOf(open)).toEqual([1, 2, 3]);
  });

  test('8: between the last hour in which an attempt may follow a decline and its removal there is an hour without either', async () => {
    const lateMs = RETENTION_MS - HOUR_MS;
    const texts = Array.from({ length: RETENTION_HOURS + 3 }, newReference);
    for (const text of texts) await given.declined(turn(text), 1);
    await pass(1);
    const answers: string[] = [];
    for (const text of texts) {
      const answer = await ledger.claim(claimAttempt(turn(text, 2, { lateMs })));
      answers.push(answer.state === 'not its turn' ? answer.previous : answer.state);
      await passHours(ledger, 1);
      await removeReferences();
    }
    const claimed = answers.filter((answer) => answer === 'claimed').length;
    const refused = answers.filter((answer) => answer === 'declined too long ago').length;
    expect(claimed).toBeGreaterThanOrEqual(RETENTION_HOURS - 4);
    expect(refused).toBeGreaterThanOrEqual(1);
    const removed = Array(answers.length - claimed - refused).fill('absent');
    expect(removed.length).toBeGreaterThanOrEqual(1);
    expect(answers).toEqual([
      ...Array(claimed).fill('claimed'),
      ...Array(refused).fill('declined too long ago'),
      ...removed,
    ]);
    // Each attempt that was claimed has kept the decline that it follows; all others have gone.
    const kept = await Promise.all(texts.map(keptOf));
    expect(kept).toEqual(answers.map((answer) => (answer === 'claimed' ? [1, 2] : [])));
  });

  test('7: an hour counts once, however many processes saw it, and no more of one call', async () => {
    const { seenMs } = await passHours(ledger, 0);
    const lowestKeyMs = Date.now();
    const note = (sinceMs: number, elapsedMs: number) => ledger.noteElapsed({ sinceMs, elapsedMs, lowestKeyMs });
    await Promise.all(Array.from({ length: 5 }, () => note(seenMs, HOUR_MS)));
    expect(await passHours(ledger, 0)).toMatchObject({ seenMs: seenMs + HOUR_MS });
    const noted = { seenMs: seenMs + 2 * HOUR_MS };
    // A process that stood still for a day; one that saw less than was noted; one that knew another store, or this one
    // before it was restored.
    expect(await note(seenMs + HOUR_MS, 24 * HOUR_MS)).toMatchObject(noted);
    expect(await note(seenMs, HOUR_MS)).toMatchObject(noted);
    expect(await note(seenMs + 100 * HOUR_MS, HOUR_MS)).toMatchObject(noted);
  });

  test('7: a process whose clock is far ahead makes no payment older, and no good key is refused', async () => {
    const [old] = oldClaims(1);
    await given.settled(old, { ttlMs: 1 });
    const unpaid = newKey();
    let { seenMs } = await passHours(ledger, 0);
    const lowestKeyMs = Date.now() + 60 * 24 * HOUR_MS;
    for (let hour = 0; hour < 10; hour += 1) {
      ({ seenMs } = await ledger.noteElapsed({ sinceMs: seenMs, elapsedMs: HOUR_MS, lowestKeyMs }));
      await removeOld(ledger, RETENTION_MS);
    }
    expect(await kept([old])).toHaveLength(1);
    expect(await claim(unpaid)).toMatchObject({ state: 'claimed' });
  });

  /** The hour goes before the row if the outcome is still repeated. The last test, because that row stays. */
  test('8: no attempt follows a decline whose hour was forgotten', async () => {
    const text = newReference();
    await given.declined(turn(text));
    await passHours(ledger, 2);
    const [later] = await givenRemovable(1);
    await until('a later hour to be over', DEADLINE_MS, async () => {
      await ports.endClaims();
      await removeOld(ledger, RETENTION_MS);
      return (await history.find(later.key)) === undefined;
    });
    const refused = { state: 'not its turn', previous: 'declined too long ago' };
    const second = turn(text, 2, { lateMs: 10 * RETENTION_MS });
    expect(await ledger.claim(claimAttempt(second))).toEqual(refused);
    expect(await ledger.cancel(cancellation(second))).toEqual(refused);
  });
}
