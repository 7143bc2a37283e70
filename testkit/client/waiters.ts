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

/**
 * `count` requests for one payment that wait at the same time, each on a connection of its own, in turn at each process;
 * one that is cut off sends the same again to the next.
 */
export function sendWaiters(urls: readonly string[], key: string, count: number): Promise<Waited[]> {
  const agent = new Agent({ keepAlive: true });
  async function sendOne(index: number, began = performance.now(), sends = 1): Promise<Waited> {
    const url = urls[(index + sends) % urls.length] as string;
    try {
      const answer = await pay(url, key, undefined, { headers: PATIENT, agent });
      return { answer, tookMs: performance.now() - began, sends };
    } catch (fault) {
      if (sends >= urls.length) throw fault;
      return sendOne(index, began, sends + 1);
    }
  }
  return Promise.all(Array.from({ length: count }, (_, index) => sendOne(index))).finally(() => agent.destroy());
}
