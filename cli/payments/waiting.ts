import { setTimeout as sleep } from 'node:timers/promises';
import type { CallOptions, PendingRefundResult, PendingResult } from '#idempay/client';
import type { Ending } from '../endings.js';

/** The time between two questions if the service names none. */
const USUAL_WAIT_SECONDS = 5;

type Pending = PendingResult | PendingRefundResult;

export function isPending<Last extends Pending>(result: Last | object): result is Last {
  return 'state' in result && result.state === 'pending';
}

/** The wait has ended, and the last answer was that the payment or refund is pending. `last` is that answer. */
export class StillPendingError<Last> extends Error {
  override readonly name = 'StillPendingError';
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  constructor(
    message: string,
    readonly last: Last,
    cause: Error & { readonly status?: number; readonly requestId?: string },
  ) {
    super(message, { cause });
    this.status = cause.status;
    this.requestId = cause.requestId;
  }
}

interface Wait extends Pick<CallOptions, 'signal'> {
  readonly what: 'payment' | 'refund';
  /** For a script that reads the error. */
  readonly named: Pick<Ending, 'reference' | 'attempt' | 'refundName' | 'refundKey'> & {
    readonly key?: string | undefined;
  };
}

/**
 * The outcome of what was pending. Each question has a deadline of its own, because a payer or a bank has all the time that the processor
 * gives. Rejects with StillPendingError if a later question fails without an outcome, or if the user ends the wait.
 */
export async function waitForOutcome<Last extends Pending, Outcome extends object>(
  first: Last,
  { what, named, signal }: Wait,
  ask: () => Promise<Last | Outcome>,
): Promise<Outcome> {
  let last = first;
  for (;;) {
    try {
      await sleep((last.retryAfterSeconds ?? USUAL_WAIT_SECONDS) * 1000, undefined, { signal });
      const result = await ask();
      if (!isPending<Last>(result)) return result;
      last = result;
    } catch (error) {
      const fault = error as Error;
      const isEndedByUser =
        signal?.aborted === true && (fault.name === 'AbortError' || WITHOUT_OUTCOME.has(fault.name));
      if (!isEndedByUser && !WITHOUT_OUTCOME.has(fault.name)) throw error;
      const why = isEndedByUser ? 'The command was interrupted.' : `The last question failed: ${fault.message}`;
      const message = `The ${what} was pending when the service last answered. ${why}`;
      throw Object.assign(new StillPendingError(message, last, fault), named);
    }
  }
}

/** The failed question did not tell the state. Whether or not it arrived, it only repeated what the service had accepted. */
const WITHOUT_OUTCOME = new Set(['UnavailableError', 'NotAuthorizedError', 'UnknownOutcomeError']);
