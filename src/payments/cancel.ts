import { isUnknown, StoreUnavailable } from '../platform/faults.js';
import { CANCELLATION, type RefusedTurn } from './answers.js';
import type { AttemptEndings } from './attempt-endings.js';
import { claimTermsOf, type PaymentContext } from './context.js';
import { type LookUpNext, mayHideOwnRow } from './lost-attempts.js';
import type { Taken } from './ports/key-store.js';
import type { Cancellation, CancelResult, FindResult, OtherBeforeLoss } from './ports/ledger.js';
import type { ChargeResult } from './ports/processor.js';
import type { TurnOf } from './turn.js';
import type { FinalOutcome } from './values/payment.js';
import type { NamedPayment } from './values/reference.js';

/** A caller that repeats a refused cancellation does so at least this often. */
const LONGEST_RETRY_SECONDS = 5;

export type CancelAnswer =
  /** By this request, or by one before. */
  | { readonly state: 'cancelled' }
  | { readonly state: 'completed'; readonly transactionId: string }
  | { readonly state: 'declined' }
  | { readonly state: 'in progress'; readonly retryAfterSeconds: number }
  /** The processor cannot end it (any more), or its adapter cannot: its outcome will come. */
  | { readonly state: 'cannot be ended' }
  | { readonly state: 'invalid key' }
  | RefusedTurn
  | { readonly state: 'too soon'; readonly retryAfterSeconds: number }
  | OtherBeforeLoss
  /** Its row may be lost, and the processor has an outcome that belongs in it. */
  | { readonly state: 'charged before' }
  /** Rows were lost, and the processor has a record of the attempt after this one. */
  | { readonly state: 'superseded at processor'; readonly attempt: number; readonly by: number }
  /** Its row may be lost, and the processor did not say what it has. */
  | { readonly state: 'unknown' };

/**
 * Closes a payment that is not to be made (rule P22): it takes the lock and inserts the row as a payment does, so of both exactly
 * one succeeds.
 *
 * Dies before `ledger.cancel`: nothing happened, the lock ends by itself. Dies after it: the row answers every claim, and the next
 * request removes the record. Run twice: the second finds the row.
 */
export type CancelPayment = (named: NamedPayment) => Promise<CancelAnswer>;

export function createCancelPayment(
  context: Pick<PaymentContext, 'keys' | 'ledger' | 'processor' | 'rules' | 'newOwner' | 'newTransactionId'> & {
    endings: AttemptEndings;
    lookUpNext: LookUpNext;
    turnOf: TurnOf;
  },
): CancelPayment {
  const { keys, ledger, processor, newOwner, newTransactionId, endings, lookUpNext, turnOf } = context;
  const { leaseMs, idempotencyTtlMs } = context.rules;
  const { ofProcessor, recordLifeMs, waitAfterLossMs } = claimTermsOf(context);

  return async function cancelPayment({ key, client, reference }) {
    const owner = newOwner();
    const makes = reference && { reference, lifeMs: recordLifeMs };
    const asked = { key, owner, leaseMs, fingerprint: CANCELLATION, client, makes };
    const begun = await keys.begin(asked).catch((fault: unknown) => {
      // The lock may be held although the reply was lost.
      if (isUnknown(fault)) void endings.release(key, owner);
      throw fault;
    });
    switch (begun.state) {
      case 'taken':
        return cancelWithLock(key, owner, begun);
      case 'final':
        return ofOutcome(begun.final);
      case 'locked':
        return ofRow(await ledger.find(key), begun);
      case 'absent': {
        const found = await ledger.find(key, client);
        if (found.state === 'final') await endings.finish(key, owner, found.final);
        return ofRow(found);
      }
    }
  };

  async function cancelWithLock(
    key: string,
    owner: string,
    { claimBy, client, reference }: Taken,
  ): Promise<CancelAnswer> {
    const transactionId = newTransactionId();
    const turn = reference && turnOf(reference);
    const life = { claimBy, idempotencyTtlMs, waitAfterLossMs };
    const closed = await cancelOnce({ key, owner, transactionId, client, turn, ...life, ...ofProcessor }).catch(
      async (fault: unknown) => {
        await endings.release(key, owner);
        throw fault;
      },
    );
    if (closed.state === 'cancelled') await endings.forget(key, owner);
    else if (closed.state === 'final') await endings.finish(key, owner, closed.final);
    else await endings.release(key, owner);
    return ofClosed(closed, reference?.attempt ?? 1);
  }

  /**
   * If an earlier row may be lost, the processor is asked, about the next attempt at the reference too; only two clear "no record" permit
   * the cancellation.
   */
  async function cancelOnce(cancellation: Omit<Cancellation, 'isLookedUp'>): Promise<CancelResult | FoundAtProcessor> {
    const closed = await ledger.cancel({ ...cancellation, isLookedUp: false });
    const { key, turn } = cancellation;
    if (closed.state === 'not its turn') return outOfTurn(key, closed);
    if (closed.state !== 'may be lost') return closed;
    const [found, next] = await Promise.all([processor.lookUp(key), lookUpNext(turn?.reference)]);
    if (found.state !== 'no record') return atProcessor(found.state);
    if (next.state === 'no record') return ledger.cancel({ ...cancellation, isLookedUp: true });
    if (next.state === 'unknown') return { state: 'unknown' };
    return { state: 'superseded at processor', attempt: next.by - 1, by: next.by };
  }

  /** If rows were lost, the row of an attempt that is out of turn may be one of them. */
  async function outOfTurn(key: string, refused: TurnOut): Promise<TurnOut | FoundAtProcessor> {
    if (!mayHideOwnRow(refused) || !(await ledger.mayBeLost(key))) return refused;
    const found = await processor.lookUp(key);
    if (found.state !== 'no record') return atProcessor(found.state);
    return refused.previous === 'absent' ? { ...refused, previous: 'may be lost' } : refused;
  }

  function ofClosed(closed: Awaited<ReturnType<typeof cancelOnce>>, attempt: number): CancelAnswer {
    switch (closed.state) {
      case 'cancelled':
      case 'unknown':
      case 'charged before':
      case 'superseded at processor':
      case 'other processor before loss':
        return closed;
      case 'final':
        return ofOutcome(closed.final);
      case 'under way':
        return inProgress(closed.remainingMs);
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
}

type TurnOut = Extract<CancelResult, { state: 'not its turn' }>;

type FoundAtProcessor =
  | Extract<CancelAnswer, { state: 'unknown' | 'charged before' | 'superseded at processor' }>
  | Omit<RefusedTurn, 'attempt'>;

const atProcessor = (found: ChargeResult['state']): FoundAtProcessor => ({
  state: found === 'unknown' ? 'unknown' : 'charged before',
});

/** The state of a payment that another request has, or had. */
function ofRow(found: FindResult, lock?: { readonly remainingMs: number }): CancelAnswer {
  switch (found.state) {
    case 'final':
      return ofOutcome(found.final);
    case 'cancelled':
      return found;
    case 'under way':
      return inProgress(found.remainingMs);
    case 'abandoned':
      return inProgress(0);
    case 'expired':
      return { state: 'invalid key' };
    case 'absent':
      return lock ? inProgress(lock.remainingMs) : { state: 'invalid key' };
  }
}

function ofOutcome({ outcome }: FinalOutcome): CancelAnswer {
  return outcome.state === 'COMPLETED'
    ? { state: 'completed', transactionId: outcome.transactionId }
    : { state: 'declined' };
}

/** Soon: most payments take a small part of their lease. */
function inProgress(remainingMs: number): CancelAnswer {
  return { state: 'in progress', retryAfterSeconds: Math.min(LONGEST_RETRY_SECONDS, wholeSeconds(remainingMs)) };
}

function wholeSeconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000));
}
