import type { OfProcessor, OtherBeforeLoss, Turn, TurnRefusal } from '../../../payments/ports/ledger.js';
import { refusalAfter } from '../../../payments/turn.js';
import { isComputed } from '../../../payments/values/reference.js';
import type { Database } from '../file/sqlite.js';
import * as statements from './ledger-statements.js';
import type { PaymentRow } from './payment-row.js';

export interface Losses {
  readonly look_up_before: string;
  readonly look_up_references_until: number;
  readonly adopted_at: number;
  readonly lost_ms: number | null;
  readonly processors_before_loss: string | null;
}

/** Whether an earlier row of the key may have been lost. `seenMs`: the time that was seen, which no wall clock moves. */
export function mayBeLost(key: string, losses: Losses, seenMs: () => number): boolean {
  if (!isComputed(key)) return key < losses.look_up_before;
  const { look_up_references_until: until } = losses;
  return until > 0 && seenMs() < until;
}

/** What a claim or a cancellation asks besides its own row: lost rows, and the attempt before. Runs in the writer thread. */
export function createTurns(database: Database) {
  const find = database.prepare(statements.FIND);
  const seenMs = database.prepare(statements.SEEN_MS);
  const hourAge = database.prepare(statements.HOUR_AGE);
  const readLosses = database.prepare(statements.LOSSES);
  const acceptLostRows = database.prepare(statements.ACCEPT_LOST_ROWS);
  let losses = readLosses.get() as unknown as Losses;

  function isLate({ settled_hour }: PaymentRow, lateMs: number | undefined): boolean {
    if (lateMs === undefined) return false;
    // An hour that was forgotten is too long ago.
    const age = hourAge.get(settled_hour) as { ms: number } | undefined;
    return age === undefined || age.ms >= lateMs;
  }

  /** Why it is not the turn of this attempt; undefined where it is. */
  function afterPrevious({ previousKey, lateMs }: Turn): TurnRefusal | undefined {
    if (previousKey === undefined) return undefined;
    const row = find.get(previousKey) as PaymentRow | undefined;
    return refusalAfter(row?.state, row !== undefined && !isLate(row, lateMs));
  }

  return {
    mayBeLost: (key: string) => mayBeLost(key, losses, () => (seenMs.get() as { ms: number }).ms),

    /** How long a new row still waits after rows were lost. */
    tooSoon(waitAfterLossMs: number, now: number, shortLossMs = 0): TurnRefusal | undefined {
      if (losses.lost_ms !== null && losses.lost_ms < shortLossMs) return undefined;
      const remainingMs = losses.adopted_at + waitAfterLossMs - now;
      return waitAfterLossMs > 0 && remainingMs > 0 ? { state: 'too soon', remainingMs } : undefined;
    },

    /** If the row of a key may be lost, only a processor of the day before the loss can tell. */
    otherBeforeLoss({ processor, formerProcessors = [] }: OfProcessor): OtherBeforeLoss | undefined {
      if (losses.processors_before_loss === null) return undefined;
      const before = JSON.parse(losses.processors_before_loss) as string[];
      const isKnown = [processor, ...formerProcessors].some((name) => before.includes(name));
      return isKnown ? undefined : { state: 'other processor before loss' };
    },

    acceptLostRows(): void {
      acceptLostRows.run();
      losses = readLosses.get() as unknown as Losses;
    },

    afterPrevious,
  };
}
