import type { RefusedTurn } from './answers.js';
import type { KnownAttempt } from './ports/ledger.js';
import type { Processor } from './ports/processor.js';
import type { Outcome } from './values/payment.js';
import { type ComputeKey, LAST_ATTEMPT, type Reference } from './values/reference.js';

/** The processor has a record of the attempt after this one. */
export interface Superseded {
  readonly state: 'superseded';
  readonly by: number;
}

export type NextAttempt =
  | Superseded
  | { readonly state: 'no record' }
  | { readonly state: 'unknown'; readonly cause: string };

export const NO_NEXT = { state: 'no record' } as const;

/**
 * Asks the processor about the next attempt at a reference, whose row may be lost although it was charged. An attempt only follows a
 * decline, so its record proves that this one was declined, also if an operator decided that, of which the processor knows nothing.
 * One case is not covered: the next attempt left no record either, and the one after it was charged.
 */
export type LookUpNext = (reference: Reference | undefined) => Promise<NextAttempt>;

export function createLookUpNext(processor: Pick<Processor, 'lookUp'>, computeKey: ComputeKey): LookUpNext {
  return async (reference) => {
    if (!reference || reference.attempt >= LAST_ATTEMPT) return NO_NEXT;
    const by = reference.attempt + 1;
    const found = await processor.lookUp(computeKey({ ...reference, attempt: by }));
    if (found.state === 'no record') return NO_NEXT;
    if (found.state !== 'unknown') return { state: 'superseded', by };
    return { state: 'unknown', cause: `attempt ${by} may have been made: ${found.cause}` };
  };
}

/** The decline of an attempt that is only known by the attempt after it. */
export const supersededBy = (attempt: number): Extract<Outcome, { state: 'DECLINED' }> => ({
  state: 'DECLINED',
  reason: `attempt ${attempt} was made after it`,
});

/** How such a decline is known: the row has it as its resolution, so that the decline does not count as the processor's own. */
export const knownBy = (attempt: number): string =>
  `Rows were lost, and the processor has a record of attempt ${attempt}, which is only made after a decline.`;

/** An attempt at a reference that the processor has a record of, with the attempts before it, whose rows are lost as well. */
export function knownAttemptOf(
  { attempt, ...order }: Reference,
  { computeKey, newTransactionId }: { computeKey: ComputeKey; newTransactionId: () => string },
  idempotencyTtlMs: number,
): KnownAttempt {
  const before = Array.from({ length: attempt - 1 }, (_, index) => ({
    key: computeKey({ ...order, attempt: index + 1 }),
    attempt: index + 1,
    transactionId: newTransactionId(),
  }));
  return { before, reason: supersededBy(attempt).reason, resolution: knownBy(attempt), idempotencyTtlMs };
}

/** True if the row of the attempt itself may explain the refusal, if rows were lost: then its own key is looked up. */
export function mayHideOwnRow({ previous }: Pick<RefusedTurn, 'previous'>): boolean {
  return previous === 'absent' || previous === 'declined too long ago';
}
