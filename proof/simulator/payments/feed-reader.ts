import type { PaymentArea } from '#idempay/payments/payments.js';
import type { FeedQuestion } from '#idempay/payments/settlement-feed.js';
import type { World } from '../world.js';
import { nameOf } from './keys.js';
import type { PlannedReader } from './plan.js';

const PAGE = 3;

/** A settlement in a page, and how often the reader had begun again before. */
interface Shown {
  readonly key: string;
  readonly state: string;
  /** An order that is paid anew, after retention, settles again with the same key. */
  readonly settledAtUs: number;
  readonly begins: number;
  readonly at: number;
}

export type FeedReader = ReturnType<typeof createFeedReader>;

/** Somebody who follows the feed of settlements at one process after the other, with a cursor of its own. */
export function createFeedReader(
  { simulation, processes, stores }: World<PaymentArea>,
  planned: PlannedReader,
  number: number,
) {
  const { client, kind, longestPauseMs } = planned;
  const shown: Shown[] = [];
  /** Retention had removed settlements before this time when the reader began, or it was told so. */
  let skippedBelowUs: number | undefined;
  let after: FeedQuestion['after'];
  let begins = 0;
  let reading: Promise<boolean> | undefined;

  const latestRemovedUs = () =>
    Math.max(...stores.payments.removed.map(({ row }) => Math.floor(Number(row.settled_at) * 1_000)), 0);

  /** True if there may be more at once. */
  async function readPage(): Promise<boolean> {
    const index = simulation.rng(`the process of reader ${number}`).below(processes.size);
    const page = await processes.look(index, ({ settlementFeed }) => {
      if (after === undefined) skippedBelowUs = latestRemovedUs() + 1;
      return settlementFeed.read({ after, client, kind, limit: PAGE });
    });
    if (page === undefined) return false;
    if (page.state !== 'page') {
      if (page.state === 'removed') skippedBelowUs = Math.min(page.fromUs, latestRemovedUs() + 1);
      after = { fromUs: page.fromUs };
      begins += 1;
      simulation.count(`the feed began anew: ${page.state}`);
      return true;
    }
    for (const { key, state, settledAtUs } of page.settlements) {
      shown.push({ key: nameOf(key), state, settledAtUs, begins, at: simulation.time });
    }
    after = page.next;
    return page.settlements.length === PAGE;
  }

  /** One page at a time, because each begins where the one before has ended. */
  function read(): Promise<boolean> {
    reading ??= readPage().finally(() => {
      reading = undefined;
    });
    return reading;
  }

  return {
    ...{ planned, shown, skippedBelowUs: () => skippedBelowUs ?? 0 },

    async follow(): Promise<void> {
      for (;;) {
        await simulation.wait(simulation.rng(`the pause of reader ${number}`).fraction() * longestPauseMs);
        await read();
      }
    },

    /** Reads until a page is short. */
    async catchUp(): Promise<void> {
      while (await read());
    },
  };
}
