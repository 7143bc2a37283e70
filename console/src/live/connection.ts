import type { Http } from '../http/http.js';
import { ServiceError, sentenceOf } from '../http/service-error.js';
import type { Line } from './sample.js';

export type ConnectionState =
  | { readonly name: 'connecting' }
  | { readonly name: 'live' }
  /** `untilMs`: on the page's clock (`performance.now`). */
  | { readonly name: 'lost'; readonly sentence: string; readonly untilMs: number }
  | { readonly name: 'refused'; readonly sentence: string };

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;
/** A line comes at least in every interval: after so many without one the connection is dead, whatever the browser says. */
const SILENT_INTERVALS = 3;
/** Used until the first line gives the interval. */
const FIRST_LINE_MS = 15_000;
/** Samples of this overlap are requested again, because clocks of processes differ; duplicates are found by process and time. */
const OVERLAP_MS = 60_000;

interface Listener {
  line(line: Line): void;
  state(state: ConnectionState): void;
  /** The newest sample that is known; 0: none is. */
  latestAt(): number;
}

/**
 * Reads `GET /api/live` until `end` is called, and reconnects after a lost connection. A browser opens at most six connections to a host,
 * so a hidden tab holds none, and fetches the missed samples when it is shown again.
 */
export class LiveConnection {
  #ended = false;
  #pauseMs = FIRST_PAUSE_MS;
  #attempt = new AbortController();
  #endPause = () => {};

  constructor(
    readonly http: Http,
    readonly listener: Listener,
  ) {
    addEventListener('online', this.tryNow);
    document.addEventListener('visibilitychange', this.#onVisibility);
    void this.#run();
  }

  /** Ends the pause between two attempts. */
  tryNow = (): void => {
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#endPause();
  };

  end(): void {
    this.#ended = true;
    removeEventListener('online', this.tryNow);
    document.removeEventListener('visibilitychange', this.#onVisibility);
    this.#attempt.abort();
    this.#endPause();
  }

  #onVisibility = (): void => {
    if (document.hidden) this.#attempt.abort();
    else this.tryNow();
  };

  async #run(): Promise<void> {
    while (!this.#ended) {
      if (document.hidden) {
        await new Promise<void>((resolve) => {
          this.#endPause = resolve;
        });
        continue;
      }
      this.listener.state({ name: 'connecting' });
      try {
        await this.#read();
        await this.#pause('The service ended the connection.');
      } catch (error) {
        if (this.#ended) return;
        if (document.hidden) continue;
        if (isRefusal(error)) {
          this.listener.state({ name: 'refused', sentence: sentenceOf(error) });
          return;
        }
        await this.#pause(sentenceOfLoss(error));
      }
    }
  }

  async #read(): Promise<void> {
    const attempt = new AbortController();
    this.#attempt = attempt;
    let silence = setTimeout(() => attempt.abort(), FIRST_LINE_MS);
    let silenceMs = FIRST_LINE_MS;
    try {
      const since = Math.max(0, this.listener.latestAt() - OVERLAP_MS);
      const query = { since: since === 0 ? undefined : since };
      for await (const line of this.http.stream('api/live', { query, signal: attempt.signal })) {
        const told = line as Line;
        clearTimeout(silence);
        if (told.type === 'hello') {
          silenceMs = SILENT_INTERVALS * told.intervalMs;
          this.#pauseMs = FIRST_PAUSE_MS;
          this.listener.state({ name: 'live' });
        }
        silence = setTimeout(() => attempt.abort(), silenceMs);
        this.listener.line(told);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  /** Twice as long each time, and never the same for two pages: after a restart not all come at once. */
  async #pause(sentence: string): Promise<void> {
    if (this.#ended) return;
    const ms = this.#pauseMs * (0.75 + Math.random() / 2);
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
    this.listener.state({ name: 'lost', sentence, untilMs: performance.now() + ms });
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Another attempt would be answered in the same way. */
const isRefusal = (error: unknown) => error instanceof ServiceError && error.status < 500 && error.status !== 429;

const sentenceOfLoss = (error: unknown) =>
  error instanceof ServiceError ? sentenceOf(error) : 'The connection to the service is lost.';
