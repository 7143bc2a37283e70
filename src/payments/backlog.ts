import type { Clock } from '../platform/clock.js';
import type { Backlog, Ledger, PendingBacklog } from './ports/ledger.js';

/** Recovery looks for abandoned payments every few seconds; a person looks at the backlog less often. */
const LOOK_EVERY_MS = 10_000;

/** Looks at the backlog of recovery, and at pending payments, every few seconds, so that a scrape asks no store. */
export interface BacklogWatch {
  start(): void;
  /** The last backlog that was read, with the time since then added; undefined until the store has answered once. */
  latest(): Backlog | undefined;
  latestPending(): PendingBacklog | undefined;
  /** Begins nothing more; resolves when the look that is under way has ended. */
  stop(): Promise<void>;
}

interface Seen<Of extends Backlog> {
  readonly backlog: Of;
  readonly at: number;
}

export function createBacklogWatch(ledger: Pick<Ledger, 'backlog' | 'pendingBacklog'>, clock: Clock): BacklogWatch {
  let seen: Seen<Backlog> | undefined;
  let seenPending: Seen<PendingBacklog> | undefined;
  let looking = Promise.resolve();
  let cancelNext = () => {};
  let stopped = false;

  /** After a fault the last result stays; the log already reports the unavailable store. */
  async function look(): Promise<void> {
    const at = clock.monotonic();
    const [backlog, pending] = await Promise.all([
      ledger.backlog().catch(() => undefined),
      ledger.pendingBacklog().catch(() => undefined),
    ]);
    if (backlog) seen = { backlog, at };
    if (pending) seenPending = { backlog: pending, at };
    if (!stopped) cancelNext = clock.after(LOOK_EVERY_MS, begin);
  }

  function grown<Of extends Backlog>(then: Seen<Of> | undefined): Of | undefined {
    if (!then) return undefined;
    const { backlog, at } = then;
    return { ...backlog, oldestMs: backlog.payments === 0 ? 0 : backlog.oldestMs + clock.monotonic() - at };
  }

  function begin(): void {
    looking = look();
  }

  return {
    start: begin,
    latest: () => grown(seen),
    latestPending: () => grown(seenPending),
    async stop() {
      stopped = true;
      cancelNext();
      await looking;
    },
  };
}
