import type { Clock } from '../clock.js';
import type { IdempayError } from '../errors.js';
import type { Call } from './call.js';

/** The first pause is at most this long, and each one after it at most twice as long as the one before. */
const FIRST_BACKOFF_MS = 200;
/** Longer pauses would only waste the deadline: a service that is down is back at any moment. */
const LONGEST_BACKOFF_MS = 5_000;

export interface Done<T> {
  readonly state: 'done';
  readonly value: T;
}

/** The attempt may be made again, after `retryAfterMs` at the earliest. */
export interface Again {
  readonly state: 'again';
  readonly retryAfterMs: number;
  /** Another attempt would end in the same way, so that none is made. */
  readonly isFutile: boolean;
  /** The error for the caller when there is no time for another attempt. */
  readonly error: IdempayError;
}

export interface GivenUp {
  readonly state: 'given up';
  readonly attempts: number;
  /** The error of the last attempt, if there was one. */
  readonly last: IdempayError | undefined;
  /** The last attempt was given up because another one would end in the same way, and not for want of time. */
  readonly isFutile: boolean;
}

export interface Repeater {
  readonly clock: Clock;
  /** From 0 to 1, without 1. */
  readonly random: () => number;
}

/**
 * Repeats the attempt until it is done. The pause before each repetition is random (full jitter), up to a limit that doubles, after the time that the
 * service asked for. It gives up when the call has ended, or would end before the next attempt may begin, or
 * when another attempt would end as the last one did.
 */
export async function repeat<T>(
  { clock, random }: Repeater,
  call: Call,
  attempt: (number: number) => Promise<Done<T> | Again>,
): Promise<Done<T> | GivenUp> {
  let last: IdempayError | undefined;
  for (let number = 1; ; number += 1) {
    if (call.signal.aborted) return { state: 'given up', attempts: number - 1, last, isFutile: false };
    const result = await attempt(number);
    if (result.state === 'done') return result;
    last = result.error;
    const longestMs = Math.min(FIRST_BACKOFF_MS * 2 ** (number - 1), LONGEST_BACKOFF_MS);
    const pauseMs = result.retryAfterMs + random() * longestMs;
    const { isFutile } = result;
    if (isFutile || pauseMs >= call.remainingMs()) return { state: 'given up', attempts: number, last, isFutile };
    await clock.sleep(pauseMs, call.signal);
  }
}

/** Why a call has no answer, for its error. */
export function whyGivenUp(call: Call, { isFutile }: Pick<GivenUp, 'isFutile'>): string {
  if (isFutile) return 'there was no answer, and no further attempt would have one';
  return `${call.wasAborted() ? 'the caller aborted' : 'the deadline ended'} before an answer`;
}
