import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { StoreUnavailable } from '#idempay/platform/faults.js';
import { Batcher } from '#idempay/stores/postgres/connection/batcher.js';
import { DatabaseClock } from '#idempay/stores/postgres/connection/database-clock.js';
import { createPart, type PostgresPart } from '#idempay/stores/postgres/connection/part.js';
import { type Postgres, type Statement, StatementRefused } from '#idempay/stores/postgres/connection/postgres.js';
import { untilPostgresIsThere } from '#idempay/stores/postgres/connection/start.js';
import { QUEUE_LIMIT_MS } from '#idempay/stores/shared/bounded-queue.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

let clock: HandClock;

beforeEach(() => {
  clock = new HandClock();
});

describe('a batcher', () => {
  const LANES = 2;
  const MAX_BATCH = 500;
  const MAX_WAITING = 10_000;
  const UNCHANGED = { name: 'StoreUnavailable', effect: 'unchanged' };

  /** A batcher whose statements answer when the test says so, with everything that was asked of them. */
  function openBatcher() {
    const statements: { items: readonly number[]; resolve(): void; reject(fault: unknown): void }[] = [];
    const run = (items: readonly number[]) =>
      new Promise<readonly number[]>((resolve, reject) => {
        statements.push({ items, resolve: () => resolve(items.map((item) => -item)), reject });
      });
    return { batcher: new Batcher(run, clock, LANES), statements };
  }

  const refusal = (sqlState: string) => new StatementRefused(sqlState, new Error('refused'));

  /** How each ended: its result, or the effect of its fault. */
  const endings = (results: readonly Promise<number>[]) =>
    Promise.all(results.map((result) => result.catch((fault: StoreUnavailable) => fault.effect)));

  test('refuses as unchanged what its queue has no place for, or too long, and never sends it', async () => {
    const { batcher, statements } = openBatcher();
    for (let lane = 0; lane < LANES; lane += 1) {
      batcher.add(lane);
      await nextTurn();
    }
    const early = batcher.add(10);
    clock.advance(QUEUE_LIMIT_MS / 2);
    const late = batcher.add(11);
    for (let item = 0; item < MAX_WAITING - 2; item += 1) batcher.add(item).catch(() => {});
    await expect(batcher.add(-1), 'in a full queue').rejects.toMatchObject(UNCHANGED);
    clock.advance(QUEUE_LIMIT_MS / 2);
    await expect(early).rejects.toMatchObject(UNCHANGED);
    statements[0]?.resolve();
    await expect.poll(() => statements.length).toBe(LANES + 1);
    statements[LANES]?.resolve();
    expect(await late).toBe(-11);
    expect(statements[LANES]?.items.slice(0, 2)).toEqual([11, 0]);
    expect(statements).toHaveLength(LANES + 1);
  });

  test.each(['57014', '40001', '53100', '54001'])('fails a whole batch that is refused with %s', async (sqlState) => {
    const { batcher, statements } = openBatcher();
    const added = Array.from({ length: MAX_BATCH }, (_, item) => batcher.add(item));
    await nextTurn();
    statements[0]?.reject(refusal(sqlState));
    expect(new Set(await endings(added))).toEqual(new Set(['unchanged']));
    await nextTurn();
    expect(statements).toHaveLength(1);
  });

  test.each([
    { what: 'fails only the item that violates a constraint', second: '23514' },
    { what: 'fails only the item with a text that it cannot keep', second: '22021' },
    { what: 'fails only the item that is too large for an index', second: '54000' },
    { what: 'fails only the item whose row is blocked', second: '55P03' },
    { what: 'fails only the item whose locks are in a circle', second: '40P01' },
    { what: 'ends at the first fault that is not the fault of one item', second: '57014', run: 4 },
    { what: 'ends when that takes too long', second: '23505', tookMs: QUEUE_LIMIT_MS, run: 1 },
  ])('runs the items of a batch that one of them spoils four at a time, and $what', async (given) => {
    const { second, tookMs = 0, run: expectedRuns = 8 } = given;
    const items = [1, 2, 3, 4, 5, 6, 7, 8];
    const asked: (readonly number[])[] = [];
    let [underWay, mostAtOnce] = [0, 0];
    const run = async (batch: readonly number[]) => {
      asked.push(batch);
      if (batch.length > 1) throw refusal('55P03');
      underWay += 1;
      mostAtOnce = Math.max(mostAtOnce, underWay);
      clock.advance(tookMs);
      await nextTurn();
      underWay -= 1;
      if (batch[0] === 1) throw refusal(second);
      return batch.map((item) => -item);
    };
    const batcher = new Batcher(run, clock, LANES);
    const ended = await endings(items.map((item) => batcher.add(item)));
    expect(ended).toEqual(items.map((item) => (item === 1 || item > expectedRuns ? 'unchanged' : -item)));
    expect(asked).toEqual([items, ...items.slice(0, expectedRuns).map((item) => [item])]);
    expect(mostAtOnce).toBe(Math.min(4, expectedRuns));
  });

  test('takes the next batch while an item of a refused one is still blocked', async () => {
    const { batcher, statements } = openBatcher();
    const spoilt = [1, 2, 3].map((item) => batcher.add(item));
    await nextTurn();
    statements[0]?.reject(refusal('55P03'));
    await expect.poll(() => statements.length).toBe(4);
    for (const statement of [statements[2], statements[3]]) statement?.resolve();
    expect(await Promise.all(spoilt.slice(1))).toEqual([-2, -3]);
    for (let lane = 0; lane < LANES; lane += 1) {
      const next = batcher.add(10 + lane);
      await nextTurn();
      expect(statements.at(-1)?.items).toEqual([10 + lane]);
      next.catch(() => {});
    }
    statements[1]?.reject(refusal('55P03'));
    expect(await endings(spoilt)).toEqual(['unchanged', -2, -3]);
  });
});

describe('a part of the pool', () => {
  const CONNECTIONS = 2;

  /** A part of a database that answers when the test says so, with the names of what was sent to it. */
  function openPart() {
    const sent: { name: string; resolve(): void; reject(fault: unknown): void }[] = [];
    const send = ({ name }: Statement) =>
      new Promise((resolve, reject) => sent.push({ name, resolve: () => resolve([{ name }]), reject }));
    const database = { read: send, write: send, writeHoweverLate: send, lastCommits: undefined };
    return { part: createPart(database as unknown as PostgresPart, CONNECTIONS, clock), sent };
  }

  const named = (name: string): Statement => ({ name, text: '' });
  const namesOf = (sent: readonly { name: string }[]) => sent.map(({ name }) => name);

  test('sends reads and writes over its connections only, in order, and the next one after each end', async () => {
    const { part, sent } = openPart();
    const results = [
      part.read(named('read')),
      part.write(named('write')),
      part.writeHoweverLate(named('late')),
      part.read(named('last')),
    ];
    await nextTurn();
    expect(namesOf(sent)).toEqual(['read', 'write']);
    sent[1]?.reject(new Error('refused'));
    await expect(results[1]).rejects.toThrow('refused');
    expect(namesOf(sent)).toEqual(['read', 'write', 'late']);
    sent[0]?.resolve();
    expect(await results[0]).toEqual([{ name: 'read' }]);
    expect(namesOf(sent)).toEqual(['read', 'write', 'late', 'last']);
  });

  test('refuses as unchanged what gets no connection in time, and never sends it', async () => {
    const { part, sent } = openPart();
    for (let connection = 0; connection < CONNECTIONS; connection += 1) part.write(named('blocked'));
    const late = part.write(named('late'));
    clock.advance(QUEUE_LIMIT_MS);
    await expect(late).rejects.toMatchObject({
      name: 'StoreUnavailable',
      effect: 'unchanged',
      message: expect.stringContaining('connections for payments'),
    });
    const next = part.write(named('next'));
    sent[0]?.resolve();
    await nextTurn();
    expect(namesOf(sent)).toEqual(['blocked', 'blocked', 'next']);
    sent[2]?.resolve();
    expect(await next).toEqual([{ name: 'next' }]);
  });
});

describe('the clock of the database', () => {
  /** How far it is ahead of our monotonic one. */
  const AHEAD_MS = 1_700_000_000_000;

  /** A database whose statements take their time on the way there and back, by the clock that the test owns. */
  function openDatabaseClock() {
    const way = { thereMs: 0, backMs: 0, aheadMs: AHEAD_MS };
    const read = async () => {
      clock.advance(way.thereMs);
      const now = clock.monotonic() + way.aheadMs;
      clock.advance(way.backMs);
      return [{ now }];
    };
    const databaseClock = new DatabaseClock({ read } as unknown as Postgres, clock);
    const aheadMs = () => databaseClock.at(clock.monotonic()) - clock.monotonic();
    return { way, databaseClock, aheadMs };
  }

  test.each([
    { thereMs: 100, backMs: 0 },
    { thereMs: 70, backMs: 30 },
    // The first answer is taken however slow it is.
    { thereMs: 3_000, backMs: 2_000 },
  ])('is never late, and early by the way of one reply ($thereMs, $backMs)', async (given) => {
    const { way, databaseClock, aheadMs } = openDatabaseClock();
    Object.assign(way, given);
    await databaseClock.synchronize();
    expect(aheadMs()).toBe(AHEAD_MS - given.backMs);
  });

  test('is not read from a slow answer after a quick one, and followed by a quick one when it was set back', async () => {
    const { way, databaseClock, aheadMs } = openDatabaseClock();
    await databaseClock.synchronize();
    way.backMs = 250;
    await databaseClock.synchronize();
    expect(aheadMs()).toBe(AHEAD_MS);
    Object.assign(way, { backMs: 0, aheadMs: AHEAD_MS - 60_000 });
    await databaseClock.synchronize();
    expect(aheadMs()).toBe(AHEAD_MS - 60_000);
  });

  test.each([
    { thereMs: 0, backMs: 100 },
    { thereMs: 2_000, backMs: 0 },
  ])('shows at most what a question that took ($thereMs, $backMs) allows, until it was set ahead', async (given) => {
    const { way, databaseClock } = openDatabaseClock();
    expect(databaseClock.latest()).toBe(undefined);
    Object.assign(way, given);
    await databaseClock.synchronize();
    expect(databaseClock.latest()).toBe(clock.monotonic() + AHEAD_MS + given.thereMs);
    Object.assign(way, { thereMs: 0, backMs: 300, aheadMs: AHEAD_MS + 60_000 });
    await databaseClock.synchronize();
    expect(databaseClock.latest()).toBe(clock.monotonic() + AHEAD_MS + 60_000);
  });

  test('shows nothing that can be relied on when the newest question is three seconds old, however late its answer', async () => {
    const { way, databaseClock } = openDatabaseClock();
    await databaseClock.synchronize();
    clock.leap(2_999);
    expect(databaseClock.latest()).toBeTypeOf('number');
    clock.leap(1);
    expect(databaseClock.latest()).toBe(undefined);
    way.backMs = 3_000;
    await databaseClock.synchronize();
    expect(databaseClock.latest()).toBe(undefined);
  });

  /** Bug: a start that waits for the database starts the clock at each try, and all timers but the last went on for ever. */
  test('is not asked after its stop, also when it was started more than once', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const { databaseClock } = openDatabaseClock();
    await databaseClock.start();
    await databaseClock.start();
    expect(vi.getTimerCount()).toBe(1);
    databaseClock.stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('the start', () => {
  /** Opens after faults with these codes, as the driver makes them, beneath one of ours; resolves to what was reported. */
  async function openedAfter(...codes: readonly string[]): Promise<string[]> {
    const left = [...codes];
    const reported: string[] = [];
    const open = async () => {
      const code = left.shift();
      const cause = Object.assign(new Error('said the server'), { code });
      if (code) throw new Error('PostgreSQL cannot be reached', { cause });
    };
    await untilPostgresIsThere(open, (sentence) => reported.push(sentence));
    return reported;
  }

  test('waits for a server that is down, then starting, then full, and reports it once', async () => {
    const sentence = 'DATABASE_URL: PostgreSQL cannot be reached; the start waits until it can';
    expect(await openedAfter('ECONNREFUSED', '57P03', '53300')).toEqual([sentence]);
  });

  /** Bug: the advice for an old primary was never read if the first host had failed in another way before. */
  test('reports each reason of several hosts once', async () => {
    const faults = ['one', 'two', 'one', 'two'];
    const reported: string[] = [];
    const open = async () => {
      const fault = faults.shift();
      if (fault) throw Object.assign(new Error(fault), { code: 'ECONNREFUSED' });
    };
    await untilPostgresIsThere(open, (_, { message }) => reported.push(message));
    expect(reported).toEqual(['one', 'two']);
  });

  test('ends at once, with a sentence that names DATABASE_URL, at a fault that waiting cannot end', async () => {
    const sentence = /^DATABASE_URL: PostgreSQL cannot be used: said the server\. [A-Z]/;
    for (const code of ['28P01', '28000', '3D000', '42501', '25006', 'CERT_HAS_EXPIRED', '42P01']) {
      await expect(openedAfter(code)).rejects.toThrow(sentence);
    }
  });
});
