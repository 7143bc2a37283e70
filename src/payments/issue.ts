import type { RefusedTurn } from './answers.js';
import type { Endings } from './endings.js';
import type { KeyStore } from './ports/key-store.js';
import type { FindResult, Ledger } from './ports/ledger.js';
import type { PaymentRecord } from './ports/payment-history.js';
import { refusalAfter, type TurnOf } from './turn.js';
import type { Reference } from './values/reference.js';

export type IssueAnswer =
  | { readonly state: 'issued' }
  /** It was closed (rule P22). */
  | { readonly state: 'cancelled' }
  | RefusedTurn;

/** The key of a reference: the same one each time, and its record, so that it can be paid with by the key alone (rule P18). */
export type IssueComputedKey = (key: string, reference: Reference) => Promise<IssueAnswer>;

export function createIssueComputedKey(collaborators: {
  keys: Pick<KeyStore, 'issue'>;
  endings: Pick<Endings, 'finish'>;
  ledger: Pick<Ledger, 'find' | 'mayBeLost'>;
  turnOf: TurnOf;
  idempotencyTtlMs: number;
}): IssueComputedKey {
  const { keys, endings, ledger, turnOf, idempotencyTtlMs } = collaborators;

  /**
   * The claim decides, and knows whether a decline is young enough; this only tells before. If the row before may be lost, the payment asks the
   * processor, so that the key of an attempt that was paid is given out again.
   */
  async function refusalOf(reference: Reference): Promise<RefusedTurn | undefined> {
    const { previousKey } = turnOf(reference);
    if (previousKey === undefined) return undefined;
    const refusal = refusalAfter(stateOf(await ledger.find(previousKey)), true);
    if (!refusal || (refusal.previous === 'absent' && (await ledger.mayBeLost(previousKey)))) return undefined;
    return { ...refusal, attempt: reference.attempt };
  }

  return async function issueComputedKey(key, reference) {
    const found = await ledger.find(key);
    switch (found.state) {
      case 'final':
        // The store may have lost the record, or it has expired: the row never does.
        await endings.finish(key, NO_OWNER, found.final);
        return { state: 'issued' };
      case 'cancelled':
        return found;
      case 'absent': {
        const refusal = await refusalOf(reference);
        if (refusal) return refusal;
        await keys.issue(key, idempotencyTtlMs, { client: reference.client, reference });
        return { state: 'issued' };
      }
      default:
        return { state: 'issued' };
    }
  };
}

/** The state of the row, or undefined where there is none. */
function stateOf(found: FindResult): PaymentRecord['state'] | undefined {
  switch (found.state) {
    case 'final':
      return found.final.outcome.state;
    case 'cancelled':
      return 'CANCELLED';
    case 'under way':
    case 'abandoned':
      return 'PROCESSING';
    case 'expired':
    case 'absent':
      return undefined;
  }
}

/** Holds no lock. */
const NO_OWNER = '';
