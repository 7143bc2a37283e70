import type { NewTransaction } from '../../transactions/transaction.js';
import { UsageError } from '../usage.js';
import { batchKey, type ImportState, type PendingBatch } from './import-state.js';

/** What the service knows of a key. */
export type Found =
  /** It has created these rows. */
  | 'these rows'
  | 'other rows'
  /** It does not know the key: it was never used, or its life is over. */
  | 'nothing'
  /** It refuses the rows as they are, before it looks at the key. */
  | 'refused';

/** Asks, and creates nothing. */
export type FindBatch = (rows: readonly NewTransaction[], idempotencyKey: string) => Promise<Found>;

/**
 * What became of the batch that an earlier run may have sent. The service forgets keys in the order of their use. So if it does not know
 * this key, and afterwards still knows the key of the batch before, this key was never used. That is certain as long as
 * `IDEMPOTENCY_TTL_SECONDS` was not shortened between the two batches. It also proves that the credential is of the same client.
 * The first batch has none before it: there its age decides (`isTooOld`).
 */
export async function outcomeOfEarlier(
  { importId, createdSequence, pending }: ImportState & { readonly pending: PendingBatch },
  rows: readonly NewTransaction[],
  isTooOld: boolean,
  find: FindBatch,
): Promise<'created' | 'not created' | { readonly doubt: string }> {
  switch (await find(rows, batchKey(importId, pending.sequence))) {
    case 'these rows':
      return 'created';
    case 'other rows':
      throw new UsageError(
        'The service has other rows under the key of this batch: the state belongs to another import.',
      );
    case 'refused':
      return { doubt: 'Now the service refuses them, which does not say what it did before.' };
    case 'nothing':
      break;
  }
  if (createdSequence === undefined) return isTooOld ? { doubt: FORGOTTEN } : 'not created';
  // The 412 above shows that the service checks the precondition, so this request creates nothing either.
  const before = await find(rows, batchKey(importId, createdSequence));
  return before === 'these rows' || before === 'other rows' ? 'not created' : { doubt: FORGOTTEN };
}

const FORGOTTEN =
  'The service does not know their key. It may have forgotten it (IDEMPOTENCY_TTL_SECONDS), or it belongs to the client of another API key.';
