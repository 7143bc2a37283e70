import { StoreUnavailable } from '../errors.js';

const WAIT_MS = 5_000;

/** A bounded number of holders; who comes later waits in line, and gives up after a while. */
export class Turns {
  private readonly line: (() => void)[] = [];
  private held = 0;

  constructor(private readonly most: number) {}

  /** Resolves when it is one's turn; StoreUnavailable when that takes too long. Every turn taken must be passed on. */
  async take(): Promise<void> {
    if (this.held < this.most) {
      this.held += 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const next = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.line.splice(this.line.indexOf(next), 1);
        reject(new StoreUnavailable('unchanged', `${this.most} are at it already`));
      }, WAIT_MS);
      this.line.push(next);
    });
  }

  pass(): void {
    const next = this.line.shift();
    if (next) next();
    else this.held -= 1;
  }
}
