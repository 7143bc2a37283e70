import { StoreUnavailable } from '../platform/faults.js';
import type { NowOrLater } from '../platform/now-or-later.js';
import type { KeyStore, LookResult } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { FinalOutcome } from './values/payment.js';

/** Spec 4.1, endpoint 3: the outcome as the key store has it, or else the row. */
export function createOutcomes(
  keys: Pick<KeyStore, 'look'>,
  ledger: Pick<Ledger, 'find'>,
): (key: string, client?: string) => NowOrLater<FinalOutcome | undefined> {
  async function ofRow(key: string, client: string | undefined): Promise<FinalOutcome | undefined> {
    const found = await ledger.find(key, client);
    return found.state === 'final' ? found.final : undefined;
  }

  function outcomeOf(
    looked: LookResult,
    key: string,
    client: string | undefined,
  ): NowOrLater<FinalOutcome | undefined> {
    return looked.state === 'final' ? looked.final : ofRow(key, client);
  }

  return (key, client) => {
    const looked = keys.look(key, client);
    if (!(looked instanceof Promise)) return outcomeOf(looked, key, client);
    return looked.catch(forgotten).then((later) => outcomeOf(later, key, client));
  };
}

/** Treats a key store that is away as one that has forgotten the key: the row is read instead. */
function forgotten(fault: unknown): LookResult {
  if (!(fault instanceof StoreUnavailable)) throw fault;
  return { state: 'absent' };
}

/** Without the key store only outcomes are answered, from the row. No payment is begun. */
export async function outcomeWithoutKeyStore(
  ledger: Pick<Ledger, 'find'>,
  key: string,
  client: string | undefined,
  fault: unknown,
): Promise<{ state: 'final'; final: FinalOutcome }> {
  if (!(fault instanceof StoreUnavailable)) throw fault;
  const found = await ledger.find(key, client);
  if (found.state !== 'final') throw fault;
  return found;
}
