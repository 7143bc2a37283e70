import { afterWrite, isUnknown, StoreUnavailable } from '../platform/faults.js';
import { CANCELLATION, type RefusedTurn, wholeSeconds } from './answers.js';
import { claimTermsOf, type PaymentContext } from './context.js';
import type { CarryOut } from './execution.js';
import type { PlacesInFlight } from './fair-places.js';
import { type LockEnds, yieldTo } from './lock-ends.js';
import { knownAttemptOf, type LookUpNext, mayHideOwnRow } from './lost-attempts.js';
import type { Taken } from './ports/key-store.js';
import type { Cancellation, CancelResult, FindResult, OtherBeforeLoss } from './ports/ledger.js';
import { CONTRACT_OF_ENDINGS, type LookUpResult } from './ports/processor.js';
import type { TurnOf } from './turn.js';
import { fingerprintOf } from './values/money.js';
import type { Claim, EndingScope, FinalOutcome } from './values/payment.js';
import { LAST_ATTEMPT, type NamedPayment, referenceIn } from './values/reference.js';

/** A caller that repeats a refused cancellation does so at least this often. */
const LONGEST_RETRY_SECONDS = 5;

export type CancelAnswer =
  /** By this request, or by one before. */
  | { readonly state: 'cancelled' }
  | { readonly state: 'completed'; readonly transactionId: string }
  | { readonly state: 'declined' }
  | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
  /** The processor or its adapter cannot end the payment (any more), so its outcome will come. */
  | { readonly state: 'cannot be ended' }
  | { readonly state: 'invalid key' }
  | RefusedTurn
  /** The cancellation was for this attempt only, and the attempt was never begun. */
  | { readonly state: 'nothing to end' }
  | { readonly state: 'too soon'; readonly retryAfterSeconds: number }
  | OtherBeforeLoss
  /** Its row may be lost, and the processor has an outcome that belongs in it. */
  | { readonly state: 'charged before' }
  /** Rows were lost, and the processor has a record of the attempt after this one. */
  | { readonly state: 'superseded at processor'; readonly attempt: number; readonly by: number }
  /** Its row may be lost, and the processor did not say what it has. */
  | { readonly state: 'unknown' };

/**
 * Closes a payment that is not to be made (rule P22): it takes the lock and inserts the row as a payment does, so of both exactly one
 * succeeds. A payment that is under way, and that no execution works on, is ended at the processor (rule P25). With `only`, the next
 * attempt at its reference is not closed.
 *
 * Dies before `ledger.cancel` or `beginEnding`: nothing happened, the lock ends by itself. Dies after `ledger.cancel`: the row answers
 * every claim, and the next request removes the record. Dies after `beginEnding`: the row says so, nothing is sent for it, and recovery
 * asks for the ending again. Dies before the next attempt is closed: the row says that the order is ended, and a repeat closes it. Run
 * twice: the second finds the row.
 */
export type CancelPayment = (named: NamedPayment, only?: 'attempt') => Promise<CancelAnswer>;

const CANCELLED = { state: 'cancelled' } as const;

/** The scope that was asked for, and the client that asked. */
interface AskedEnding {
  readonly only: 'attempt' | undefined;
  readonly by: string | undefined;
}

export function createCancelPayment(
  context: Pick<
    PaymentContext,
    | 'keys'
    | 'ledger'
    | 'history'
    | 'processor'
    | 'rules'
    | 'clock'
    | 'computeKey'
    | 'newOwner'
    | 'newTransactionId'
    | 'events'
  > & {
    carryOut: CarryOut;
    lockEnds: LockEnds;
    lookUpNext: LookUpNext;
    placesInFlight: PlacesInFlight;
    turnOf: TurnOf;
  },
): CancelPayment {
  const { keys, ledger, history, processor, clock, computeKey, newOwner, newTransactionId, events } = context;
  const { carryOut, lockEnds, lookUpNext, turnOf } = context;
  const places = context.placesInFlight.refundsAndEndings;
  const { leaseMs, idempotencyTtlMs } = context.rules;
  const { ofProcessor, recordLifeMs, waitAfterLossMs, shortLossMs } = claimTermsOf(context);

  return cancelPayment;

  async function cancelPayment(named: NamedPayment, only?: 'attempt'): Promise<CancelAnswer> {
    const { key, client, reference, by } = named;
    const asked: AskedEnding = { only, by };
    const owner = newOwner(by);
    const makes = reference && { reference, lifeMs: recordLifeMs };
    const attempt = { key, owner, leaseMs, fingerprint: CANCELLATION, client, makes };
    const begun = await keys.begin(attempt).catch((fault: unknown) => {
      // The lock may be held although the reply was lost.
      if (isUnknown(fault)) void lockEnds.release(key, owner);
      throw fault;
    });
    switch (begun.state) {
      case 'taken':
        return cancelWithLock(key, owner, begun, asked);
      case 'final':
        return ofOutcome(key, begun.final, asked);
      case 'locked':
        return ofRow(key, await ledger.find(key), asked, begun);
      case 'absent': {
        const found = await ledger.find(key, client);
        if (found.state === 'final') await lockEnds.finish(key, owner, found.final);
        return isIdle(found) ? end({ key, client }, owner, asked) : ofRow(key, found, asked);
      }
    }
  }

  async function cancelWithLock(key: string, owner: string, taken: Taken, asked: AskedEnding): Promise<CancelAnswer> {
    const closed = await (asked.only ? findOnly(key, owner, taken) : close(key, owner, taken)).catch(
      async (fault: unknown) => {
        await lockEnds.release(key, owner);
        throw fault;
      },
    );
    // `end` releases the lock.
    if (isIdle(closed)) return end({ key, client: taken.client }, owner, asked);
    await yieldTo(lockEnds, key, owner, closed);
    return ofClosed(key, closed, taken.reference?.attempt ?? 1, asked);
  }

  async function close(key: string, owner: string, taken: Taken): Promise<CancelResult | FoundAtProcessor> {
    const { claimBy, client, reference } = taken;
    const transactionId = newTransactionId();
    const turn = reference && turnOf(reference);
    const life = { claimBy, idempotencyTtlMs, waitAfterLossMs };
    return cancelOnce({ key, owner, transactionId, client, turn, ...life, ...ofProcessor });
  }

  /**
   * Finds the attempt and closes nothing, because another card is to follow. If rows were lost, the row of a pending attempt may be one of
   * them.
   */
  async function findOnly(
    key: string,
    owner: string,
    { claimBy, client, reference }: Taken,
  ): Promise<CancelResult | FoundAtProcessor> {
    const found = await ledger.find(key);
    if (found.state === 'abandoned') return { state: 'under way', fingerprint: '', remainingMs: 0 };
    if (found.state !== 'absent') return found;
    if (!(await ledger.mayBeLost(key))) return { state: 'nothing to end' };
    const known = await processor.lookUp(key);
    if (known.state === 'no record') return { state: 'nothing to end' };
    if (known.state !== 'pending') return atProcessor(known.state);
    const turn = reference && turnOf(reference);
    return adopt({ key, owner, transactionId: newTransactionId(), client, turn, claimBy, ...ofProcessor }, known);
  }

  /** Ends a payment that no execution works on. Its lock, if this owner has it, is released. */
  async function end(
    { key, client }: Pick<NamedPayment, 'key' | 'client'>,
    owner: string,
    asked: AskedEnding,
  ): Promise<CancelAnswer> {
    if (!places.take(client)) {
      await lockEnds.release(key, owner);
      return inProgress(0);
    }
    try {
      return await endInPlace(key, owner, asked);
    } finally {
      places.giveBack(client);
    }
  }

  async function endInPlace(key: string, owner: string, asked: AskedEnding): Promise<CancelAnswer> {
    const askedAt = clock.monotonic();
    const claim = await beginEnding(key, owner, asked.only ?? 'order').catch(async (fault: unknown) => {
      await lockEnds.release(key, owner);
      throw fault;
    });
    if (claim === undefined || 'state' in claim) {
      await lockEnds.release(key, owner);
      return claim ?? ofRow(key, await ledger.find(key), asked);
    }
    const result = await carryOut(claim, askedAt, 'cancellation');
    switch (result.state) {
      case 'settled':
      case 'finished elsewhere':
        return ofOutcome(key, result.final, asked);
      case 'cannot be ended':
        return result;
      case 'cancelled':
        return result.answered === 'COMPLETED' ? { state: 'charged before' } : CANCELLED;
      case 'superseded':
        return { state: 'superseded at processor', attempt: result.by - 1, by: result.by };
      case 'unknown':
      case 'not sent':
        events.unknown(claim, result.cause);
        return { state: 'unknown' };
      case 'pending':
        return { state: 'cannot be ended' };
    }
  }

  /**
   * A payment that was never sent needs no answer. Otherwise the adapter must know endings: if its last reply did not say so, it is asked,
   * and nothing is written before it does.
   */
  async function beginEnding(
    key: string,
    owner: string,
    scope: EndingScope,
  ): Promise<Claim | { readonly state: 'cannot be ended' | 'unknown' } | undefined> {
    const begun = { key, owner, leaseMs, scope, ...ofProcessor };
    if (processor.contract < CONTRACT_OF_ENDINGS) {
      const unsent = await ledger.beginEnding({ ...begun, onlyUnsent: true });
      if (unsent) return unsent;
      const { state } = await processor.lookUp(key);
      const { contract } = processor;
      // A processor that is down says nothing of what its adapter knows.
      if (contract === 0 && state === 'unknown') return { state };
      if (contract < CONTRACT_OF_ENDINGS) return { state: 'cannot be ended' };
    }
    return ledger.beginEnding({ ...begun, onlyUnsent: false });
  }

  /**
   * If an earlier row may be lost, the processor is asked, about the next attempt at the reference too; only two clear "no record" permit
   * the cancellation.
   */
  async function cancelOnce(cancellation: Omit<Cancellation, 'isLookedUp'>): Promise<CancelResult | FoundAtProcessor> {
    const closed = await ledger.cancel({ ...cancellation, isLookedUp: false });
    const { key, turn } = cancellation;
    if (closed.state === 'not its turn') return outOfTurn(cancellation, closed);
    if (closed.state !== 'may be lost') return closed;
    const [found, next] = await Promise.all([processor.lookUp(key), lookUpNext(turn?.reference)]);
    if (found.state !== 'no record' && found.state !== 'pending') return atProcessor(found.state);
    if (next.state === 'unknown') return { state: 'unknown' };
    if (next.state === 'superseded') return { state: 'superseded at processor', attempt: next.by - 1, by: next.by };
    return found.state === 'pending'
      ? adopt(cancellation, found)
      : ledger.cancel({ ...cancellation, isLookedUp: true });
  }

  /**
   * The row of a pending payment was lost: it is claimed again, with what the processor says of it, so that the cancellation can end it.
   * Dies before `leave`: the row is one that was claimed after a loss, and recovery finds it pending.
   */
  async function adopt(
    lost: Pick<Cancellation, 'key' | 'owner' | 'transactionId' | 'client' | 'turn' | 'claimBy'>,
    { charged, untilMs, id }: Extract<LookUpResult, { state: 'pending' }>,
  ): Promise<CancelResult | FoundAtProcessor> {
    if (!charged) return { state: 'unknown' };
    const { turn } = lost;
    const keysAndIds = { computeKey, newTransactionId };
    const knownAtProcessor = turn && knownAttemptOf(turn.reference, keysAndIds, idempotencyTtlMs);
    const terms = { leaseMs, waitAfterLossMs, shortLossMs, knownAtProcessor, ...ofProcessor };
    const claimed = await ledger.claim({ ...lost, ...charged, fingerprint: fingerprintOf(charged), ...terms });
    if (claimed.state !== 'taken over') {
      // The claim of a row that may be lost is never a first claim.
      if (claimed.state === 'claimed' || claimed.state === 'settled')
        throw new Error('a lost row was claimed as a new one');
      return claimed;
    }
    const note = { lookedUp: 'found', sent: false, pendingUntil: untilMs } as const;
    await ledger.leave(claimed.claim, { recoverAfterMs: 0, pendingUntilMs: untilMs, processorId: id }, note);
    return { state: 'under way', fingerprint: claimed.claim.fingerprint, remainingMs: 0 };
  }

  /** If rows were lost, the row of an attempt that is out of turn may be one of them. */
  async function outOfTurn(
    cancellation: Omit<Cancellation, 'isLookedUp'>,
    refused: TurnOut,
  ): Promise<CancelResult | FoundAtProcessor> {
    const { key } = cancellation;
    if (!mayHideOwnRow(refused) || !(await ledger.mayBeLost(key))) return refused;
    const found = await processor.lookUp(key);
    if (found.state === 'pending') return adopt(cancellation, found);
    if (found.state !== 'no record') return atProcessor(found.state);
    return refused.previous === 'absent' ? { ...refused, previous: 'may be lost' } : refused;
  }

  async function ofClosed(
    key: string,
    closed: CancelResult | FoundAtProcessor,
    attempt: number,
    asked: AskedEnding,
  ): Promise<CancelAnswer> {
    switch (closed.state) {
      case 'cancelled':
      case 'nothing to end':
      case 'unknown':
      case 'charged before':
      case 'superseded at processor':
      case 'other processor before loss':
        return closed;
      case 'final':
        return ofOutcome(key, closed.final, asked);
      case 'under way':
        return inProgress(closed.remainingMs);
      case 'pending':
        return inProgress(closed.payment.remainingMs);
      case 'expired':
        return { state: 'invalid key' };
      case 'not its turn':
        return { ...closed, attempt };
      case 'too soon':
        return { state: 'too soon', retryAfterSeconds: wholeSeconds(closed.remainingMs) };
      case 'may be lost':
      case 'too late':
        throw new StoreUnavailable('unchanged', 'the cancellation came after the lease of its begin');
    }
  }

  /** The state of a payment that another request has, or had. */
  async function ofRow(
    key: string,
    found: FindResult,
    asked: AskedEnding,
    lock?: { readonly remainingMs: number },
  ): Promise<CancelAnswer> {
    switch (found.state) {
      case 'final':
        return ofOutcome(key, found.final, asked);
      case 'cancelled':
        return found;
      case 'under way':
        return inProgress(found.remainingMs);
      case 'pending':
        return inProgress(found.payment.remainingMs);
      case 'abandoned':
        return inProgress(0);
      case 'expired':
        return { state: 'invalid key' };
      case 'absent':
        return lock ? inProgress(lock.remainingMs) : { state: 'invalid key' };
    }
  }

  async function ofOutcome(key: string, { outcome }: FinalOutcome, asked: AskedEnding): Promise<CancelAnswer> {
    if (outcome.state === 'COMPLETED') return { state: 'completed', transactionId: outcome.transactionId };
    return asked.only ? CANCELLED : afterWrite(afterDecline(key, asked.by));
  }

  /**
   * An attempt that was ended, or the last one, leaves nothing to close, and neither does an attempt that was followed by a cancellation.
   * If the order was ended, the attempt after this one is closed, because an earlier request may have died before that.
   */
  async function afterDecline(key: string, by: string | undefined): Promise<CancelAnswer> {
    const row = await history.find(key);
    const ended = referenceIn(row);
    const ending = row?.ending;
    if (!ended) return ending ? CANCELLED : { state: 'declined' };
    if (ended.attempt === LAST_ATTEMPT) return CANCELLED;
    const reference = { ...ended, attempt: ended.attempt + 1 };
    const next = { key: computeKey(reference), client: reference.client, reference, by };
    if (ending === 'order') return cancelPayment(next);
    return (await ledger.find(next.key)).state === 'cancelled' ? CANCELLED : { state: 'declined' };
  }
}

/** No execution works on the payment, so it can be ended. */
function isIdle(found: FindResult | CancelResult | FoundAtProcessor): boolean {
  if (found.state === 'pending') return found.payment.remainingMs === 0;
  return found.state === 'abandoned' || (found.state === 'under way' && found.remainingMs === 0);
}

type TurnOut = Extract<CancelResult, { state: 'not its turn' }>;

type FoundAtProcessor =
  | Extract<CancelAnswer, { state: 'unknown' | 'charged before' | 'superseded at processor' | 'nothing to end' }>
  | Omit<RefusedTurn, 'attempt'>;

const atProcessor = (found: 'succeeded' | 'declined' | 'pending' | 'unknown'): FoundAtProcessor => ({
  state: found === 'unknown' ? 'unknown' : 'charged before',
});

/** Soon: most payments take a small part of their lease. */
function inProgress(remainingMs: number): CancelAnswer {
  return { state: 'in progress', retryAfterSeconds: Math.min(LONGEST_RETRY_SECONDS, wholeSeconds(remainingMs)) };
}
