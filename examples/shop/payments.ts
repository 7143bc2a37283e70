import { setTimeout as pause } from 'node:timers/promises';
import { DeadKeyError, DeclinedError, type Idempay, UnavailableError, UnknownOutcomeError } from '@idempay/client';
import { payOnce } from '../pay-once.ts';
import type { Attempt, Orders, Outcome } from './orders.ts';

/** How an attempt stands: ended, or to be gone on with. */
export type Standing =
  | Outcome
  /** Money may have moved, or may still move. The shop goes on with it. */
  | { readonly state: 'unknown' }
  /** Nobody but the processor knows whether money moved: a person looks there for the key. No other attempt may begin before. */
  | { readonly state: 'unresolved'; readonly key: string }
  /** Nothing was charged. The payer may try again. */
  | { readonly state: 'unavailable' };

/** Called for a click, for its repeats, and by `finishOpenPayments`: all of them get the one outcome. */
export async function payAttempt(idempay: Idempay, orders: Orders, attempt: Attempt): Promise<Standing> {
  const ended = await orders.outcomeOf(attempt);
  if (ended) return ended;
  const deadKey = await orders.deadKeyOf(attempt);
  if (deadKey !== undefined) return { state: 'unresolved', key: deadKey };
  try {
    const { transactionId } = await payOnce(idempay, attempt.order.price, attempt.keyFile);
    return await end({ state: 'paid', transactionId });
  } catch (error) {
    if (error instanceof DeclinedError) return end({ state: 'declined', reason: error.reason });
    // One of the UnknownOutcomeErrors, so it is asked for first: to try again does not help.
    if (error instanceof DeadKeyError) return setAside(error.key);
    if (error instanceof UnknownOutcomeError) return { state: 'unknown' };
    if (error instanceof UnavailableError) return { state: 'unavailable' };
    throw error;
  }

  async function end(outcome: Outcome): Promise<Outcome> {
    await orders.end(attempt, outcome);
    return outcome;
  }

  async function setAside(key: string): Promise<Standing> {
    await orders.setAside(attempt, key);
    console.error(`order ${attempt.order.id}, attempt ${attempt.number}: look for the key ${key} at the processor`);
    return { state: 'unresolved', key };
  }
}

const EVERY_MS = 5_000;

/** What the shop, or a browser, began and did not end: at the start, and every few seconds. */
export async function finishOpenPayments(idempay: Idempay, orders: Orders, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    for await (const attempt of orders.open()) {
      await payAttempt(idempay, orders, attempt).catch((error: Error) => console.error(error.message));
    }
    await pause(EVERY_MS, undefined, { signal }).catch(() => {});
  }
}
