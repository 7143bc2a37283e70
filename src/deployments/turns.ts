import { AllSnapshotsInUse } from '../faults.js';

/** Longer than a stalled reader keeps its snapshot when others wait for one, on a busy machine too. */
const WAIT_MS = 10_000;
/** In line at most; each has a request that waits, and a client. */
const MOST_WAITING = 256;

/**
 * A bounded number of snapshots that lists are read from; who comes later waits in line, and gives up after a while. The last
 * one in line is the next, so that a crowd of requests that nobody reads the answers of does not keep a reader waiting.
 */
export class Turns {
  private readonly line: (() => void)[] = [];
  private held = 0;

  constructor(private readonly most: number) {}

  /** Resolves when it is one's turn; AllSnapshotsInUse when that takes too long. Every turn taken must be passed on. */
  async take(): Promise<void> {
    if (this.held < this.most) {
      this.held += 1;
      return;
    }
    if (this.line.length >= MOST_WAITING) throw new AllSnapshotsInUse(this.most);
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.line.splice(this.line.indexOf(next), 1);
        reject(new AllSnapshotsInUse(this.most));
      }, WAIT_MS);
      this.line.push(next);
    });
  }

  /** Whether somebody waits for a turn. */
  areWanted(): boolean {
    return this.line.length > 0;
  }

  pass(): void {
    const next = this.line.pop();
    if (next) next();
    else this.held -= 1;
  }
}
