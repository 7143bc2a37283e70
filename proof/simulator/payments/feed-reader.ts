import type { PaymentArea } from '#idempay/payments/payments.js';
import type { FeedQuestion } from '#idempay/payments/settlement-feed.js';
import type { World } from '../world.js';
import { nameOf } from './keys.js';

const LONGEST_PAUSE_MS = 1_500;
const PAGE = 3;
/** After the end of the faults: several moves of the bound, and empty commits. */
const LAST_TRIES = 40;
const LAST_PAUSE_MS = 500;

/** A settlement in a page, and how often the reader had begun again before. */
interface Shown {
  readonly key: string;
  readonly begins: number;
  readonly at: number;
}

export type FeedReader = ReturnType<typeof createFeedReader>;

/** An operator who follows the feed of settlements at one process after the other, with a cursor of its own. */
export function createFeedReader({ simulation, processes }: Pick<World<PaymentArea>, 'simulation' | 'processes'>) {
  const shown: Shown[] = [];
  let after: FeedQuestion['after'];
  let begins = 0;

  async function readPage(): Promise<void> {
    const index = simulation.rng('the reader of the feed').below(processes.size);
    const question = { after, client: undefined, kind: undefined, limit: PAGE };
    const page = await processes.look(index, ({ settlementFeed }) => settlementFeed.read(question));
    if (page === undefined) return;
    if (page.state !== 'page') {
      after = { fromUs: page.fromUs };
      begins += 1;
      simulation.count('the feed began anew');
      return;
    }
    for (const { key } of page.settlements) shown.push({ key: nameOf(key), begins, at: simulation.time });
    after = page.next;
  }

  return {
    shown,

    async follow(): Promise<void> {
      for (;;) {
        await simulation.wait(simulation.rng('the pause of the reader').fraction() * LONGEST_PAUSE_MS);
        await readPage();
      }
    },

    /** Reads until everything was shown, or for long enough. */
    async catchUp(isComplete: () => boolean): Promise<void> {
      for (let tries = 0; tries < LAST_TRIES && !isComplete(); tries += 1) {
        await simulation.wait(LAST_PAUSE_MS);
        await readPage();
      }
    },
  };
}
