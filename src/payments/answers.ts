import type { PaymentRules } from './context.js';
import type { FindResult, Ledger, OtherBeforeLoss, TurnRefusal } from './ports/ledger.js';
import type { PaymentHistory, PaymentRecord } from './ports/payment-history.js';
import type { Action } from './ports/processor.js';
import { isComputed } from './values/computed-key.js';
import { UNKNOWN_FINGERPRINT } from './values/money.js';
import type { FinalOutcome, PendingPayment } from './values/payment.js';
import { type ComputeKey, type NamedPayment, referenceIn } from './values/reference.js';

/** The time between our answer and the client's next request: a wait that ends this early is not rounded up. */
const CLIENT_LATENCY_MS = 250;

export type PayAnswer =
  /** `attempt`: of a decline that another attempt may follow. */
  (
    | { readonly state: 'processed'; readonly final: FinalOutcome; readonly attempt?: number | undefined }
    | { readonly state: 'replayed'; readonly final: FinalOutcome; readonly attempt?: number | undefined }
    | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
    /** The limit of payments in flight is reached: nothing was done with this one. */
    | { readonly state: 'busy'; readonly retryAfterSeconds: number }
    | { readonly state: 'invalid key' }
    | { readonly state: 'invalid content'; readonly problem: string }
    | { readonly state: 'mismatch' | 'reference mismatch' }
    /** It was closed (rule P22). */
    | { readonly state: 'cancelled' }
    /** Its row was lost and it was closed since, and the processor charged it: the charge has to be refunded. */
    | { readonly state: 'charged after cancellation' }
    | RefusedTurn
    /** It was declined, and a later attempt at the reference was made. */
    | { readonly state: 'superseded'; readonly attempt: number; readonly newest: PaymentRecord }
    /** Rows were lost, and the processor has a record of the attempt after this one, which was declined before that. */
    | { readonly state: 'superseded at processor'; readonly attempt: number; readonly by: number }
    /** Rows were lost, and the processor may still receive charges of before: nothing was begun. */
    | { readonly state: 'too soon'; readonly retryAfterSeconds: number }
    | OtherBeforeLoss
    | PendingAnswer
    /** The payment is pending, and the processor did not say what the payer can do now. */
    | { readonly state: 'pending without answer' }
    | { readonly state: 'unknown' }
    /** Nothing was sent to the processor; the payment is claimed, and will be sent. */
    | { readonly state: 'not sent' }
  ) & {
    /** The request waited for another attempt. */
    readonly waited?: true;
  };

/** The outcome takes time (rule P24). */
export interface PendingAnswer {
  readonly state: 'pending';
  readonly payment: PendingPayment;
  /** The action is only for the payer, and is kept nowhere. */
  readonly action?: Action | undefined;
  readonly retryAfterSeconds: number;
}

/** The attempt before this one does not permit it, and nothing was begun. */
export interface RefusedTurn {
  readonly state: 'not its turn';
  readonly attempt: number;
  /** `may be lost`: there is no row of it, rows were lost, and the processor has no record of this attempt. */
  readonly previous: Extract<TurnRefusal, { state: 'not its turn' }>['previous'] | 'may be lost';
}

/** An attempt that is under way, as its lock or its row describes it. */
export interface RunningAttempt {
  readonly fingerprint: string;
  readonly heldMs: number;
  readonly remainingMs: number;
}

/** The fingerprint in the lock of a cancellation, which names no amount. */
export const CANCELLATION = '';

/** Another amount or currency than the one of the payment. */
export function mismatch(key: string): PayAnswer {
  return { state: isComputed(key) ? 'reference mismatch' : 'mismatch' };
}

/** No attempt is at work at this moment; the next request may begin one. */
export const SOON = { state: 'in progress', retryAfterSeconds: 1 } as const;

/** The answers to a request whose payment is, or was, another attempt's, with the time of its next try. */
export interface Answers {
  /** A repeat of a payment that is final (rule P6). */
  replay(named: NamedPayment, final: FinalOutcome, fingerprint: string | undefined): Promise<PayAnswer>;
  /** The answer by the row that was just read. */
  byRow(
    named: NamedPayment,
    found: Exclude<FindResult, { state: 'pending' }>,
    fingerprint: string | undefined,
    lock?: RunningAttempt,
  ): Promise<PayAnswer>;
  /** The time until an execution probably ends: at least 1, and at most the rest of its lease (rule P5). */
  retryAfterSeconds(running: Pick<RunningAttempt, 'heldMs' | 'remainingMs'>): number;
  /** A first payment beyond the limit of payments in flight (rule P16). */
  busy(): PayAnswer;
  /** True if the stored payment is another than the requested one and mismatches are rejected. */
  differs(key: string, stored: string, requested: string | undefined): boolean;
  /** Notes how long a payment took. */
  took(ms: number): void;
}

export function createAnswers(context: {
  ledger: Pick<Ledger, 'find'>;
  history: Pick<PaymentHistory, 'find' | 'newestAttempt'>;
  rules: Pick<PaymentRules, 'leaseMs' | 'payloadMismatch'>;
  computeKey: ComputeKey;
  /** How long a payment takes, before any was measured. */
  typicalMs: number;
}): Answers {
  const { ledger, history, computeKey, typicalMs } = context;
  const { leaseMs, payloadMismatch } = context.rules;
  const durations = new RecentDurations(typicalMs);

  async function byRow(
    named: NamedPayment,
    found: Exclude<FindResult, { state: 'pending' }>,
    fingerprint: string | undefined,
    lock?: RunningAttempt,
  ): Promise<PayAnswer> {
    const { key } = named;
    switch (found.state) {
      case 'final':
        return replay(named, found.final, fingerprint);
      case 'expired':
        return { state: 'invalid key' };
      case 'cancelled':
        return { state: 'cancelled' };
      case 'under way': {
        if (differs(key, found.fingerprint, fingerprint)) return mismatch(key);
        return inProgress({ ...found, heldMs: lock?.heldMs ?? leaseMs - found.remainingMs });
      }
      case 'absent':
        // The lock's attempt has not claimed yet.
        return lock ? byLock(key, lock, fingerprint) : SOON;
      case 'abandoned':
        return SOON;
    }
  }

  /** An order is not bound to an amount before a row says so. Nor does the lock of a cancellation name an amount. */
  function byLock(key: string, lock: RunningAttempt, fingerprint: string | undefined): PayAnswer {
    const isBound = !isComputed(key) && lock.fingerprint !== CANCELLATION;
    return isBound && differs(key, lock.fingerprint, fingerprint) ? mismatch(key) : inProgress(lock);
  }

  async function replay(named: NamedPayment, final: FinalOutcome, fingerprint: string | undefined): Promise<PayAnswer> {
    const { key } = named;
    if (differs(key, final.fingerprint, fingerprint)) return mismatch(key);
    if (final.outcome.state === 'DECLINED' && isComputed(key)) return declined(named, final);
    return { state: 'replayed', final };
  }

  /**
   * Only the newest attempt at a reference says whether it is paid. Attempts follow each other, so it is this one if the next has no row.
   * Repeats share that read; the others are read only if the request names the key alone, or a later attempt was made.
   */
  async function declined({ key, reference: requested }: NamedPayment, final: FinalOutcome): Promise<PayAnswer> {
    const reference = requested ?? referenceIn(await history.find(key));
    // Its row was removed a moment ago.
    if (!reference) return { state: 'replayed', final };
    const { text, attempt, client } = reference;
    const next = await ledger.find(computeKey({ ...reference, attempt: attempt + 1 }));
    if (next.state === 'absent') return { state: 'replayed', final, attempt };
    const newest = await history.newestAttempt(text, client);
    if (newest?.attempt === undefined || newest.attempt <= attempt) return { state: 'replayed', final, attempt };
    return { state: 'superseded', attempt, newest };
  }

  function inProgress(running: RunningAttempt): PayAnswer {
    return { state: 'in progress', retryAfterSeconds: retryAfterSeconds(running) };
  }

  function retryAfterSeconds({ heldMs, remainingMs }: Pick<RunningAttempt, 'heldMs' | 'remainingMs'>): number {
    const expectedMs = durations.medianMs() - heldMs;
    const expectedSeconds = Math.ceil((expectedMs - CLIENT_LATENCY_MS) / 1000);
    return Math.max(1, Math.min(expectedSeconds, Math.floor(remainingMs / 1000)));
  }

  /** A request without payable content (`undefined`) matches no payment (rule P6). Orders are always compared (P18). */
  function differs(key: string, stored: string, requested: string | undefined): boolean {
    if (stored === UNKNOWN_FINGERPRINT) return false;
    return (payloadMismatch === 'reject' || isComputed(key)) && stored !== requested;
  }

  /** After the median duration, when the payments that are under way now have probably ended. */
  function busy(): PayAnswer {
    return { state: 'busy', retryAfterSeconds: wholeSeconds(durations.medianMs()) };
  }

  return { replay, byRow, retryAfterSeconds, busy, differs, took: (ms) => durations.add(ms) };
}

/** For `Retry-After`, which is never 0. */
export function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}

/** Enough to make one slow payment not matter, few enough to follow a processor that turned slow within a minute. */
const WINDOW = 64;

/** Remembers how long the last payments took, for the Retry-After of a payment in progress. */
export class RecentDurations {
  private readonly durationsMs: number[] = [];
  private next = 0;

  /** `typicalMs` is believed until something was measured. */
  constructor(private readonly typicalMs: number) {}

  add(durationMs: number): void {
    this.durationsMs[this.next] = durationMs;
    this.next = (this.next + 1) % WINDOW;
  }

  medianMs(): number {
    if (this.durationsMs.length === 0) return this.typicalMs;
    const sorted = this.durationsMs.toSorted((a, b) => a - b);
    return sorted[sorted.length >> 1] ?? this.typicalMs;
  }
}
