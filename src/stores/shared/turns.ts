import { AllSnapshotsInUse } from '../../platform/faults.js';

/** Longer than a stalled reader keeps its snapshot while others wait, on a busy machine too. */
const WAIT_MS = 10_000;
/** Waiting at most; each is a request with a client. */
const MOST_WAITING = 256;

/**
 * A bounded number of snapshots that lists are read from. A request beyond it waits, and gives up after a while. The latest
 * is served first, so that many clients that do not read their answers cannot keep a reader waiting.
 */
export class Turns {
  private readonly line: (() => void)[] = [];
  private held = 0;

  constructor(private readonly most: number) {}

  /** Resolves when a snapshot is free; rejects with AllSnapshotsInUse after a while. Each turn taken must be passed on. */
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

  /** Whether a request waits for a turn. */
  areWanted(): boolean {
    return this.line.length > 0;
  }

  pass(): void {
    const next = this.line.pop();
    if (next) next();
    else this.held -= 1;
  }
}
