import type {
  BegunEnding,
  Cancellation,
  CancelResult,
  ClaimAttempt,
  ClaimResult,
  KnownAttempt,
  Ledger,
  Takeover,
  Turn,
  TurnRefusal,
} from '../../../payments/ports/ledger.js';
import { namesIn } from '../../../payments/ports/ledger.js';
import { refusalAfter } from '../../../payments/turn.js';
import { isComputed } from '../../../payments/values/computed-key.js';
import type { Claim } from '../../../payments/values/payment.js';
import { isUnknown } from '../../../platform/faults.js';
import { contentColumnsOf, isPending, pendingOf, reasonOf } from '../../shared/payment-rows.js';
import type { QueueMeasure } from '../../shared/store-measures.js';
import { Batcher, LANES } from '../connection/batcher.js';
import type { DatabaseClock } from '../connection/database-clock.js';
import type { PostgresPart } from '../connection/part.js';
import type { Statement } from '../connection/postgres.js';
import {
  ACCEPT_LOST_ROWS,
  BEGIN_ENDING,
  CANCEL,
  CLAIM,
  CLAIM_IN_FULL,
  CLAIM_KNOWN,
  DUE_PENDING,
  EXPLAIN_TURN,
  MOVE_PENDING,
  TAKE_OVER,
  TAKE_OVER_DUE,
} from './ledger-statements.js';
import type { OrderAccess } from './order-access.js';
import { claimOf, endStateOf, type FindRow, type PaymentRow } from './payment-row.js';
import type { ProcessorNames } from './processor-names.js';

/** A row that this claim inserted. */
interface Inserted {
  /** An earlier row of its key may have been lost with a failover or a restore. */
  readonly mayBeLost: boolean;
  readonly ageMs: number;
  /** If the claim settled it, the moment until which its outcome is repeated. */
  readonly expiresAt: number | null;
}

interface InsertedRow {
  owner: string;
  may_be_lost: boolean;
  age_ms: number;
  expires_at: number | null;
}

const EXPIRED = { state: 'expired' } as const;
const TOO_LATE = { state: 'too late' } as const;
/** There is no row, and nothing stands in the way any more: it is inserted once more. */
const ITS_TURN = 'its turn';

/** Nothing refuses it: it came too late, unless the attempt before was declined while the insert ran. */
const freeTurn = (turn: Turn | undefined) => (turn?.previousKey === undefined ? TOO_LATE : ITS_TURN);

interface ExplainedTurn {
  readonly mayBeLost: boolean;
  /** This processor can tell what became of a lost row. */
  readonly canKnow: boolean;
  /** The state of the attempt before, `PENDING` if it waits at the processor, or null if it has no row. */
  readonly previous: PaymentRow['state'] | 'PENDING' | null;
  readonly inTime: boolean;
  readonly remainingMs: number;
}

/** Claims, cancellations and takeovers. */
export function createClaims(
  database: PostgresPart,
  clock: DatabaseClock,
  {
    findRow,
    mayBeRemoved,
    processorNames,
    orderAccess,
  }: {
    findRow: FindRow;
    mayBeRemoved: (key: string) => Promise<boolean>;
    processorNames: ProcessorNames;
    orderAccess: OrderAccess;
  },
  queue: QueueMeasure,
): Pick<
  Ledger,
  'claim' | 'cancel' | 'acceptLostRows' | 'takeOver' | 'beginEnding' | 'takeOverDue' | 'duePending' | 'movePending'
> {
  const claims = new Batcher<ClaimAttempt, Inserted | undefined>(insertAll, clock.clock, LANES, queue);

  /** For each attempt the row that it inserted, or undefined. Sorted by key, as all batches, so that two cannot deadlock. */
  async function insertAll(attempts: readonly ClaimAttempt[]): Promise<(Inserted | undefined)[]> {
    const sorted = attempts.toSorted((a, b) => (a.key < b.key ? -1 : 1));
    const values = [
      sorted.map((attempt) => attempt.key),
      sorted.map((attempt) => attempt.transactionId),
      sorted.map((attempt) => attempt.amount),
      sorted.map((attempt) => attempt.currency),
      sorted.map((attempt) => attempt.fingerprint),
      sorted.map((attempt) => attempt.client ?? null),
      sorted.map((attempt) => attempt.processor),
      sorted.map((attempt) => attempt.owner),
      sorted.map((attempt) => attempt.leaseMs),
      sorted.map((attempt) => clock.at(attempt.claimBy)),
      sorted.map(({ settleAs }) => settleAs?.outcome.state ?? null),
      sorted.map(({ settleAs }) => reasonOf(settleAs?.outcome)),
      sorted.map(({ settleAs }) => settleAs?.idempotencyTtlMs ?? null),
      [...new Set(sorted.flatMap(({ formerProcessors = [] }) => formerProcessors))],
    ];
    const rows = sorted.some(({ turn, content }) => turn ?? content)
      ? await database.write<InsertedRow>(CLAIM_IN_FULL, [
          ...values,
          ...turnsOf(sorted),
          ...contentsOf(sorted),
          shortLossesOf(sorted),
          orderAccess.adopter ?? null,
        ])
      : await database.write<InsertedRow>(CLAIM, values);
    const inserted = new Map(
      rows.map((row) => [row.owner, { mayBeLost: row.may_be_lost, ageMs: row.age_ms, expiresAt: row.expires_at }]),
    );
    return attempts.map((attempt) => {
      const row = inserted.get(attempt.owner);
      inserted.delete(attempt.owner);
      return row;
    });
  }

  /** Inserts an attempt whose row was lost, with the lost rows of the attempts before it. */
  async function insertKnown(attempt: ClaimAttempt, known: KnownAttempt): Promise<Inserted | undefined> {
    const { key, transactionId, amount, currency, fingerprint, client, processor, owner, leaseMs, claimBy } = attempt;
    const { reference } = attempt.turn ?? {};
    const { source, content } = contentColumnsOf(attempt.content);
    const all = [...known.before, { key, transactionId, attempt: reference?.attempt ?? null }];
    const claimed = [amount, currency, fingerprint, client ?? null, processor, owner, leaseMs, clock.at(claimBy)];
    const rows = await database.write<InsertedRow>(CLAIM_KNOWN, [
      all.map((each) => each.key),
      all.map((each) => each.transactionId),
      all.map((each) => each.attempt),
      ...[...claimed, reference?.text ?? null, source, content, known.reason, known.resolution, known.idempotencyTtlMs],
      attempt.formerProcessors ?? [],
      orderAccess.adopter ?? null,
    ]);
    const row = rows.find((each) => each.owner === owner);
    return row && { mayBeLost: true, ageMs: row.age_ms, expiresAt: null };
  }

  async function insertOnce(attempt: ClaimAttempt): Promise<Inserted | undefined> {
    const { knownAtProcessor } = attempt;
    return knownAtProcessor ? insertKnown(attempt, knownAtProcessor) : claims.add(attempt);
  }

  /** A claim whose reply was lost is read back by its owner; a second claim would conflict with the first. */
  async function insertOrReadBack(attempt: ClaimAttempt): Promise<Inserted | undefined> {
    try {
      return await insertOnce(attempt);
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(attempt.key, { ...attempt, epoch: 1 }).catch(() => undefined);
      if (row?.owner !== attempt.owner || row.epoch !== 1) throw fault;
      if (row.state !== 'PROCESSING') return { mayBeLost: false, ageMs: 0, expiresAt: row.expires_at };
      return { mayBeLost: row.claimed_after_loss === true, ageMs: row.age_ms, expiresAt: null };
    }
  }

  function takeOver(
    takeover: Takeover & { readonly key: string; readonly isPending?: boolean },
  ): Promise<Claim | undefined> {
    return takeOverBy(TAKE_OVER, takeover, [takeover.isPending === true]);
  }

  function beginEnding(ending: BegunEnding): Promise<Claim | undefined> {
    return takeOverBy(BEGIN_ENDING, ending, [ending.scope, ending.onlyUnsent]);
  }

  /** `more` has the further parameters of the statement. */
  async function takeOverBy(
    statement: Statement,
    takeover: Takeover & { readonly key: string },
    more: readonly unknown[],
  ): Promise<Claim | undefined> {
    const { key, owner, leaseMs } = takeover;
    const values = [key, owner, leaseMs, namesIn(takeover), ...more];
    try {
      const [row] = await database.write<PaymentRow>(statement, values);
      return row && claimOf(row);
    } catch (fault) {
      // As with a claim: the reply was lost, so the owner in the row tells whether the takeover was written.
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key, { key, epoch: 0, owner }).catch(() => undefined);
      if (row?.state !== 'PROCESSING' || row.owner !== owner) throw fault;
      return claimOf(row);
    }
  }

  /** The row was there before, it was not the turn of its attempt, its processor was not registered any more, or it came too late. */
  async function explain(attempt: ClaimAttempt): Promise<ClaimResult | typeof ITS_TURN> {
    const taken = await takeOverBy(TAKE_OVER, attempt, [false]);
    if (taken) return { state: 'taken over', claim: taken };
    const row = await findRow(attempt.key);
    if (row) return stateOf(row);
    const { key, turn, processor } = attempt;
    if (await mayBeRemoved(key)) return EXPIRED;
    if (await processorNames.registerAgain(processor)) return ITS_TURN;
    if (turn && (await orderAccess.markAgain())) return ITS_TURN;
    // Only a turn waits after a loss.
    const asked = turn ? attempt : { ...attempt, waitAfterLossMs: 0 };
    return (await whyMissing(asked)).refusal ?? freeTurn(turn);
  }

  function stateOf(row: PaymentRow) {
    if (row.state !== 'PROCESSING') return endStateOf(row);
    if (isPending(row)) return { state: 'pending', payment: pendingOf(row, row.remaining_ms) } as const;
    return { state: 'under way', fingerprint: row.fingerprint, remainingMs: row.remaining_ms } as const;
  }

  /** Why there is no row of the key, and none was inserted. The refusal is undefined if nothing stands in the way (any more). */
  async function whyMissing({
    key,
    turn,
    waitAfterLossMs,
    shortLossMs = 0,
    processor,
    formerProcessors = [],
  }: Pick<
    ClaimAttempt,
    'key' | 'turn' | 'waitAfterLossMs' | 'shortLossMs' | 'processor' | 'formerProcessors'
  >): Promise<{
    refusal: TurnRefusal | undefined;
    mayBeLost: boolean;
  }> {
    const { previousKey, lateMs } = turn ?? {};
    const ofTurn = [key, previousKey ?? null, lateMs ?? null, waitAfterLossMs];
    const [found] = await database.read<ExplainedTurn>(EXPLAIN_TURN, [
      ...ofTurn,
      processor,
      formerProcessors,
      shortLossMs,
    ]);
    const mayBeLost = found?.mayBeLost === true;
    if (mayBeLost && !found.canKnow) return { refusal: { state: 'other processor before loss' }, mayBeLost };
    if (mayBeLost && waitAfterLossMs > 0 && found.remainingMs > 0) {
      return { refusal: { state: 'too soon', remainingMs: found.remainingMs }, mayBeLost };
    }
    if (previousKey === undefined) return { refusal: undefined, mayBeLost };
    return { refusal: refusalAfter(found?.previous ?? undefined, found?.inTime === true), mayBeLost };
  }

  /** When the reply was lost, the row is read to find out whether this cancellation was written. */
  async function insertClosed(cancellation: Cancellation): Promise<boolean> {
    const { key, owner, transactionId, client, turn, claimBy, idempotencyTtlMs, waitAfterLossMs, isLookedUp } =
      cancellation;
    const { processor, formerProcessors = [] } = cancellation;
    const { reference, previousKey, lateMs } = turn ?? {};
    const life = [clock.at(claimBy), idempotencyTtlMs, reference?.text ?? null, reference?.attempt ?? null];
    const values = [key, transactionId, client ?? null, owner, ...life, previousKey ?? null, lateMs ?? null];
    try {
      const asked = [waitAfterLossMs, isLookedUp, processor, formerProcessors, orderAccess.adopter ?? null];
      return (await database.write(CANCEL, [...values, ...asked])).length > 0;
    } catch (fault) {
      if (!isUnknown(fault)) throw fault;
      const row = await findRow(key, { key, epoch: 1, owner }).catch(() => undefined);
      if (row?.state !== 'CANCELLED') throw fault;
      return true;
    }
  }

  async function cancelOnce(cancellation: Cancellation): Promise<CancelResult | typeof ITS_TURN> {
    if (await insertClosed(cancellation)) return { state: 'cancelled' };
    const { key, turn, isLookedUp } = cancellation;
    const row = await findRow(key);
    if (row) return stateOf(row);
    if (await mayBeRemoved(key)) return EXPIRED;
    if (turn && (await orderAccess.markAgain())) return ITS_TURN;
    const { refusal, mayBeLost } = await whyMissing(cancellation);
    if (refusal) return refusal;
    return mayBeLost && !isLookedUp ? { state: 'may be lost' } : freeTurn(turn);
  }

  async function claimOnce(attempt: ClaimAttempt): Promise<ClaimResult | typeof ITS_TURN> {
    const inserted = await insertOrReadBack(attempt);
    if (!inserted) return explain(attempt);
    const { key, owner, transactionId, amount, currency, fingerprint, client, processor, settleAs, turn, content } =
      attempt;
    if (settleAs && inserted.expiresAt !== null) {
      const final = { outcome: settleAs.outcome, fingerprint, client, expiresAt: inserted.expiresAt };
      return { state: 'settled', final };
    }
    // The attempt of a lost row may have charged, so the processor is asked first.
    const { mayBeLost } = inserted;
    const ageMs = mayBeLost ? inserted.ageMs : 0;
    const { text: reference, attempt: number } = turn?.reference ?? {};
    const payment = { amount, currency, fingerprint, client, processor, reference, attempt: number, content };
    const row = { key, epoch: 1, owner, transactionId, ...payment, unsent: !mayBeLost, ageMs };
    const lost = isComputed(key) ? { claimedAfterLoss: true, mayBeLost } : { claimedAfterLoss: true };
    const claim = mayBeLost ? { ...row, ...lost } : row;
    return { state: mayBeLost ? 'taken over' : 'claimed', claim };
  }

  /** Inserts once more if what stood in the way was gone only after the first statement, as when the attempt before was declined meanwhile. */
  async function inTurn<R extends { readonly state: string }>(
    insert: () => Promise<R | typeof ITS_TURN>,
  ): Promise<R | typeof TOO_LATE> {
    const first = await insert();
    const last = first === ITS_TURN ? await insert() : first;
    const result = last === ITS_TURN ? TOO_LATE : last;
    if (result.state === 'too late') clock.synchronize().catch(() => {});
    return result;
  }

  return {
    async claim(attempt) {
      const registering = processorNames.register(attempt.processor);
      if (registering) await registering;
      const marking = attempt.turn && orderAccess.mark();
      if (marking) await marking;
      return inTurn(() => claimOnce(attempt));
    },

    async cancel(cancellation) {
      const marking = cancellation.turn && orderAccess.mark();
      if (marking) await marking;
      return inTurn(() => cancelOnce(cancellation));
    },

    async acceptLostRows() {
      await database.write(ACCEPT_LOST_ROWS);
    },

    takeOver,

    beginEnding,

    async duePending({ processor, limit }) {
      const rows = await database.write<PaymentRow>(DUE_PENDING, [processor, limit]);
      return rows.filter(isPending).map((row) => pendingOf(row, 0));
    },

    async movePending(key, untilMs) {
      await database.write(MOVE_PENDING, [key, untilMs]);
    },

    async takeOverDue({ owner, leaseMs, processor, first, limit }) {
      const values = [owner, leaseMs, processor, limit];
      const rows = await database.write<PaymentRow>(TAKE_OVER_DUE[first], values);
      return rows.map(claimOf);
    },
  };
}

/** The columns of `CLAIM_IN_FULL` after the columns of `CLAIM`. */
function turnsOf(attempts: readonly ClaimAttempt[]): (string | number | null)[][] {
  return [
    attempts.map(({ turn }) => turn?.reference.text ?? null),
    attempts.map(({ turn }) => turn?.reference.attempt ?? null),
    attempts.map(({ turn }) => turn?.previousKey ?? null),
    attempts.map(({ turn }) => turn?.lateMs ?? null),
    attempts.map(({ waitAfterLossMs }) => waitAfterLossMs),
  ];
}

/** The columns of `CLAIM_IN_FULL` after the columns of turns. */
function contentsOf(attempts: readonly ClaimAttempt[]): (string | null)[][] {
  const contents = attempts.map(({ content }) => contentColumnsOf(content));
  return [contents.map(({ source }) => source), contents.map(({ content }) => content)];
}

/** The last of the columns of `CLAIM_IN_FULL`, which one value for the whole batch follows. */
const shortLossesOf = (attempts: readonly ClaimAttempt[]) => attempts.map(({ shortLossMs = 0 }) => shortLossMs);
