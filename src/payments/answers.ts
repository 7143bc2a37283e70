import type { FindResult, Ledger } from './ports/ledger.js';
import { RecentDurations } from './recent-durations.js';
import type { FinalOutcome } from './values/payment.js';

/** The time between our answer and the client's next request: a wait that ends this early is not rounded up. */
const CLIENT_LATENCY_MS = 250;

export type PayAnswer = (
  | { readonly state: 'processed'; readonly final: FinalOutcome }
  | { readonly state: 'replayed'; readonly final: FinalOutcome }
  | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
  /** The limit of payments in flight is reached: nothing was done with this one. */
  | { readonly state: 'busy'; readonly retryAfterSeconds: number }
  | { readonly state: 'invalid key' }
  | { readonly state: 'invalid content'; readonly problem: string }
  | { readonly state: 'mismatch' }
  | { readonly state: 'unknown' }
  /** Nothing was sent to the processor; the payment is claimed, and will be sent. */
  | { readonly state: 'not sent' }
) & {
  /** The request waited for another attempt. */
  readonly waited?: true;
};

/** An attempt that is under way, as its lock or its row describes it. */
export interface RunningAttempt {
  readonly fingerprint: string;
  readonly heldMs: number;
  readonly remainingMs: number;
}

/** No attempt is at work at this moment; the next request may begin one. */
export const SOON: PayAnswer = { state: 'in progress', retryAfterSeconds: 1 };

/** The answers to a request whose payment is, or was, another attempt's, with the time of its next try. */
export interface Answers {
  /** A repeat of a payment that is final (decisions P6). */
  replay(final: FinalOutcome, fingerprint: string | undefined): PayAnswer;
  /** Only after the row was read: `running` comes from it, or from a lock whose attempt has no row yet. */
  inProgress(running: RunningAttempt, fingerprint: string | undefined): PayAnswer;
  conflict(key: string, fingerprint: string | undefined, lock?: RunningAttempt): Promise<PayAnswer>;
  /** The same for a row that was just read. */
  conflictWith(found: FindResult, fingerprint: string | undefined, lock?: RunningAttempt): PayAnswer;
  /** A first payment beyond the limit of payments in flight (decisions P16). */
  busy(): PayAnswer;
  /** Whether the stored payment is another than the requested one, where mismatches are rejected. */
  differs(stored: string, requested: string | undefined): boolean;
  /** Notes how long a payment took. */
  took(ms: number): void;
}

export function createAnswers(collaborators: {
  ledger: Pick<Ledger, 'find'>;
  leaseMs: number;
  payloadMismatch: 'replay' | 'reject';
  /** How long a payment takes, before any was measured. */
  typicalMs: number;
}): Answers {
  const { ledger, leaseMs, payloadMismatch, typicalMs } = collaborators;
  const durations = new RecentDurations(typicalMs);

  /**
   * Rule 2 of spec 4.1. A lock may be left although its payment is final (its end was lost, or refused by a full store). So
   * the row is read before each 409, after `begin` or `look` was answered (decisions P17).
   */
  async function conflict(key: string, fingerprint: string | undefined, lock?: RunningAttempt): Promise<PayAnswer> {
    return conflictWith(await ledger.find(key), fingerprint, lock);
  }

  function conflictWith(found: FindResult, fingerprint: string | undefined, lock?: RunningAttempt): PayAnswer {
    switch (found.state) {
      case 'final':
        return replay(found.final, fingerprint);
      case 'expired':
        return { state: 'invalid key' };
      case 'under way':
        return inProgress({ ...found, heldMs: lock?.heldMs ?? leaseMs - found.remainingMs }, fingerprint);
      case 'absent':
        // The lock's attempt has not claimed yet.
        return lock ? inProgress(lock, fingerprint) : SOON;
      case 'abandoned':
        return SOON;
    }
  }

  function replay(final: FinalOutcome, fingerprint: string | undefined): PayAnswer {
    return differs(final.fingerprint, fingerprint) ? { state: 'mismatch' } : { state: 'replayed', final };
  }

  function inProgress(running: RunningAttempt, fingerprint: string | undefined): PayAnswer {
    if (differs(running.fingerprint, fingerprint)) return { state: 'mismatch' };
    return { state: 'in progress', retryAfterSeconds: retryAfterSeconds(running) };
  }

  /** Until the attempt probably ends: at least 1, at most what remains of its lease (decisions P5). */
  function retryAfterSeconds(running: { heldMs: number; remainingMs: number }): number {
    const expectedMs = durations.medianMs() - running.heldMs;
    const expectedSeconds = Math.ceil((expectedMs - CLIENT_LATENCY_MS) / 1000);
    return Math.max(1, Math.min(expectedSeconds, Math.floor(running.remainingMs / 1000)));
  }

  /** A request without payable content (`undefined`) matches no payment (decisions P6). */
  function differs(stored: string, requested: string | undefined): boolean {
    return payloadMismatch === 'reject' && stored !== requested;
  }

  /** After the median duration, when the payments that are under way now have probably ended. */
  function busy(): PayAnswer {
    return { state: 'busy', retryAfterSeconds: Math.max(1, Math.ceil(durations.medianMs() / 1000)) };
  }

  return { replay, inProgress, conflict, conflictWith, busy, differs, took: (ms) => durations.add(ms) };
}
