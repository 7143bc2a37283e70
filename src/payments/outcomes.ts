import { StoreUnavailable } from '../platform/faults.js';
import { type LockEnds, NO_OWNER } from './lock-ends.js';
import type { KeyStore } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { PaymentHistory } from './ports/payment-history.js';
import type { FinalOutcome } from './values/payment.js';
import type { NamedPayment, Reference } from './values/reference.js';

/** Spec 4.1, endpoint 3: the outcome as the key store has it, or else the row, which a key store that has lost it then gets again. */
export function createOutcomes(
  keys: Pick<KeyStore, 'look'>,
  ledger: Pick<Ledger, 'find'>,
  lockEnds: Pick<LockEnds, 'finish'>,
): (key: string, client?: string) => Promise<FinalOutcome | undefined> {
  return async (key, client) => {
    const looked = await keys.look(key, client).catch(unlessUnavailable);
    if (looked?.state === 'final') return looked.final;
    const found = await ledger.find(key, client);
    if (found.state !== 'final') return undefined;
    if (looked) await lockEnds.finish(key, NO_OWNER, found.final);
    return found.final;
  };
}

/**
 * The outcome that counts for a reference: its newest attempt has it. An attempt only follows a decline, so the first one, if it is
 * completed, is the newest, and mostly the key store knows it.
 */
export function createNewestOutcome(
  outcomeOf: (key: string, client?: string) => Promise<FinalOutcome | undefined>,
  history: Pick<PaymentHistory, 'newestAttempt'>,
): (first: NamedPayment & { readonly reference: Reference }) => Promise<NewestOutcome> {
  return async ({ key, client, reference: { text, client: ordersClient } }) => {
    const first = await outcomeOf(key, client);
    if (first?.outcome.state === 'COMPLETED') return { key, final: first };
    const newest = await history.newestAttempt(text, ordersClient);
    if (!newest || newest.key === key) return { key, final: first };
    return { key: newest.key, final: await outcomeOf(newest.key, client) };
  };
}

export interface NewestOutcome {
  readonly key: string;
  readonly final: FinalOutcome | undefined;
}

/** Undefined if the key store is down. The caller then reads the row. */
function unlessUnavailable(fault: unknown): undefined {
  if (!(fault instanceof StoreUnavailable)) throw fault;
}
