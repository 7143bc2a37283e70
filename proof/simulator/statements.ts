import { STATEMENT_TIMEOUT_MS } from '#idempay/deployments/distributed/time-limits.js';
import { StoreUnavailable } from '#idempay/errors.js';
import type { Simulation } from './simulation.js';

/** A statement that has its row: what it will have done, and how long its commit takes. */
export interface Begun<T> {
  readonly commitsAfterMs: number;
  commit(): T;
}

/** Statements of a database server: one at a time on each row, each judged when the row is its own, and seen when it commits. */
export class Statements<Key> {
  private readonly waiting = new Map<Key, (() => void)[]>();

  constructor(private readonly simulation: Simulation) {}

  /** Somebody is changing the row, and has not committed. */
  isHeld(key: Key): boolean {
    return this.waiting.has(key);
  }

  /** The server cancels a statement that takes too long, also one that waits for its row. */
  execute<T>(key: Key, begin: () => Begun<T>, reply: (result: T) => void, refuse: (fault: Error) => void): void {
    const { simulation } = this;
    const cancelledAt = simulation.time + STATEMENT_TIMEOUT_MS;
    const run = () => {
      if (simulation.time >= cancelledAt) {
        refuse(new StoreUnavailable('unchanged', 'the statement was cancelled'));
        this.free(key);
        return;
      }
      const { commitsAfterMs, commit } = begin();
      const end = () => {
        reply(commit());
        this.free(key);
      };
      if (commitsAfterMs === 0) end();
      else simulation.arrive(Math.min(commitsAfterMs, cancelledAt - simulation.time), undefined, end, 'a commit');
    };
    const before = this.waiting.get(key);
    if (before) before.push(run);
    else {
      this.waiting.set(key, []);
      run();
    }
  }

  private free(key: Key): void {
    const next = this.waiting.get(key)?.shift();
    if (next) next();
    else this.waiting.delete(key);
  }
}
