import type { Content } from './content.js';
import type { Money } from './money.js';
import type { RefundPart } from './refund.js';

/** How a payment ended; final per key, written once (rule P11). */
export type Outcome =
  | { readonly state: 'COMPLETED'; readonly transactionId: string }
  | { readonly state: 'DECLINED'; readonly reason: string };

/** An outcome as the stores keep it: with the fingerprint of its payment, and how long it is repeated. */
export interface FinalOutcome {
  readonly outcome: Outcome;
  readonly fingerprint: string;
  /** The client whose key it is. If it is undefined, every client sees the key (rule A5). */
  readonly client: string | undefined;
  /**
   * By the store's clock, milliseconds since the epoch; from then on the key is refused for ever (rule P9). For a payment with a reference,
   * which never expires: the end of its record's life.
   */
  readonly expiresAt: number;
}

/** The value of a key record (spec 2.1, rule P8): what the health endpoint shows under the bare key. */
export const KEY_GENERATED = 'KEY GENERATED';
export const DECLINED = 'DECLINED';

export function recordValueOf(outcome: Outcome): string {
  return outcome.state === 'COMPLETED' ? outcome.transactionId : DECLINED;
}

/** True if a client may know of a key: its own and everybody's. `undefined` sees every key (rule A5). */
export function isVisibleTo(client: string | undefined, keysClient: string | null | undefined): boolean {
  return client === undefined || (keysClient ?? client) === client;
}

/** Names one attempt at a payment; a later takeover of the same payment has a higher epoch, which fences this one off. */
export interface Fence {
  readonly key: string;
  /** Fencing token: 1 for the first claim, one more with each takeover. */
  readonly epoch: number;
  /** The attempt's own token: also the owner of the key's lock. */
  readonly owner: string;
}

/**
 * The mark of a payment that was given up: nothing was sent for its row, or the processor charged it and does not say how much. So an
 * operator may resolve it at once.
 */
export type UnsentMark = 'unsent' | 'unsent since a loss' | 'charged an amount that is not known';

/** The mark with which this claim is given up if its attempt sent nothing. Undefined if an earlier one may have sent something. */
export function unsentMarkOf({ unsent, mayBeLost }: Pick<Claim, 'unsent' | 'mayBeLost'>): UnsentMark | undefined {
  if (mayBeLost) return 'unsent since a loss';
  return unsent ? 'unsent' : undefined;
}

/** An operation that is ours to carry out: durably claimed, under a lease. Always worked on with these values (the row's). */
export interface Claim extends Fence, Money {
  /** It gives money back (rule P26). Undefined for a payment. */
  readonly refund?: RefundPart | undefined;
  readonly transactionId: string;
  readonly fingerprint: string;
  /** The client whose key it is. If it is undefined, every client sees the key (rule A5). */
  readonly client: string | undefined;
  readonly processor: string;
  /** The order that the key is computed from, and which attempt at it. Undefined if the key was generated. */
  readonly reference?: string | undefined;
  readonly attempt?: number | undefined;
  /** As the first claim had it; later requests of the payment never change it. */
  readonly content?: Content | undefined;
  /**
   * Nothing was ever sent for it: it is the first claim, or the epoch before was given up as unsent, as were all before. So it may be sent
   * at any time, also if a reference must not be sent twice (rule P15).
   */
  readonly unsent: boolean;
  /**
   * Nothing was ever sent for this row, and an earlier row of its computed key may have been lost, with a charge. The processor is asked
   * first, and if it clearly has no record, one send is permitted at any time. It is not `unsent`.
   */
  readonly mayBeLost?: boolean | undefined;
  /** When it was claimed, an earlier row of its key may have been lost: the charge, or refund, may have another amount than this row. */
  readonly claimedAfterLoss?: boolean | undefined;
  /** The processor said that the payment is pending (rule P24): it was sent, so it is never sent again. */
  readonly isPending?: boolean | undefined;
  /** A cancellation ends the payment (rule P25): nothing is sent for it, and the processor is asked for the ending until it answers. */
  readonly ending?: EndingScope | undefined;
  /** The processor's own name of the charge. A settlement keeps it in the row. */
  readonly processorId?: string | undefined;
  /** Milliseconds since the first claim, by the store's clock; negative when that was set back meanwhile. */
  readonly ageMs: number;
  /**
   * The first claim by the wall clock, milliseconds since the epoch, if the store's clock stands still while the machine is suspended.
   * Undefined if the store's clock alone decides.
   */
  readonly claimedAtWallMs?: number | undefined;
}

/**
 * Why an attempt runs. `operator` only looks the payment up; it never sends a charge. Neither does `cancellation`, which ends the payment.
 */
export type Origin = 'first claim' | 'repeat' | 'recovery' | 'operator' | 'cancellation';

/** The steps of an attempt beyond a plain first one, kept in the payment's row for its timeline. */
export interface ExecutionNote {
  /** The result of the look-up before it. Undefined if there was none. */
  readonly lookedUp?: LookedUp | undefined;
  /** Its charge may have left this process. */
  readonly sent: boolean;
  /** Why it ended without an outcome; undefined if it has one. */
  readonly cause?: string | undefined;
  /** The expected end (milliseconds since the epoch), if the execution ended because the payment is pending. */
  readonly pendingUntil?: number | undefined;
}

/** The scope of a cancellation of a payment under way: the whole order, or this attempt only, so that another attempt may follow. */
export type EndingScope = 'order' | 'attempt';

/**
 * A payment that is PROCESSING, and waits at the processor for its outcome (rule P24). It has no lease, unless an outcome is being written.
 */
export interface PendingPayment extends Money {
  readonly key: string;
  /** It gives money back (rule P26). Undefined for a payment. */
  readonly refund?: RefundPart | undefined;
  readonly transactionId: string;
  readonly fingerprint: string;
  readonly client: string | undefined;
  readonly processor: string;
  readonly reference?: string | undefined;
  readonly attempt?: number | undefined;
  /** The processor's own name of the charge. */
  readonly processorId?: string | undefined;
  readonly ending?: EndingScope | undefined;
  readonly claimedAfterLoss?: boolean | undefined;
  /** The time at which the processor expects the end, in milliseconds since the epoch. */
  readonly untilMs: number;
  /** The rest of the lease of an execution that is at work on the payment; 0 if there is none. */
  readonly remainingMs: number;
}

/** `no answer`: none that says anything. */
export type LookedUp = 'found' | 'no record' | 'no answer';
