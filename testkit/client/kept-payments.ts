import type { KeptPayment } from '../checkers/payments.js';
import { type History, LAST_PATIENCE_MS, type Reply, type Target } from '../history/history.js';
import { pause } from '../time/until.js';
import { nextPage } from './http-client.js';

const DAY_MS = 86_400_000;
const MOST_REPEATS = 3;
const REPEAT_AFTER_MS = 500;

/** Every payment that this process shows, through all pages of the list. Keys that nobody paid with are not among them. */
export async function keptPayments(history: History, to: Target): Promise<KeptPayment[]> {
  const found: KeptPayment[] = [];
  for (let path: string | undefined = '/api/payments?limit=500'; path !== undefined; ) {
    const reply = await read(history, to, path);
    found.push(...(JSON.parse(reply.text) as KeptPayment[]));
    path = nextPage(reply);
  }
  return found;
}

/** Every payment that was settled since then, as the exports of the days show it; `sinceMs` is of the epoch. */
export async function exportedPayments(history: History, to: Target, sinceMs: number): Promise<KeptPayment[]> {
  const found: KeptPayment[] = [];
  for (let day = sinceMs - (sinceMs % DAY_MS); day <= Date.now(); day += DAY_MS) {
    const { text } = await read(history, to, `/api/payments/export?day=${new Date(day).toISOString().slice(0, 10)}`);
    const lines = text.split('\n');
    const [end = '', afterEnd] = lines.splice(-2);
    if (afterEnd !== '' || !end.startsWith(`{"end":true,"count":${lines.length},`))
      throw new Error('an export was cut');
    found.push(...lines.map((line) => JSON.parse(line) as KeptPayment));
  }
  return found;
}

async function read(history: History, to: Target, path: string): Promise<Reply> {
  let reply = await history.send(to, path, {}, 2 * LAST_PATIENCE_MS);
  // A store that was slow for a moment refuses one read.
  for (let tries = 0; [0, 503].includes(reply.status) && tries < MOST_REPEATS; tries += 1) {
    await pause(REPEAT_AFTER_MS);
    reply = await history.send(to, path, {}, 2 * LAST_PATIENCE_MS);
  }
  if (reply.status !== 200) throw new Error(`${path} answered ${reply.status} ${reply.failure} ${reply.text}`);
  return reply;
}
