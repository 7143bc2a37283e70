import type { Clock } from '../platform/clock.js';
import { StoreUnavailable } from '../platform/faults.js';
import { type Answers, mismatch, type PayAnswer, type RefusedTurn, SOON } from './answers.js';
import type { Endings } from './endings.js';
import { type CarryOut, type ExecutionResult, outcomeOf } from './execution.js';
import { FairPlaces } from './fair-places.js';
import { knownAttemptOf, mayHideOwnRow } from './lost-attempts.js';
import type { PaymentCounts } from './payment-counts.js';
import type { Taken } from './ports/key-store.js';
import type { ClaimAttempt, ClaimResult, Ledger } from './ports/ledger.js';
import type { Processor } from './ports/processor.js';
import type { TurnOf } from './turn.js';
import type { Content } from './values/content.js';
import type { Money } from './values/money.js';
import type { Claim } from './values/payment.js';
import type { ComputeKey, NamedPayment, Reference } from './values/reference.js';

export interface PaymentRules {
  readonly idempotencyTtlMs: number;
  readonly leaseMs: number;
  readonly payloadMismatch: 'replay' | 'reject';
  /** Attempts of requests that are under way at once in this process, at most (rule P16). */
  readonly maxInFlight: number;
}

/** What one request asks for, and the owner under which it begins and claims. */
export interface PayAttempt {
  readonly key: string;
  /** Undefined where the request names the key alone. */
  readonly reference: Reference | undefined;
  readonly money: Money;
  /** Kept where this attempt makes the row. An existing row keeps its own. */
  readonly content: Content | undefined;
  /** The client that asks. Where it is undefined, it sees every key. */
  readonly client: string | undefined;
  readonly owner: string;
  readonly fingerprint: string;
  /** Monotonic, before the key store was asked. */
  readonly askedAt: number;
}

/** Claims the row of a payment, or takes it over, and carries it out, within the limit of attempts in flight. */
export interface Claims {
  /** After a begin that took the lock (protocol, step 2). */
  payWithLock(attempt: PayAttempt, begun: Taken): Promise<PayAnswer>;
  /** A payment whose owner is dead (protocol, step 3). */
  takeOver(named: NamedPayment, owner: string, askedAt: number, fingerprint: string): Promise<PayAnswer>;
}

export function createClaims(collaborators: {
  endings: Endings;
  ledger: Ledger;
  processor: Processor;
  carryOut: CarryOut;
  answers: Answers;
  turnOf: TurnOf;
  computeKey: ComputeKey;
  rules: Omit<PaymentRules, 'payloadMismatch'>;
  clock: Clock;
  newTransactionId: () => string;
  /** An attempt of a request ended without a known outcome. */
  onUnknown: (claim: Claim, cause: string) => void;
  counts: Pick<PaymentCounts, 'attemptsOfRequests' | 'settled'>;
}): Claims {
  const {
    endings,
    ledger,
    processor,
    carryOut,
    answers,
    turnOf,
    computeKey,
    rules,
    clock,
    newTransactionId,
    onUnknown,
  } = collaborators;
  const { counts } = collaborators;
  const { idempotencyTtlMs, leaseMs } = rules;
  const { certainResult, dedupMs, timeoutMs, name, formerNames } = processor.traits;
  const ofProcessor = { processor: name, formerProcessors: formerNames };
  /** The last moment at which a charge of a lost row can arrive: its owner sends nothing when its lease has ended. */
  const waitAfterLossMs = leaseMs + timeoutMs;
  /**
   * An operator declines no payment that is younger, so that in a shorter loss no attempt was lost that follows such a decline. A decline by
   * the processor has a record there. 0 where nothing is deduplicated: then the attempt itself may be on its way.
   */
  const shortLossMs = Math.min(dedupMs, idempotencyTtlMs);
  const { replay, conflict, conflictWith, busy, differs, took } = answers;
  const places = new FairPlaces(rules.maxInFlight, clock);

  return {
    async payWithLock(attempt, begun) {
      if (!places.take(attempt.client)) return turnAway(attempt);
      return counted(attempt.client, claimAndPay(attempt, begun));
    },
    async takeOver(named, owner, askedAt, fingerprint) {
      if (!places.take(named.client)) return SOON;
      return counted(named.client, takeOver(named, owner, askedAt, fingerprint));
    },
  };

  /** The lock is ours. Each path from here releases it, or leaves it to the running attempt. */
  async function claimAndPay(attempt: PayAttempt, { claimBy, client, reference }: Taken): Promise<PayAnswer> {
    const { key, money, content, owner, fingerprint, askedAt } = attempt;
    const named = { key, reference };
    const transactionId = newTransactionId();
    const claimed = await claimOrLookUp({
      ...money,
      content,
      key,
      owner,
      fingerprint,
      client,
      transactionId,
      ...ofProcessor,
      leaseMs,
      claimBy,
      turn: reference && turnOf(reference),
      waitAfterLossMs,
      shortLossMs,
      settleAs: certainResult && { outcome: outcomeOf({ transactionId }, certainResult), idempotencyTtlMs },
    }).catch(async (fault: unknown) => {
      await endings.release(key, owner);
      throw fault;
    });
    switch (claimed.state) {
      case 'claimed':
        return answerOf(
          claimed.claim,
          await timed(askedAt, carryOut(claimed.claim, askedAt, 'first claim')),
          fingerprint,
          reference,
        );
      case 'settled':
        // As after every settlement: a death before `finish` leaves a row that the next begin or look finds.
        counts.settled['first claim'] += 1;
        await endings.finish(key, owner, claimed.final);
        took(clock.monotonic() - askedAt);
        return { state: 'processed', final: claimed.final, attempt: reference?.attempt };
      case 'taken over':
        return finishTakeover(claimed.claim, askedAt, fingerprint, reference);
      case 'final':
        await endings.finish(key, owner, claimed.final);
        return replay(named, claimed.final, fingerprint);
      case 'under way':
        await endings.release(key, owner);
        return conflictWith(named, claimed, fingerprint);
      case 'cancelled':
        await endings.forget(key, owner);
        return { state: 'cancelled' };
      case 'not its turn':
        await endings.release(key, owner);
        return { ...claimed, attempt: reference?.attempt ?? 1 };
      case 'unknown':
        await endings.release(key, owner);
        return claimed;
      case 'other processor before loss':
        await endings.release(key, owner);
        return claimed;
      case 'too soon':
        await endings.release(key, owner);
        return { state: 'too soon', retryAfterSeconds: Math.ceil(claimed.remainingMs / 1000) };
      case 'expired':
        await endings.release(key, owner);
        return { state: 'invalid key' };
      case 'too late':
        await endings.release(key, owner);
        throw new StoreUnavailable('unchanged', 'the claim came after the lease of its begin');
    }
  }

  /**
   * If rows were lost, the row of an attempt that is out of turn may be one of them: the processor is asked about it before its turn is
   * judged. If it has a record, this attempt is claimed with the rows before it, and looked up again as every claim of a lost row.
   *
   * Dies before the second claim: nothing was written. Dies after it: the rows are there, and recovery looks this attempt up. Run twice:
   * the second finds the row.
   */
  async function claimOrLookUp(
    attempt: ClaimAttempt,
  ): Promise<ClaimResult | Omit<RefusedTurn, 'attempt'> | { readonly state: 'unknown' }> {
    const claimed = await ledger.claim(attempt);
    const { key, turn } = attempt;
    if (!turn || claimed.state !== 'not its turn' || !mayHideOwnRow(claimed)) return claimed;
    if (!(await ledger.mayBeLost(key))) return claimed;
    const found = await processor.lookUp(key);
    if (found.state === 'unknown') return { state: 'unknown' };
    if (found.state === 'no record')
      return claimed.previous === 'absent' ? { ...claimed, previous: 'may be lost' } : claimed;
    const keysAndIds = { computeKey, newTransactionId };
    const knownAtProcessor = knownAttemptOf(turn.reference, keysAndIds, idempotencyTtlMs);
    const known = await ledger.claim({ ...attempt, knownAtProcessor });
    // An attempt before it is not declined yet. This one was made, so it must not be refused as one that never was.
    return known.state === 'not its turn' && known.previous === 'absent' ? { state: 'unknown' } : known;
  }

  async function takeOver(
    named: NamedPayment,
    owner: string,
    askedAt: number,
    fingerprint: string,
  ): Promise<PayAnswer> {
    const { key, reference } = named;
    const claim = await ledger.takeOver({ key, owner, leaseMs, ...ofProcessor });
    // Another attempt was faster, and the payment may be final already.
    return claim ? finishTakeover(claim, askedAt, fingerprint, reference) : conflict(named, fingerprint);
  }

  /** Pays the row's amount, never the request's. A mismatching request is rejected after the takeover completes. */
  async function finishTakeover(
    claim: Claim,
    askedAt: number,
    fingerprint: string,
    reference: Reference | undefined,
  ): Promise<PayAnswer> {
    return answerOf(claim, await carryOut(claim, askedAt, 'repeat'), fingerprint, reference);
  }

  async function answerOf(
    claim: Claim,
    result: ExecutionResult,
    fingerprint: string,
    reference: Reference | undefined,
  ): Promise<PayAnswer> {
    if (result.state === 'unknown' || result.state === 'not sent') {
      onUnknown(claim, result.cause);
      return { state: result.state };
    }
    if (result.state === 'cancelled') {
      return { state: result.answered === 'COMPLETED' ? 'charged after cancellation' : 'cancelled' };
    }
    if (result.state === 'superseded') {
      return { state: 'superseded at processor', attempt: result.by - 1, by: result.by };
    }
    const { final } = result;
    if (result.state !== 'settled') return replay({ key: claim.key, reference }, final, fingerprint);
    if (differs(claim.key, final.fingerprint, fingerprint)) return mismatch(claim.key);
    return { state: 'processed', final, attempt: reference?.attempt };
  }

  async function timed(askedAt: number, attempt: Promise<ExecutionResult>): Promise<ExecutionResult> {
    const result = await attempt;
    if (result.state === 'settled') took(clock.monotonic() - askedAt);
    return result;
  }

  async function counted(client: string | undefined, attempt: Promise<PayAnswer>): Promise<PayAnswer> {
    counts.attemptsOfRequests += 1;
    try {
      return await attempt;
    } finally {
      counts.attemptsOfRequests -= 1;
      places.giveBack(client);
    }
  }

  /**
   * Claims nothing and releases the lock. The row is read all the same: a payment that was claimed before must not be
   * answered as busy, because that says that nothing was begun.
   */
  async function turnAway(attempt: PayAttempt): Promise<PayAnswer> {
    const { key, owner, fingerprint } = attempt;
    const found = await ledger.find(key).catch(async (fault: unknown) => {
      await endings.release(key, owner);
      throw fault;
    });
    if (found.state === 'final') await endings.finish(key, owner, found.final);
    else await endings.release(key, owner);
    return found.state === 'absent' ? busy() : conflictWith(attempt, found, fingerprint);
  }
}
