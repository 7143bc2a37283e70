import { Agent } from 'node:http';
import { type Answer, pay } from './http-client.js';

/** As patient as the service allows. */
export const PATIENT = { Prefer: 'wait=30' } as const;

/** An answer that somebody waited for, and how long. */
export interface Waited {
  readonly answer: Answer;
  readonly tookMs: number;
  /** How often the request was sent: again, elsewhere, when its process died. */
  readonly sends: number;
}

/** Requests for one payment that wait at the same time, each on a connection of its own. */
export class Waiters {
  readonly #agent = new Agent({ keepAlive: true });

  /** `count` of them, in turn at each process; one that is cut off sends the same again to the next. */
  send(urls: readonly string[], key: string, count: number): Promise<Waited[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.#sendOne(urls, key, index)));
  }

  close(): void {
    this.#agent.destroy();
  }

  async #sendOne(urls: readonly string[], key: string, index: number): Promise<Waited> {
    const began = performance.now();
    for (let sends = 1; ; sends += 1) {
      const url = urls[(index + sends) % urls.length] as string;
      const sent = pay(url, key, undefined, { headers: PATIENT, agent: this.#agent });
      const answer = await sent.catch((fault: unknown) => {
        if (sends >= urls.length) throw fault;
      });
      if (answer) return { answer, tookMs: performance.now() - began, sends };
    }
  }
}
