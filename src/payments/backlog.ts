import type { Clock } from '../platform/clock.js';
import type { Backlog, Ledger } from './ports/ledger.js';

/** Recovery looks for abandoned payments every few seconds; a person looks at the backlog less often. */
const LOOK_EVERY_MS = 10_000;

/** Looks at the backlog of recovery every few seconds, so that a scrape asks no store. */
export interface BacklogWatch {
  start(): void;
  /** The last backlog that was read, with the time since then added; undefined until the store has answered once. */
  latest(): Backlog | undefined;
  /** Begins nothing more; resolves when the look that is under way has ended. */
  stop(): Promise<void>;
}

export function createBacklogWatch(ledger: Pick<Ledger, 'backlog'>, clock: Clock): BacklogWatch {
  let seen: { readonly backlog: Backlog; readonly at: number } | undefined;
  let looking = Promise.resolve();
  let cancelNext = () => {};
  let stopped = false;

  /** After a fault the last result stays; the log already reports the unavailable store. */
  async function look(): Promise<void> {
    const at = clock.monotonic();
    const backlog = await ledger.backlog().catch(() => undefined);
    if (backlog) seen = { backlog, at };
    if (!stopped) cancelNext = clock.after(LOOK_EVERY_MS, begin);
  }

  function begin(): void {
    looking = look();
  }

  return {
    start: begin,
    latest() {
      if (!seen) return undefined;
      const { payments, oldestMs } = seen.backlog;
      return { payments, oldestMs: payments === 0 ? 0 : oldestMs + clock.monotonic() - seen.at };
    },
    async stop() {
      stopped = true;
      cancelNext();
      await looking;
    },
  };
}
