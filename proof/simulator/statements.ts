import { StatementRefused } from '#idempay/deployments/distributed/postgres/postgres.js';
import { STATEMENT_TIMEOUT_MS } from '#idempay/deployments/distributed/time-limits.js';
import type { Simulation } from './simulation.js';

/** `query_canceled` */
const CANCELLED = '57014';

/** A statement that has its row: what it will have done, and how long its commit takes. */
export interface Begun<T> {
  readonly commitsAfterMs: number;
  commit(): T;
}

/** Statements of a database server: one at a time on each row, each judged when the row is its own, and seen when it commits. */
export class Statements<Key> {
  /** Of each row that somebody is changing those who wait for it. */
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
    this.take(key, () => {
      if (simulation.time >= cancelledAt) {
        this.free(key);
        refuse(cancelled());
        return;
      }
      const { commitsAfterMs, commit } = begin();
      this.commitLater(Math.min(commitsAfterMs, cancelledAt - simulation.time), () => {
        reply(commit());
        this.free(key);
      });
    });
  }

  /** Of several rows: each is judged when it is its own, in the order of the keys, and all are seen at once. */
  executeAll<T>(
    keys: readonly Key[],
    begin: (key: Key, index: number) => () => T,
    commitsAfterMs: number,
    reply: (results: T[]) => void,
    refuse: (fault: Error) => void,
  ): void {
    const { simulation } = this;
    const cancelledAt = simulation.time + STATEMENT_TIMEOUT_MS;
    const held = new Set<Key>();
    const commits: (() => T)[] = [];
    const freeAll = () => {
      for (const key of held) this.free(key);
    };
    const goOn = (index: number) => {
      if (simulation.time >= cancelledAt) {
        freeAll();
        refuse(cancelled());
        return;
      }
      if (index === keys.length) {
        this.commitLater(Math.min(commitsAfterMs, cancelledAt - simulation.time), () => {
          reply(commits.map((commit) => commit()));
          freeAll();
        });
        return;
      }
      const key = keys[index] as Key;
      const judge = () => {
        held.add(key);
        commits.push(begin(key, index));
        goOn(index + 1);
      };
      if (held.has(key)) judge();
      else this.take(key, judge);
    };
    goOn(0);
  }

  private commitLater(ms: number, commit: () => void): void {
    if (ms === 0) commit();
    else this.simulation.arrive(ms, undefined, commit, 'a commit');
  }

  private take(key: Key, run: () => void): void {
    const before = this.waiting.get(key);
    if (before) {
      before.push(run);
      return;
    }
    this.waiting.set(key, []);
    run();
  }

  private free(key: Key): void {
    const next = this.waiting.get(key)?.shift();
    if (next) next();
    else this.waiting.delete(key);
  }
}

function cancelled(): StatementRefused {
  return new StatementRefused(CANCELLED, new Error('the statement was cancelled'));
}
