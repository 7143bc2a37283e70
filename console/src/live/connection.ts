import type { Http } from '../http/http.js';
import { ServiceError, sentenceOf } from '../http/service-error.js';
import type { LiveSamples } from './sample.js';

export type ConnectionState =
  | { readonly name: 'connecting' }
  | { readonly name: 'live' }
  /** `untilMs`: on the page's clock (`performance.now`). */
  | { readonly name: 'lost'; readonly sentence: string; readonly untilMs: number }
  | { readonly name: 'refused'; readonly sentence: string };

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 30_000;

interface Listener {
  samples(samples: LiveSamples): void;
  state(state: ConnectionState): void;
  /** Only samples after this time are asked for; 0: all. */
  since(): number;
}

/**
 * Polls `GET /api/live` until `end` is called, and goes on after a lost connection. A hidden tab does not poll: it fetches the missed samples
 * when it is shown again.
 */
export class LiveConnection {
  #ended = false;
  #isLive = false;
  #pauseMs = FIRST_PAUSE_MS;
  #poll = new AbortController();
  #endPause = () => {};

  constructor(
    readonly http: Http,
    readonly listener: Listener,
  ) {
    addEventListener('online', this.tryNow);
    document.addEventListener('visibilitychange', this.#onVisibility);
    void this.#run();
  }

  /** Ends the pause between two polls. */
  tryNow = (): void => {
    this.#pauseMs = FIRST_PAUSE_MS;
    this.#endPause();
  };

  end(): void {
    this.#ended = true;
    removeEventListener('online', this.tryNow);
    document.removeEventListener('visibilitychange', this.#onVisibility);
    this.#poll.abort();
    this.#endPause();
  }

  #onVisibility = (): void => {
    if (document.hidden) this.#poll.abort();
    else this.tryNow();
  };

  async #run(): Promise<void> {
    while (!this.#ended) {
      if (document.hidden) {
        this.#isLive = false;
        await this.#pause();
      } else {
        await this.#follow();
      }
    }
  }

  /** One poll, and the pause after it. */
  async #follow(): Promise<void> {
    if (!this.#isLive) this.listener.state({ name: 'connecting' });
    try {
      const samples = await this.#fetch();
      if (this.#ended) return;
      this.#isLive = true;
      this.#pauseMs = FIRST_PAUSE_MS;
      this.listener.state({ name: 'live' });
      this.listener.samples(samples);
      await this.#pause(samples.intervalMs);
    } catch (error) {
      if (this.#ended || document.hidden) return;
      this.#isLive = false;
      if (isRefusal(error)) {
        this.listener.state({ name: 'refused', sentence: sentenceOf(error) });
        this.end();
        return;
      }
      await this.#backOff(sentenceOfLoss(error));
    }
  }

  async #fetch(): Promise<LiveSamples> {
    const poll = new AbortController();
    this.#poll = poll;
    const since = this.listener.since();
    const query = { since: since === 0 ? undefined : since };
    return (await this.http.ask<LiveSamples>('api/live', { query, signal: poll.signal })).body;
  }

  /** Twice as long each time, and never the same for two pages: after a restart not all come at once. */
  async #backOff(sentence: string): Promise<void> {
    const ms = this.#pauseMs * (0.75 + Math.random() / 2);
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
    this.listener.state({ name: 'lost', sentence, untilMs: performance.now() + ms });
    await this.#pause(ms);
  }

  /** If `ms` is omitted, until `tryNow`. */
  async #pause(ms?: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
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
