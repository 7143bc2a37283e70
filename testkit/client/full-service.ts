import { expect } from 'vitest';
import { until } from '../time/until.js';
import { expectError } from './error-body.js';
import { type Answer, ask, pay, transactionIdOf } from './http-client.js';
import { untilPaid } from './payment-answers.js';
import { changeStatus, postTransaction, readTransaction, type Transaction } from './transactions.js';

/** Reconnecting, and on the way to it one time-out of every kind, on a busy machine. */
const DEADLINE_MS = 20_000;

export async function untilFullService(...urls: readonly string[]): Promise<void> {
  for (const url of urls) await until('full service', DEADLINE_MS, () => isServing(url));
}

async function isServing(url: string): Promise<boolean> {
  const key = await ask(`${url}/api/server-generated/generate-key`);
  if (key.status !== 200 || (await pay(url, key.json<string>())).status !== 200) return false;
  const created = await postTransaction(url);
  if (created.status !== 201) return false;
  const changed = await changeStatus(url, created.json<Transaction>().transactionId, 'FLAGGED');
  return changed.status === 200 && (await ask(`${url}/api/health/redis`)).status === 200;
}

/** Repeats a payment until it is paid, and returns its transaction id. Each answer before is one of these refusals. */
export async function untilOutcome(url: string, key: string, refusals = [409, 503, 504], deadlineMs = DEADLINE_MS) {
  const check = (answer: Answer) => {
    expect(refusals, answer.text).toContain(answer.status);
    expectError(answer, answer.status);
  };
  const id = transactionIdOf(await untilPaid(url, key, check, deadlineMs));
  expect(id).toBeDefined();
  return id as string;
}

/** Each service shows the transaction so, also in a second read, which may hit what the first has stored. */
export async function expectShown(urls: readonly string[], id: number, status: string | 404): Promise<void> {
  for (const url of [...urls, ...urls]) {
    const answer = await readTransaction(url, id);
    expect(answer.status === 404 ? 404 : answer.json<Transaction>().status).toBe(status);
  }
}
