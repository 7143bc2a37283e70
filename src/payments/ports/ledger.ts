import type { Content } from '../values/content.js';
import type { Money } from '../values/money.js';
import type {
  Claim,
  EndingScope,
  ExecutionNote,
  Fence,
  FinalOutcome,
  Outcome,
  PendingPayment,
  UnsentMark,
} from '../values/payment.js';
import type { Reference } from '../values/reference.js';

/**
 * Port: the durable row of every operation, a payment or a refund, in the store of record (rule P12). One row per key, and a final state is
 * written once: this row keeps the promise of exactly once. Its contract: `test/contracts/ledger-contract.ts`. A refund is claimed and found by
 * `RefundLedger`; every other call serves both kinds, and a refund that ends as DECLINED lowers the refunded sum of its payment in that commit.
 *
 * Every operation is one atomic commit, durable when it resolves. The store's own clock decides about leases.
 * Durations are milliseconds; faults are StoreUnavailable.
 */
export interface Ledger {
  /** Writes the row before anything is charged, or says what the row that exists already means for this attempt. */
  claim(attempt: ClaimAttempt): Promise<ClaimResult>;

  /** Inserts the row as CANCELLED (rule P22): either this or a claim of the key succeeds, never both. Nothing is ever charged for it. */
  cancel(cancellation: Cancellation): Promise<CancelResult>;

  /**
   * Reads the row after the call began, never the result of an earlier read. Absent if the key is another client's, or a refund's. Without a
   * `client` every key is visible.
   */
  find(key: string, client?: string): Promise<FindResult>;

  /**
   * True if it is certain that the key was never claimed and never can be. It was generated more than `lifeMs` ago, has no row that
   * `client` sees, and never had a row that a failover, a restore or `removeSettled` removed. All of it is one look at the store, by its
   * clock. Without a `client` every row is visible. Only for keys that the service generates.
   */
  endedUnclaimed(key: string, lifeMs: number, client?: string): Promise<boolean>;

  /** True if an earlier row of the key may have been lost, with a failover or a restore, also one that is not written down yet. */
  mayBeLost(key: string): Promise<boolean>;

  /** The source and the return address of a payment that is not final (rules P19 and P24). Undefined if it has none, or none any more. */
  payerOf(key: string): Promise<Pick<Content, 'source' | 'returnUrl'> | undefined>;

  /**
   * A person has compared the processor's charges with the rows: from now on, no loss that was noticed before this call refuses anything
   * because of its processor.
   */
  acceptLostRows(): Promise<void>;

  /**
   * Takes over one abandoned payment; undefined when its lease lives, it is final, or it is another processor's. A pending payment is taken
   * over only with `isPending`, by a caller that has its outcome.
   */
  takeOver(takeover: Takeover & { readonly key: string; readonly isPending?: boolean }): Promise<Claim | undefined>;

  /**
   * Takes over an abandoned payment, pending or not, and writes in the same commit that a cancellation ends it (rule P25). With
   * `onlyUnsent`, a payment that may have been sent is left alone. Undefined as with `takeOver`, or if the payment is left alone.
   */
  beginEnding(ending: BegunEnding): Promise<Claim | undefined>;

  /**
   * Takes over up to `limit` abandoned payments of the processor that are due for recovery, from one end of their order. Pending payments
   * are left out.
   */
  takeOverDue(takeover: DueTakeover): Promise<readonly Claim[]>;

  /**
   * Up to `limit` pending payments of the processor that are due to be asked about, longest due first. In the same commit, each becomes due
   * again after a quarter of its age, between 5 seconds and an hour, and not after `untilMs` if that time is to come. The rest of its row
   * does not change, and no lease begins.
   */
  duePending(due: { readonly processor: string; readonly limit: number }): Promise<readonly PendingPayment[]>;

  /** Moves the expected end of a pending payment (milliseconds since the epoch). Writes no event, and changes no final row. */
  movePending(key: string, untilMs: number): Promise<void>;

  /** Lengthens the lease; false when the attempt has been fenced off. */
  renew(fence: Fence, leaseMs: number): Promise<boolean>;

  /**
   * Writes the outcome if the attempt still owns the payment: compare-and-set on key, epoch, owner, PROCESSING. `note`: kept
   * for its timeline; an attempt that claimed, charged and settles has none.
   */
  settle(claim: Claim, outcome: Outcome, idempotencyTtlMs: number, note?: ExecutionNote): Promise<SettleResult>;

  /**
   * The same, and writes an outcome that was found out because rows may have been lost: only for such a row, and never part of a first
   * payment. The row gets the money of the claim, and the sum of a refund's payment is moved by the difference.
   */
  settleAfterLoss(claim: Claim, settlement: SettlementAfterLoss): Promise<SettleResult>;

  /**
   * Ends the lease at once if it is still the attempt's: the outcome is unknown. `takeOver` and `claim` may take it over
   * from now on, `takeOverDue` only after `recoverAfterMs`. The attempt is fenced off: a renewal or settlement of it
   * that arrives later changes nothing. A `mark` says that surely nothing was ever sent for it, or nothing for its row, before which an
   * earlier one may have been lost. Only the next takeover sees the mark; one of a loss counts only while rows of computed keys are looked
   * up. The `note` is kept for its timeline. Resolves to whether it was still the attempt's.
   */
  abandon(fence: Fence, recoverAfterMs: number, mark?: UnsentMark, note?: ExecutionNote): Promise<boolean>;

  /**
   * Ends the lease of a payment that may have been sent and has no outcome: the payment is pending from now on, or the ending that a
   * cancellation began is over without an answer that ends the payment.
   */
  leave(fence: Fence, left: Left, note: ExecutionNote): Promise<boolean>;

  /**
   * Writes the outcome that an operator found out, with one epoch more, so that no attempt can settle it any more. Only if no attempt is at
   * work on the payment, and `dedupMs` have passed since its first claim, or `idempotencyTtlMs` if nothing was ever sent for it. The
   * outcome is repeated for `idempotencyTtlMs`. A pending payment is resolved `RESOLVABLE_AFTER_UNTIL_MS` after its end was expected, or
   * `RESOLVABLE_AFTER_CLAIM_MS` after its first claim.
   */
  resolve(resolution: Resolution): Promise<ResolveResult>;

  /**
   * Counts payments that are PROCESSING and not pending, with a dead lease, or taken over at this moment, among the `MOST_COUNTED` oldest
   * under way. They were first claimed more than `dedupMs` ago, or more than `idempotencyTtlMs` ago if nothing was ever sent for them.
   */
  countAbandoned(dedupMs: number, idempotencyTtlMs: number): Promise<number>;

  /** Payments that are PROCESSING with a dead lease and not pending, of every processor and any age, among the `MOST_COUNTED` oldest under way. */
  backlog(): Promise<Backlog>;

  /** Pending payments of every processor, among the `MOST_COUNTED` oldest. */
  pendingBacklog(): Promise<PendingBacklog>;

  /**
   * Counts time in which this process ran. A payment's age, for its removal, is the time that was counted since it was settled.
   * Time that several processes report is counted once, and each call counts an hour at most. Wall clocks are not used.
   */
  noteElapsed(elapsed: Elapsed): Promise<RetentionTime>;

  /**
   * Looks at up to `limit` old final payments, oldest first, and goes on after the payments of the call before. It removes a payment that
   * was settled more than `retentionMs` ago, by an hour or two, and is no longer repeated. A removed key can never be claimed again: before
   * a row goes, the ledger answers 'expired' to every claim of a key (a UUIDv7) older than all keys of the last `retentionMs`. So the first
   * call may remove nothing, and later calls do.
   */
  removeSettled(retentionMs: number, limit: number): Promise<RemovalResult>;
}

/** More payments under way are not looked at for a count, so that its cost does not grow with a fault: a count of it means this many, or more. */
export const MOST_COUNTED = 5_000;

export interface Backlog {
  readonly payments: number;
  /** Since the first claim of the oldest one; 0 if there is none. */
  readonly oldestMs: number;
}

export interface PendingBacklog extends Backlog {
  /** The number of pending payments whose end was expected before now. */
  readonly pastUntil: number;
}

export const RESOLVABLE_AFTER_UNTIL_MS = 3_600_000;
export const RESOLVABLE_AFTER_CLAIM_MS = 30 * 24 * 3_600_000;

/** The changes to a row by an execution that ends without an outcome. */
export interface Left {
  readonly recoverAfterMs: number;
  /**
   * The payment is pending from now on, and its end is expected at this time (milliseconds since the epoch). If omitted, the row keeps its
   * time.
   */
  readonly pendingUntilMs?: number | undefined;
  /** The ending that a cancellation began is over, and the payment is as before. */
  readonly clearsEnding?: boolean | undefined;
  /** If omitted, the row keeps its name of the charge. */
  readonly processorId?: string | undefined;
  /** The money that the processor charges, if an earlier row was lost and this one has another amount. If omitted, the row keeps its own. */
  readonly charged?: (Money & { readonly fingerprint: string }) | undefined;
}

export interface BegunEnding extends Takeover {
  readonly key: string;
  /** The row keeps the scope. An ending of the order is never narrowed to an attempt by a later request. */
  readonly scope: EndingScope;
  readonly onlyUnsent: boolean;
}

export interface Elapsed {
  /** The `seenMs` of the call before; 0 at first. */
  readonly sinceMs: number;
  /** By its monotonic clock since then; whole milliseconds. */
  readonly elapsedMs: number;
  /** The lowest time of the keys that it generated since then, or would have; milliseconds since the epoch. */
  readonly lowestKeyMs: number;
}

export interface RetentionTime {
  /** Milliseconds that processes of this deployment have seen pass, since it began to count. */
  readonly seenMs: number;
  /** Keys with a lower time are never claimed; milliseconds since the epoch. */
  readonly keysFromMs: number;
  /** Milliseconds that the store's clock advanced in steps of more than an hour, unseen by any process and unconfirmed by an operator. */
  readonly unseenMs: number;
}

export interface RemovalResult {
  readonly removed: number;
  /** Old payments are left; the next call continues. */
  readonly more: boolean;
}

/** The processor whose payments an attempt may touch (rule P14). */
export interface OfProcessor {
  readonly processor: string;
  /** Earlier names of the same account: rows that have one of them are taken over too. If omitted, there are none. */
  readonly formerProcessors?: readonly string[] | undefined;
}

/** All names of the processor. */
export function namesIn({ processor, formerProcessors = [] }: OfProcessor): readonly string[] {
  return [processor, ...formerProcessors];
}

export interface ClaimAttempt extends Money, OfProcessor {
  readonly key: string;
  readonly owner: string;
  readonly transactionId: string;
  readonly fingerprint: string;
  /** The client whose key it is. If it is undefined, every client sees the key. */
  readonly client?: string | undefined;
  readonly leaseMs: number;
  /**
   * From `begin`, by our monotonic clock: a claim that the store executes after this moment is refused. The adapter
   * translates it into the store's clock, which decides; so a process that was paused cannot pay with a dead key.
   */
  readonly claimBy: number;
  /** The outcome with which a new row is settled in the same commit; not used if a row exists or may have been lost. */
  readonly settleAs?: NewOutcome | undefined;
  /**
   * Kept in a new row. Its source is erased in the commit that makes the row final, and is not kept if the claim itself settles; an
   * existing row keeps its own content.
   */
  readonly content?: Content | undefined;
  /** The reference that the key is computed from, and when its turn is. Undefined if the key was generated. */
  readonly turn?: Turn | undefined;
  /**
   * After rows were lost, the claim of a new row with a turn waits for this time: a charge that was under way for a lost row must have
   * arrived before the processor is asked. It may be a charge of the same attempt if the processor does not deduplicate, and of the next
   * one in any case.
   */
  readonly waitAfterLossMs: number;
  /**
   * A loss of less time than this needs no wait: nobody can have declined an attempt whose row is lost, so there is no next one. If omitted,
   * each loss does.
   */
  readonly shortLossMs?: number | undefined;
  /** Rows were lost, and the processor has a record of this attempt at a reference. Its turn, and the wait, are not asked for then. */
  readonly knownAtProcessor?: KnownAttempt | undefined;
}

/** An attempt that has no row and a record at the processor proves that each attempt before it was declined. */
export interface KnownAttempt {
  /**
   * The attempts before it. The commit that inserts this one inserts each of them that has no row, as DECLINED: a row of an attempt implies
   * the rows before it. Nothing is inserted if one of them has another state.
   */
  readonly before: readonly { readonly key: string; readonly attempt: number; readonly transactionId: string }[];
  /** The reason and the resolution of the inserted attempts. */
  readonly reason: string;
  readonly resolution: string;
  readonly idempotencyTtlMs: number;
}

export interface SettlementAfterLoss {
  readonly outcome: Outcome;
  readonly idempotencyTtlMs: number;
  readonly note: ExecutionNote;
  /** How the outcome is known, if the processor did not say it of this payment. The settlement then has an epoch of its own. */
  readonly resolution?: string | undefined;
}

/** The place of a payment among the attempts at its reference (rule P18). */
export interface Turn {
  readonly reference: Reference;
  /** The key of the attempt before, which must be DECLINED. Undefined for the first attempt. */
  readonly previousKey: string | undefined;
  /**
   * No attempt follows a decline that is older, because its row may be removed soon. The age counts the time that retention has seen pass,
   * in milliseconds. Undefined if rows are kept for ever.
   */
  readonly lateMs: number | undefined;
}

export interface Cancellation
  extends OfProcessor,
    Pick<ClaimAttempt, 'key' | 'owner' | 'transactionId' | 'client' | 'claimBy' | 'turn'> {
  readonly idempotencyTtlMs: number;
  /** The processor was asked, and has no record of the key: also if an earlier row may have been lost. */
  readonly isLookedUp: boolean;
  /**
   * The same wait, for every key and processor. A charge that was under way for a lost row may arrive after the processor was asked, and a
   * cancellation has no charge of its own that the processor could recognize it by.
   */
  readonly waitAfterLossMs: number;
}

/** Why a row of a reference is not inserted, or of any key. */
export type TurnRefusal =
  | {
      readonly state: 'not its turn';
      /** The state of the attempt before. */
      readonly previous: 'absent' | 'under way' | 'pending' | 'completed' | 'cancelled' | 'declined too long ago';
    }
  /** Rows were lost a moment ago: see `waitAfterLossMs`. */
  | { readonly state: 'too soon'; readonly remainingMs: number }
  | OtherBeforeLoss;

/**
 * The row of the key may be lost, and no payment of the day before the loss was made at this processor. The lost one may have been charged
 * at another one, which this processor cannot know.
 */
export interface OtherBeforeLoss {
  readonly state: 'other processor before loss';
}

export type CancelResult =
  | { readonly state: 'cancelled' }
  | Final
  /** The lease may be dead: `remainingMs` is 0 then. */
  | UnderWay
  | Pending
  | { readonly state: 'too late' }
  | { readonly state: 'expired' }
  /** An earlier row of the key may have been lost, and the processor was not asked. */
  | { readonly state: 'may be lost' }
  | TurnRefusal;

export interface NewOutcome {
  readonly outcome: Outcome;
  readonly idempotencyTtlMs: number;
}

export type ClaimResult =
  | { readonly state: 'claimed'; readonly claim: Claim }
  /** `settleAs` is the payment's outcome: this claim wrote it. */
  | { readonly state: 'settled'; readonly final: FinalOutcome }
  /**
   * The row was there with a dead lease: now it is ours, with a higher epoch. Or it is new, and an earlier row of its key may
   * have been lost with a failover or a restore. Either way an earlier attempt may have charged.
   */
  | { readonly state: 'taken over'; readonly claim: Claim }
  | Final
  | UnderWay
  | Pending
  /** The store executed it after `claimBy`. The key itself may still be valid. */
  | { readonly state: 'too late' }
  /** The row is final and past its expiry, or the key is so old that its row may have been removed. */
  | { readonly state: 'expired' }
  /** It was closed, and is never charged. */
  | { readonly state: 'cancelled' }
  | TurnRefusal;

export type FindResult =
  | Final
  | UnderWay
  | Pending
  /** PROCESSING, and no attempt is at work on it. */
  | { readonly state: 'abandoned' }
  /** Final, and past its expiry; never a payment of a reference. */
  | { readonly state: 'expired' }
  | { readonly state: 'cancelled' }
  /** No row. */
  | { readonly state: 'absent' };

export interface Resolution {
  readonly key: string;
  /** The owner of the resolution itself: it names who wrote the outcome, as an attempt's does. */
  readonly owner: string;
  readonly state: Outcome['state'];
  /** Why: kept in the row; for a decline it is also the reason of the decline. */
  readonly reason: string;
  readonly dedupMs: number;
  readonly idempotencyTtlMs: number;
}

export type ResolveResult =
  | { readonly state: 'resolved'; readonly final: FinalOutcome }
  /** It was final before. */
  | { readonly state: 'settled before' }
  /** An attempt is at work on it. */
  | { readonly state: 'under way'; readonly remainingMs: number }
  /** During this time the service may still find out the outcome itself. */
  | { readonly state: 'too early'; readonly remainingMs: number }
  | { readonly state: 'absent' };

export type SettleResult =
  | { readonly state: 'settled'; readonly final: FinalOutcome }
  /** Another attempt finished it. */
  | Final
  /** Its row was lost, and it was cancelled since: nobody will look for its charge any more. */
  | { readonly state: 'cancelled' }
  /** Another attempt took it over and is at work, or its row was lost. */
  | { readonly state: 'fenced off' };

interface Final {
  readonly state: 'final';
  readonly final: FinalOutcome;
}

/** A pending payment, with or without an execution at work on it. */
interface Pending {
  readonly state: 'pending';
  readonly payment: PendingPayment;
}

interface UnderWay {
  readonly state: 'under way';
  readonly fingerprint: string;
  readonly remainingMs: number;
}

/** An end of the order of payments that are due for recovery. */
export type DueFirst = 'longest due' | 'latest due';

export interface DueTakeover extends Omit<Takeover, 'formerProcessors'> {
  readonly first: DueFirst;
  readonly limit: number;
}

export interface Takeover extends OfProcessor {
  readonly owner: string;
  readonly leaseMs: number;
}
