import type { Clock } from '../platform/clock.js';
import type { RefusedTurn } from './answers.js';
import type { PaymentContext } from './context.js';
import { type LockEnds, NO_OWNER } from './lock-ends.js';
import type { FindResult } from './ports/ledger.js';
import type { PaymentRecord } from './ports/payment-history.js';
import { refusalAfter, type TurnOf } from './turn.js';
import type { Reference } from './values/reference.js';

/** Spec 4.1, endpoint 1. The key is stored when this resolves. `client`: whose key it is (rule A5). */
export type IssueKey = (client?: string) => Promise<string>;

export function createIssueKey(
  { keys, rules }: Pick<PaymentContext, 'keys' | 'rules'>,
  { newKey }: Pick<KeyTimes, 'newKey'>,
): IssueKey {
  return async (client) => {
    const key = newKey();
    await keys.issue(key, rules.idempotencyTtlMs, { client });
    return key;
  };
}

/**
 * Generates keys at the time of `keyClock`. After the clock was set back, keys get the lowest time that the ledger accepts, so
 * that they are not refused as too old.
 */
export interface KeyTimes {
  newKey(): string;
  /** The lowest key time since the last one that the ledger accepted; milliseconds since the epoch. */
  lowestMs(): number;
  /** The ledger accepted `lowestMs()`, and refuses keys with a time below `keysFromMs`. */
  noted(keysFromMs: number): void;
}

export function createKeyTimes(newKey: (atMs: number) => string, keyClock: Pick<Clock, 'now'>): KeyTimes {
  let keysFromMs = 0;
  let lowestMs = Number.POSITIVE_INFINITY;
  /** Reported to the ledger, and not confirmed yet. */
  let askedMs = Number.POSITIVE_INFINITY;

  function lower(): number {
    const now = keyClock.now();
    lowestMs = Math.min(lowestMs, Math.max(now, keysFromMs));
    return now;
  }

  return {
    newKey: () => newKey(Math.max(lower(), keysFromMs)),
    lowestMs() {
      lower();
      askedMs = Math.min(askedMs, lowestMs);
      lowestMs = Number.POSITIVE_INFINITY;
      return askedMs;
    },
    noted(from) {
      keysFromMs = from;
      askedMs = Number.POSITIVE_INFINITY;
    },
  };
}

export type IssueAnswer =
  | { readonly state: 'issued' }
  /** It was closed (rule P22). */
  | { readonly state: 'cancelled' }
  | RefusedTurn;

/** The key of a reference: the same one each time, and its record, so that it can be paid with by the key alone (rule P18). */
export type IssueComputedKey = (key: string, reference: Reference) => Promise<IssueAnswer>;

export function createIssueComputedKey(
  context: Pick<PaymentContext, 'keys' | 'ledger' | 'rules'> & { lockEnds: LockEnds; turnOf: TurnOf },
): IssueComputedKey {
  const { keys, ledger, lockEnds, turnOf } = context;
  const { idempotencyTtlMs } = context.rules;

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
        await lockEnds.finish(key, NO_OWNER, found.final);
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

/** The state of the row, or undefined if there is none. */
function stateOf(found: FindResult): PaymentRecord['state'] | 'PENDING' | undefined {
  switch (found.state) {
    case 'final':
      return found.final.outcome.state;
    case 'cancelled':
      return 'CANCELLED';
    case 'pending':
      return 'PENDING';
    case 'under way':
    case 'abandoned':
      return 'PROCESSING';
    case 'expired':
    case 'absent':
      return undefined;
  }
}
