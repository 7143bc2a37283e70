import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { SettlementQuestion } from '#idempay/payments/ports/settlements.js';
import { type FeedQuestion, SettlementFeed } from '#idempay/payments/settlement-feed.js';
import { beginIncarnation } from '#idempay/stores/embedded/file/adoption.js';
import { openWithWarnings } from '../../testkit/protocol/embedded-with-warnings.js';
import { changeStored, settledPayments } from '../../testkit/protocol/stored-rows.js';
import { HandClock } from '../../testkit/time/hand-clock.js';
import { until } from '../../testkit/time/until.js';

/**
 * Bug: a reader that asked for a thousand settlements at a time, as fast as it could, made ordinary payments on the embedded store wait.
 * Cause: a page was read and written in one turn of the event loop. Fix: a page is read in parts, and all
 * readers of a process rest after each of them.
 */

const EVERYTHING: FeedQuestion = { client: undefined, kind: undefined, limit: 1_000 };
const DEADLINE_MS = 20_000;
const STEP_MS = 5;
/** Between two looks a feed waits for twice as long. */
const LOOK_STEP_MS = 100;
/** A part takes this long, and its reader rests for three times as long. */
const PART_MS = 4;
const REST_MS = 3 * PART_MS;

async function openSettlements() {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-parts-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const { settlements } = await openWithWarnings(folder);
  return { settlements, store: { environment: { DATA_DIR: folder } } };
}

/** The page, for which the clock moves whenever its reader waits. */
async function whileClockMoves<Page>(clock: HandClock, page: Promise<Page>, stepMs = STEP_MS): Promise<Page> {
  let isRead = false;
  const noteEnd = () => {
    isRead = true;
  };
  page.then(noteEnd, noteEnd);
  await until('the page', DEADLINE_MS, () => {
    if (clock.pending > 0) clock.advance(stepMs);
    return isRead;
  });
  return page;
}

/** A feed of this number of settlements on the embedded store, with a clock that stands still until a test moves it. */
async function openFeed(count: number, partMs = PART_MS) {
  const { settlements, store } = await openSettlements();
  const settledFrom = Date.now() - 86_400_000;
  await changeStored(store, settledPayments(count, settledFrom));
  const clock = new HandClock();
  const asked: SettlementQuestion[] = [];
  const page = async (question: SettlementQuestion) => {
    asked.push(question);
    const found = await settlements.page(question);
    clock.advance(partMs);
    return found;
  };
  const feed = new SettlementFeed({ ...settlements, page }, clock);
  /** The page, and how long its reader rested for. */
  const read = async (question: FeedQuestion) => {
    const from = clock.now();
    const page = await whileClockMoves(
      clock,
      feed.read(question, ({ key }) => key),
    );
    return { ...page, restedMs: clock.now() - from };
  };
  const beginAnother = () => changeStored(store, { embedded: beginIncarnation(`${Date.now()}`), distributed: '' });
  return { feed, clock, asked, read, beginAnother };
}

test('a long page is read in parts, and has each settlement once and in order', async () => {
  const { asked, read } = await openFeed(1_200);
  const first = await read(EVERYTHING);
  if (first.state !== 'page') throw new Error(`the page was refused: ${first.state}`);
  expect(first).toMatchObject({ isLast: false });
  const second = await read({ ...EVERYTHING, after: first.next });
  if (second.state !== 'page') throw new Error(`the page was refused: ${second.state}`);
  expect([first.settlements.length, second.settlements.length, second.isLast]).toEqual([1_000, 200, true]);
  expect(new Set([...first.settlements, ...second.settlements]).size).toBe(1_200);
  const shorter = [];
  for (let { after } = { after: undefined as FeedQuestion['after'] }; ; ) {
    const page = await read({ ...EVERYTHING, limit: 40, after });
    if (page.state !== 'page') throw new Error(`a page was refused: ${page.state}`);
    shorter.push(...page.settlements);
    if (page.isLast) break;
    after = page.next;
  }
  expect(shorter).toEqual([...first.settlements, ...second.settlements]);
  expect(Math.max(...asked.map(({ limit }) => limit))).toBe(50);
});

test('after a part all readers rest', async () => {
  const { feed, clock, asked, read } = await openFeed(200);
  const { restedMs } = await read({ ...EVERYTHING, limit: 200 });
  expect(asked).toHaveLength(4);
  // Three parts were rested for. The fourth one is the debt of whoever reads next.
  expect(restedMs).toBeGreaterThanOrEqual(4 * PART_MS + 3 * REST_MS);
  const next = feed.read({ ...EVERYTHING, limit: 1 });
  await until('the rest', DEADLINE_MS, () => clock.pending > 0);
  expect(asked).toHaveLength(4);
  clock.advance(REST_MS);
  expect(await next).toMatchObject({ state: 'page' });
  expect(asked).toHaveLength(5);
});

test('a part that waited long for others makes nobody rest longer than its settlements say', async () => {
  const { feed, clock } = await openFeed(10, 1_000);
  for (let time = 0; time < 3; time += 1) {
    // Less than a timer can wait for.
    expect(await feed.read({ ...EVERYTHING, limit: 1 })).toMatchObject({ state: 'page' });
    expect(clock.pending).toBe(0);
  }
});

test('a reader that sees none of many settlements reads a bounded number of rows for a page, in parts', async () => {
  const { asked, read } = await openFeed(12_000);
  const none = await read({ ...EVERYTHING, client: 'key:nobody' });
  expect(none).toMatchObject({ state: 'page', settlements: [], isLast: false });
  expect(asked.map(({ readLimit }) => readLimit)).toEqual(Array.from({ length: 10 }, () => 1_000));
  if (none.state !== 'page') return;
  const rest = await read({ ...EVERYTHING, client: 'key:nobody', after: none.next });
  expect(rest).toMatchObject({ state: 'page', settlements: [], isLast: true });
});

test('a page ends before a part that is refused, and the next page is refused', async () => {
  const { feed, clock, asked, read, beginAnother } = await openFeed(200);
  const page = feed.read({ ...EVERYTHING, limit: 200 }, ({ key }) => key);
  await until('the rest', DEADLINE_MS, () => clock.pending > 0);
  await beginAnother();
  // The bound is read anew.
  clock.advance(1_000);
  const cut = await page;
  expect(cut).toMatchObject({ state: 'page', isLast: false });
  if (cut.state !== 'page') return;
  expect(cut.settlements).toHaveLength(50);
  expect(asked).toHaveLength(2);
  expect(await read({ ...EVERYTHING, after: cut.next })).toMatchObject({ state: 'other incarnation' });
});

/**
 * Bug: the first reader of a process was refused with 503 if a payment was being settled at that moment, which under load is always so. Cause: one
 * look without a bound was an answer. Fix: the reader waits for the next looks.
 */
describe('while transactions are open since before the first look', () => {
  async function openUnbound(looksWithoutBound: number) {
    const { settlements } = await openSettlements();
    const clock = new HandClock();
    let looks = 0;
    const look = async () => {
      looks += 1;
      return looks > looksWithoutBound ? settlements.look() : undefined;
    };
    const feed = new SettlementFeed({ ...settlements, look }, clock);
    return { clock, read: () => whileClockMoves(clock, feed.read({ ...EVERYTHING, after: 'now' }), LOOK_STEP_MS) };
  }

  test('a reader waits for the bound', async () => {
    const { read } = await openUnbound(3);
    expect(await read()).toMatchObject({ state: 'page', settlements: [] });
  });

  test('a reader is refused if they do not end, and the next ones at once', async () => {
    const { clock, read } = await openUnbound(Number.POSITIVE_INFINITY);
    const refused = () => expect(read()).rejects.toThrow('open since before the first look');
    const begunAt = clock.now();
    await refused();
    const refusedAt = clock.now();
    expect(refusedAt).toBeGreaterThan(begunAt);
    for (let reader = 0; reader < 3; reader += 1) await refused();
    expect(clock.now()).toBe(refusedAt);
  });
});
