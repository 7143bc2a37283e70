import {
  type BegunEnding,
  type Cancellation,
  type CancelResult,
  type ClaimAttempt,
  type ClaimResult,
  type DueTakeover,
  type KnownAttempt,
  namesIn,
  type OfProcessor,
  type OtherBeforeLoss,
  type Takeover,
  type Turn,
  type TurnRefusal,
} from '../../../payments/ports/ledger.js';
import { refusalAfter } from '../../../payments/turn.js';
import { isComputed } from '../../../payments/values/computed-key.js';
import { keyTimeOf } from '../../../payments/values/idempotency-key.js';
import { UNKNOWN_FINGERPRINT } from '../../../payments/values/money.js';
import type { Claim, FinalOutcome, PendingPayment } from '../../../payments/values/payment.js';
import { contentColumnsOf, isPending, pendingOf, unsentMarkBefore } from '../../shared/payment-rows.js';
import type { Database } from '../file/sqlite.js';
import type { RecordOutcome } from '../key-records.js';
import * as statements from './ledger-statements.js';
import { claimOf, endOf, endStateOf, type PaymentRow } from './payment-row.js';
import type { PaymentSources } from './payment-sources.js';

interface Timed {
  /** `claimBy` by the store's clock. */
  readonly claimBefore: number;
  /** The wall clock, milliseconds since the epoch. */
  readonly wallMs: number;
}

export interface ClaimWrite extends Omit<ClaimAttempt, 'claimBy'>, Timed {}

export interface CancelWrite extends Omit<Cancellation, 'claimBy'>, Timed {}

export type KeyTakeover = Takeover & { readonly key: string; readonly isPending?: boolean | undefined };

/** 'claimed'; the time until which the outcome is repeated, if this claim settled it; or the state of an existing row. */
export type ClaimWriteResult = 'claimed' | number | Exclude<ClaimResult, { state: 'claimed' | 'settled' }>;

/** Parts that the ledger's writes need of the other writes of the thread. */
export interface LedgerWriteParts {
  readonly sources: PaymentSources;
  /** Puts a final outcome into the record of its key, in the same commit. */
  readonly recordOutcome: RecordOutcome;
  /** Removes the record of a key, in the same commit. */
  readonly forgetRecord: (key: string) => void;
  /** Such a key is never inserted. */
  readonly mayBeRemoved: (key: string) => boolean;
  /** Retention's, which a settled row stores. */
  readonly currentHour: () => number;
  readonly storeClock: () => number;
  /** Makes the commit write the store's time. */
  readonly passTime: () => void;
}

/** The settlement columns of a payment that is not settled yet. */
const NO_END = ['PROCESSING', null, null, null, null] as const;

/**
 * Claims, cancellations and takeovers. They run in the writer thread, in the transaction of their batch. The first claim of a key below
 * `look_up_before` counts as a takeover, because its row may be lost.
 */
export function createClaims(
  database: Database,
  { sources, recordOutcome, forgetRecord, mayBeRemoved, currentHour, storeClock, passTime }: LedgerWriteParts,
) {
  const insertClaim = database.prepare(statements.INSERT_CLAIM);
  const setClaimedAfterLoss = database.prepare(statements.SET_CLAIMED_AFTER_LOSS);
  const setResolution = database.prepare(statements.SET_RESOLUTION);
  const find = database.prepare(statements.FIND);
  const takeOver = database.prepare(statements.TAKE_OVER);
  const beginEnding = database.prepare(statements.BEGIN_ENDING);
  const duePending = database.prepare(statements.DUE_PENDING);
  const movePending = database.prepare(statements.MOVE_PENDING);
  const takeOverDue = {
    'longest due': database.prepare(statements.TAKE_OVER_DUE['longest due']),
    'latest due': database.prepare(statements.TAKE_OVER_DUE['latest due']),
  };
  const priorRows = createPriorRows(database);
  const claimIn = (row: PaymentRow, now: number) => claimOf(row, sources.find(row.key), now);

  /** Undefined if the row exists, the claim came too late, or retention may have removed the row. */
  function insert(attempt: ClaimWrite, now: number): ClaimWriteResult | undefined {
    const { key, turn, knownAtProcessor } = attempt;
    if (!(now <= attempt.claimBefore && !mayBeRemoved(key))) return undefined;
    const mayBeLost = priorRows.mayBeLost(key);
    const isAsked = mayBeLost || turn?.previousKey !== undefined;
    const refusal = isAsked && !find.get(key) ? refusalOf(attempt, mayBeLost, now) : undefined;
    if (refusal) return refusal;
    if (knownAtProcessor) return insertKnown(attempt, knownAtProcessor, now);
    return insertRow(attempt, now, mayBeLost);
  }

  /** With the rows before it that are missing. Undefined if there is a row, or one before it says that this attempt was not made. */
  function insertKnown(attempt: ClaimWrite, known: KnownAttempt, now: number): ClaimWriteResult | undefined {
    const rows = known.before.map(({ key }) => find.get(key) as PaymentRow | undefined);
    if (rows.some((row) => row && row.state !== 'DECLINED')) return priorRows.afterPrevious(attempt.turn as Turn);
    for (const [index, { key, transactionId, attempt: number }] of known.before.entries()) {
      if (rows[index]) continue;
      const { client, turn, amount, currency, processor, wallMs } = attempt;
      // The amount of the row that is missing is not known: the column has the one of the claim.
      const fingerprint = UNKNOWN_FINGERPRINT;
      const payment = [key, transactionId, amount, currency, fingerprint, client ?? null, processor];
      const final = { outcome: { state: 'DECLINED', reason: known.reason }, fingerprint, client } as const;
      const end = endOf({ ...final, expiresAt: now + known.idempotencyTtlMs }, now, currentHour());
      const place = placeOf(turn && { ...turn, reference: { ...turn.reference, attempt: number } });
      insertClaim.run(...payment, '', 0, now, now, Math.floor(wallMs), ...end, ...place, null);
      setResolution.run(known.resolution, key);
    }
    return insertRow(attempt, now, true);
  }

  /** After a loss only an attempt at a reference waits, and only its turn is judged; an attempt that the processor knows does neither. */
  function refusalOf(attempt: ClaimWrite, mayBeLost: boolean, now: number): TurnRefusal | undefined {
    const { turn, waitAfterLossMs, shortLossMs, knownAtProcessor } = attempt;
    const other = mayBeLost ? priorRows.otherBeforeLoss(attempt) : undefined;
    if (other || !turn || knownAtProcessor) return other;
    return priorRows.tooSoon(mayBeLost ? waitAfterLossMs : 0, now, shortLossMs) ?? priorRows.afterPrevious(turn);
  }

  function insertRow(attempt: ClaimWrite, now: number, mayBeLost: boolean): ClaimWriteResult | undefined {
    const { key, turn } = attempt;
    // The attempt of a lost row may have charged, so the processor is asked first.
    const final = mayBeLost ? undefined : finalAt(now, attempt);
    const end = final ? endOf(final, now, currentHour()) : NO_END;
    const { source, content } = contentColumnsOf(attempt.content);
    const more = [...placeOf(turn), content];
    const { changes } = insertClaim.run(...startOf(attempt, now, mayBeLost), ...end, ...more);
    if (changes === 0) return undefined;
    if (source !== null && !final) sources.keep(key, source);
    if (final) {
      recordOutcome(key, final);
      return final.expiresAt;
    }
    if (!mayBeLost) return 'claimed';
    setClaimedAfterLoss.run(key);
    return lostClaim(key, now);
  }

  function lostClaim(key: string, now: number): ClaimWriteResult {
    const claim = claimIn(find.get(key) as PaymentRow, now);
    return { state: 'taken over', claim: isComputed(key) ? { ...claim, mayBeLost: true } : claim };
  }

  /** Takes an existing row over, or says why not. */
  function takeOverOrExplain(attempt: ClaimWrite, now: number): ClaimWriteResult {
    const row = find.get(attempt.key) as PaymentRow | undefined;
    if (!row) return { state: mayBeRemoved(attempt.key) ? 'expired' : 'too late' };
    const taken = row.state === 'PROCESSING' ? takeOverRow(attempt, now, false) : undefined;
    return taken ? { state: 'taken over', claim: taken } : stateOf(row, now);
  }

  function stateOf(row: PaymentRow, now: number) {
    if (row.state === 'PROCESSING') {
      const remainingMs = Math.max(0, row.lease_until - now);
      if (isPending(row)) return { state: 'pending', payment: pendingOf(row, remainingMs) } as const;
      return { state: 'under way', fingerprint: row.fingerprint, remainingMs } as const;
    }
    const ended = endStateOf(row, now);
    if (ended.state === 'expired') passTime();
    return ended;
  }

  function insertClosed(cancellation: CancelWrite, now: number): CancelResult {
    const { key, turn, claimBefore, isLookedUp, waitAfterLossMs } = cancellation;
    if (mayBeRemoved(key)) return { state: 'expired' };
    if (now > claimBefore) return { state: 'too late' };
    const mayBeLost = priorRows.mayBeLost(key);
    const ofLoss = mayBeLost && (priorRows.otherBeforeLoss(cancellation) ?? priorRows.tooSoon(waitAfterLossMs, now));
    const refusal = ofLoss || (turn && priorRows.afterPrevious(turn));
    if (refusal) return refusal;
    if (mayBeLost && !isLookedUp) return { state: 'may be lost' };
    insertClaim.run(...closedRow(cancellation, now, currentHour()), ...placeOf(turn), null);
    forgetRecord(key);
    return { state: 'cancelled' };
  }

  function takeOverRow(takeover: KeyTakeover, now: number, alsoPending: boolean): Claim | undefined {
    const { key, owner, leaseMs } = takeover;
    const leaseUntil = now + leaseMs;
    const names = JSON.stringify(namesIn(takeover));
    const values = [owner, leaseUntil, leaseUntil, `${now}`, key, Number(alsoPending), now, names];
    const row = takeOver.get(...values) as PaymentRow | undefined;
    return row && takenOver(row, now);
  }

  /** A mark since a loss counts only while the processor still has to know the charge of the lost row. */
  function takenOver(row: PaymentRow, now: number): Claim {
    const claim = claimIn(row, now);
    const mayBeLost = unsentMarkBefore(row) === 'unsent since a loss' && priorRows.mayBeLost(row.key);
    return mayBeLost ? { ...claim, mayBeLost } : claim;
  }

  return {
    claim(attempt: ClaimWrite): ClaimWriteResult {
      const now = storeClock();
      return insert(attempt, now) ?? takeOverOrExplain(attempt, now);
    },

    cancel(cancellation: CancelWrite): CancelResult {
      const now = storeClock();
      const row = find.get(cancellation.key) as PaymentRow | undefined;
      return row ? stateOf(row, now) : insertClosed(cancellation, now);
    },

    acceptLostRows: (): void => priorRows.acceptLostRows(),

    takeOver: (takeover: KeyTakeover): Claim | null =>
      takeOverRow(takeover, storeClock(), takeover.isPending === true) ?? null,

    beginEnding(ending: BegunEnding): Claim | null {
      const now = storeClock();
      const { key, owner, leaseMs, scope, onlyUnsent } = ending;
      const leaseUntil = now + leaseMs;
      const begun = [owner, leaseUntil, leaseUntil, `${now}`, scope];
      const names = JSON.stringify(namesIn(ending));
      const row = beginEnding.get(...begun, key, now, names, Number(onlyUnsent)) as PaymentRow | undefined;
      return row ? takenOver(row, now) : null;
    },

    duePending({ processor, limit }: { processor: string; limit: number }): PendingPayment[] {
      const rows = duePending.all(storeClock(), processor, limit) as PaymentRow[];
      return rows.filter(isPending).map((row) => pendingOf(row, 0));
    },

    movePending({ key, untilMs }: { key: string; untilMs: number }): void {
      movePending.run(storeClock(), Math.floor(untilMs), key);
    },

    takeOverDue({ owner, leaseMs, processor, first, limit }: DueTakeover): Claim[] {
      const now = storeClock();
      const leaseUntil = now + leaseMs;
      const values = [owner, leaseUntil, leaseUntil, `${now}`, processor, now, now, limit];
      const rows = takeOverDue[first].all(...values) as PaymentRow[];
      return rows.map((row) => takenOver(row, now));
    },
  };
}

/** The columns of a first claim, as INSERT_CLAIM takes them before the columns of its end. */
function startOf(attempt: ClaimWrite, now: number, mayBeLost: boolean) {
  const { key, transactionId, amount, currency, fingerprint, client, processor, owner, leaseMs, wallMs } = attempt;
  const leaseUntil = now + leaseMs;
  // The lost claim may be as old as the key. A computed one has no time.
  const claimedAt = mayBeLost && !isComputed(key) ? Math.min(now, keyTimeOf(key)) : now;
  const claimedAtWall = mayBeLost ? Math.min(wallMs - (now - claimedAt), claimedAt) : wallMs;
  const payment = [key, transactionId, amount, currency, fingerprint, client ?? null, processor];
  return [...payment, owner, leaseUntil, leaseUntil, claimedAt, Math.floor(claimedAtWall)];
}

/** The columns of a payment that is closed before it was claimed, as INSERT_CLAIM takes them before its reference. */
function closedRow(
  { key, transactionId, client, owner, wallMs, idempotencyTtlMs }: CancelWrite,
  now: number,
  hour: number,
) {
  const payment = [key, transactionId, null, null, '', client ?? null, null];
  return [...payment, owner, 0, now, now, Math.floor(wallMs), 'CANCELLED', null, now + idempotencyTtlMs, now, hour];
}

/** The columns of its reference. */
function placeOf(turn: Turn | undefined): [string | null, number | null] {
  return [turn?.reference.text ?? null, turn?.reference.attempt ?? null];
}

/** The outcome that a claim is settled with in its own commit. */
function finalAt(now: number, { settleAs, fingerprint, client }: ClaimWrite): FinalOutcome | undefined {
  return settleAs && { outcome: settleAs.outcome, fingerprint, client, expiresAt: now + settleAs.idempotencyTtlMs };
}

export interface Losses {
  readonly look_up_before: string;
  readonly look_up_references_until: number;
  readonly adopted_at: number;
  readonly lost_ms: number | null;
  readonly processors_before_loss: string | null;
}

/** True if an earlier row of the key may have been lost. `seenMs`: the time that was seen, which no wall clock moves. */
export function mayBeLost(key: string, losses: Losses, seenMs: () => number): boolean {
  if (!isComputed(key)) return key < losses.look_up_before;
  const { look_up_references_until: until } = losses;
  return until > 0 && seenMs() < until;
}

/** Answers questions of a claim or a cancellation about other rows: lost ones, and the attempt before. */
export function createPriorRows(database: Database) {
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

  /** Why it is not the turn of this attempt; undefined if it is. */
  function afterPrevious({ previousKey, lateMs }: Turn): TurnRefusal | undefined {
    if (previousKey === undefined) return undefined;
    const row = find.get(previousKey) as PaymentRow | undefined;
    const previous = row && (isPending(row) ? 'PENDING' : row.state);
    return refusalAfter(previous, row !== undefined && !isLate(row, lateMs));
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
    otherBeforeLoss(own: OfProcessor): OtherBeforeLoss | undefined {
      if (losses.processors_before_loss === null) return undefined;
      const before = JSON.parse(losses.processors_before_loss) as string[];
      const isKnown = namesIn(own).some((name) => before.includes(name));
      return isKnown ? undefined : { state: 'other processor before loss' };
    },

    acceptLostRows(): void {
      acceptLostRows.run();
      losses = readLosses.get() as unknown as Losses;
    },

    afterPrevious,

    /** True if the row was settled so long ago that retention removes it soon. */
    isLate,
  };
}
