import { isComputed } from '#idempay/payments/values/computed-key.js';
import { lowestKeyAt } from '#idempay/payments/values/idempotency-key.js';
import { CLOCKS_DIFFER_MS, LOOK_UP_REFERENCES_MS } from '#idempay/stores/shared/replaced-database.js';
import type { Tables } from './postgres-server.js';
import { currentHour } from './retention-statements.js';

/** The deployment's row about rows that may be lost. Times are milliseconds since the epoch, or as retention has seen them. */
export interface Loss {
  readonly generation: number;
  readonly lookUpBefore: string;
  readonly lookUpReferencesUntilMs: number;
  readonly adoptedAt: number | null;
  /** The processors of the last day before the loss; null if any may be asked. */
  readonly processorsBefore: readonly string[] | null;
  /** How much time was lost, at most; null if that is not known. */
  readonly lostMs: number | null;
}

export const NEVER_LOST: Loss = {
  generation: 1,
  lookUpBefore: '00000000-0000-0000-0000-000000000000',
  lookUpReferencesUntilMs: 0,
  adoptedAt: null,
  processorsBefore: null,
  lostMs: null,
};

/** As `adopt_database` has it. `kept`: the tables that were restored; `known`: what was known of losses before, in the lost database. */
export function adopted(kept: Tables, known: Loss, now: number): Loss {
  const lowest = lowestKeyAt(Math.floor(now) + CLOCKS_DIFFER_MS);
  return {
    generation: Math.max(kept.loss.generation, known.generation) + 1,
    lookUpBefore: [lowest, kept.loss.lookUpBefore].sort()[1] ?? lowest,
    lookUpReferencesUntilMs: currentHour(kept.retention).until_ms + LOOK_UP_REFERENCES_MS,
    adoptedAt: now,
    processorsBefore: kept.processors.length > 0 ? processorsBefore(kept) : null,
    lostMs: lostMs(kept, now),
  };
}

function lostMs({ payments }: Tables, now: number): number | null {
  const newest = [...payments.values()]
    .sort((one, other) => (one.transaction_id < other.transaction_id ? -1 : 1))
    .at(-1);
  return newest ? now - newest.claimed_at : null;
}

/** So little was lost that nothing waits. */
export const isShort = ({ loss }: Tables, shortLossMs: number) => loss.lostMs !== null && loss.lostMs < shortLossMs;

/** The processors of all rows: no history with losses is longer than a day. */
function processorsBefore({ payments, loss, retention }: Tables): readonly string[] {
  const stillCounts = loss.lookUpReferencesUntilMs > currentHour(retention).until_ms ? loss.processorsBefore : null;
  const names = [...payments.values()].flatMap(({ processor }) => processor ?? []);
  return [...new Set(names)].filter((name) => stillCounts?.includes(name) ?? true);
}

/** True if a processor, or an account that had one of the former names, can tell the outcome of a lost row. */
export function canKnowLostRows({ loss }: Tables, processor: string | null, formerNames: readonly string[]): boolean {
  const { processorsBefore: before } = loss;
  return before === null || [processor, ...formerNames].some((name) => name !== null && before.includes(name));
}

export const areReferencesLookedUp = ({ loss, retention }: Tables) =>
  loss.lookUpReferencesUntilMs > currentHour(retention).until_ms;

export const mayBeLost = (tables: Tables, key: string) =>
  key < tables.loss.lookUpBefore || (isComputed(key) && areReferencesLookedUp(tables));

/** Long enough since the last adoption, for a charge that was on its way. */
export const isAfterLoss = ({ loss }: Tables, waitMs: number, now: number) =>
  loss.adoptedAt !== null && now >= loss.adoptedAt + waitMs;
