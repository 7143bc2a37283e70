import { waitsForFiles, waitsForSockets } from './waits-for-outside.js';
import { workUnderWay } from './work-under-way.js';

/** After this many idle turns of the event loop, all work is assumed to wait for time to pass. */
const QUIET_TURNS = 5;

/** How often files and sockets are looked at: it leaves them the processor. Real milliseconds. */
const LOOK_EVERY_MS = 1;

/** Kept from the start, so that fake timers that a test installs later do not stop the clock. */
const { setImmediate: afterTurn, setTimeout: afterMs } = globalThis;

interface Sleeper {
  readonly atMs: number;
  readonly wake: () => void;
}

/**
 * A clock that advances by itself as soon as all work only waits for time: a deadline of a minute passes at once. It stands still while a
 * fake works on a request, while files are read and written, and for about a second while a connection that this process opened awaits an
 * answer. It does not notice work that waits for another process, a thread or a timer of Node.js. Nor does it notice an answer over TLS on
 * a connection that was opened without it (`tls.connect({ socket })`, as pg does with `ssl`).
 */
export class TestClock {
  readonly #sleepers = new Set<Sleeper>();
  #nowMs = 0;
  #quietTurns = 0;
  #isRunning = false;

  readonly now = (): number => {
    this.#quietTurns = 0;
    return this.#nowMs;
  };

  readonly sleep = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      this.#quietTurns = 0;
      if (signal.aborted) return resolve();
      const sleeper: Sleeper = {
        atMs: this.#nowMs + ms,
        wake: () => {
          this.#quietTurns = 0;
          this.#sleepers.delete(sleeper);
          signal.removeEventListener('abort', sleeper.wake);
          resolve();
        },
      };
      signal.addEventListener('abort', sleeper.wake);
      this.#sleepers.add(sleeper);
      this.#run();
    });

  #run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const turn = () => {
      this.#isRunning = this.#sleepers.size > 0;
      if (!this.#isRunning) return;
      if (workUnderWay.is || waitsForFiles() || waitsForSockets()) {
        this.#quietTurns = 0;
        afterMs(turn, LOOK_EVERY_MS);
        return;
      }
      this.#quietTurns += 1;
      if (this.#quietTurns > QUIET_TURNS) this.#advance();
      afterTurn(turn);
    };
    afterTurn(turn);
  }

  #advance(): void {
    const [next] = [...this.#sleepers].sort((one, other) => one.atMs - other.atMs);
    if (!next) return;
    this.#nowMs = Math.max(this.#nowMs, next.atMs);
    next.wake();
  }
}
