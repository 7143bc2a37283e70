import type { Content } from '../values/content.js';
import type { Money } from '../values/money.js';

/** Port: the company that moves the money. The simulated one has no effect outside; a real one is reached over the network. */
export interface Processor {
  readonly traits: ProcessorTraits;

  /**
   * The version of the contract that its last whole reply named; 0 if it named none, or there was no reply. A charge can be pending, and be
   * ended, from `CONTRACT_OF_ENDINGS` on.
   */
  readonly contract: number;

  /** Charges once per key. Never throws for an act of the processor; anything unclear is 'unknown'. */
  charge(charge: Charge): Promise<ChargeResult | NotSent>;

  /**
   * Tells what became of an earlier charge with that key. `money`: the money that must have been charged; an answer that names other money
   * is unknown. If omitted, the answer is not compared. `open`: the payment is pending, or a cancellation ends it, so only a reply that
   * names `CONTRACT_OF_ENDINGS` counts.
   */
  lookUp(key: string, money?: Money, open?: OpenCharge): Promise<LookUpResult>;

  /**
   * Asks the processor to end a charge, so that it charges nothing from then on, also if the charge itself arrives later. Callers ask again
   * until there is an answer. Never throws for an act of the processor. `money`: as for a look-up.
   */
  end(ending: Ending, money?: Money): Promise<EndResult>;

  /**
   * Gives back a part of a charge, once per key, however long ago it was asked for first. Only a reply that names `CONTRACT_OF_ENDINGS`
   * counts. Never throws for an act of the processor.
   */
  refund(refund: Refund): Promise<RefundResult | NotSent>;

  /**
   * Tells what became of an earlier refund with that key, of the charge of `payment`. Only a reply that names `CONTRACT_OF_ENDINGS` counts.
   * `money` and `open`: as for `lookUp`, of the refund. `charged` of the result is what was given back.
   */
  lookUpRefund(key: string, payment: string, money?: Money, open?: OpenCharge): Promise<LookUpResult>;
}

/** All names of one account: rows that have any of them are this processor's. */
export function namesOf({ name, formerNames }: Pick<ProcessorTraits, 'name' | 'formerNames'>): readonly string[] {
  return [name, ...formerNames];
}

/** The first contract that knows pending charges, their ending, and refunds. */
export const CONTRACT_OF_ENDINGS = 3;

/** A charge that is pending, or that is being ended. */
export interface OpenCharge {
  /** The processor's own name of the charge, from an earlier reply. Undefined if no reply had one. */
  readonly id?: string | undefined;
}

export interface Ending extends Money, OpenCharge {
  readonly key: string;
  readonly transactionId: string;
}

export interface Refund extends Money {
  /** The refund's own key: the same in every send of it. */
  readonly key: string;
  readonly transactionId: string;
  /** The key of the payment that was charged. */
  readonly payment: string;
  /** The processor's own name of the charge, if a reply named one. */
  readonly chargeId?: string | undefined;
  readonly reason?: string | undefined;
}

/** A pending refund has no action. */
export type RefundResult = ChargeResult;

/** A processor that was opened: what its last calls say of it, and the end of its connections. */
export interface ProcessorClient extends Processor {
  /** The last call that ended brought no whole reply, or an error of the server (5xx). */
  readonly isDown: boolean;
  /** As its last whole reply said: true without the header `Moves-Money: no`. Null until there was one. */
  readonly movesMoney: boolean | null;
  /** Closes the connections to it. A call still under way ends as unknown. */
  close(): Promise<void>;
}

/** The known properties of a processor before it is called; they stay the same while the process runs. */
export interface ProcessorTraits {
  /** Kept in the payment's row: only an instance with the same processor may touch that payment. */
  readonly name: string;
  /** Earlier names of the same account (`PROCESSOR_FORMER_NAMES`): a payment under one of them is looked up here, and never sent. */
  readonly formerNames: readonly string[];
  /** How long a charge typically takes, before anything was measured. */
  readonly typicalMs: number;
  /** A call ends within this time, and the lease must outlive it. 0: a call has no effect outside this process. */
  readonly timeoutMs: number;
  /** How long after the claim a key may be sent again: the processor deduplicates at least that long. */
  readonly dedupMs: number;

  /**
   * The result of every charge, if a charge has no effect outside this process and takes no time. A new payment is then claimed and settled
   * in one commit, and only a takeover charges. If omitted, it is not known before the charge.
   */
  readonly certainResult?: Exclude<ChargeResult, { readonly state: 'unknown' | 'pending' }>;
}

/** Surely no byte of the request has left, and none will: the processor never receives this call (rule P15). */
export interface NotSent {
  readonly state: 'not sent';
  readonly cause: string;
}

export interface Charge extends Money {
  /** The idempotency key: the same in every send of a payment. In a message to a processor it is the `reference`. */
  readonly key: string;
  readonly transactionId: string;
  /** The order that is paid, if the client named one. Each attempt at it has a key of its own. */
  readonly order?: string | undefined;
  /** The same in every send. */
  readonly content?: Content | undefined;
}

export type LookUpResult =
  /** `charged`: what the processor says that it charged, or gave back, in canonical form. If omitted, it does not say. */
  | ({ readonly state: 'succeeded' | 'pending'; readonly charged?: Money | undefined } & ChargeResult)
  | Exclude<ChargeResult, { readonly state: 'succeeded' | 'pending' }>
  | NoRecord;

export interface NoRecord {
  readonly state: 'no record';
}

export type ChargeResult =
  | ({ readonly state: 'succeeded' } & OpenCharge)
  | ({ readonly state: 'declined'; readonly reason: string } & OpenCharge)
  | (PendingCharge & OpenCharge)
  | { readonly state: 'unknown'; readonly cause: string };

/** The charge was accepted, and its outcome takes time: the payer must confirm, or the processor itself waits (rule P24). */
export interface PendingCharge {
  readonly state: 'pending';
  /** The time at which the end is expected, in milliseconds since the epoch. Each look-up may move it. */
  readonly untilMs: number;
  /** The action of the payer; undefined if the payer has nothing to do. */
  readonly action?: Action | undefined;
}

/**
 * The means for the payer to confirm, as the adapter gave them: `url`, or members that the page knows. Idempay passes them on, and never
 * keeps them.
 */
export type Action = Readonly<Record<string, string>>;

export type EndResult =
  | Exclude<LookUpResult, { readonly state: 'pending' | 'no record' }>
  /** The charge cannot be ended (any more), so its outcome will come. */
  | { readonly state: 'cannot be ended' }
  /** The reply does not name the contract that knows endings: it may come from another instance of the adapter. */
  | { readonly state: 'other contract'; readonly cause: string };
