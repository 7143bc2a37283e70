import type { Locator } from 'playwright-core';
import { createdIn, draft, newAccount, postBatch, type Transaction } from '../client/transactions.js';
import type { OpenConsole } from './console.js';

export type Members = (index: number) => Record<string, unknown>;

/** From an account that no other test uses, the newest first, as the console shows them. */
export async function givenTransactions(url: string, count: number, members: Members = () => ({})) {
  const from = newAccount();
  const drafts = Array.from({ length: count }, (_, index) => draft({ fromAccount: from, ...members(index) }));
  return { from, created: createdIn(await postBatch(url, drafts)).reverse() };
}

/** The console's address for the results of a search. */
export const hashOf = (query: Record<string, string>) => `#/transactions?${new URLSearchParams(query)}`;

export const rowOf = ({ page }: OpenConsole, { transactionId }: Transaction): Locator =>
  page.locator('tbody tr', { hasText: String(transactionId) });
