import type { Clock } from '../platform/clock.js';
import { isUnknown, StoreUnavailable } from '../platform/faults.js';
import type { NowOrLater } from '../platform/now-or-later.js';
import { createAnswers, type PayAnswer, SOON } from './answers.js';
import { type AttemptResult, type CarryOut, outcomeOf } from './attempt.js';
import type { Endings } from './endings.js';
import { createOutcomes } from './outcomes.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { BeginResult, KeyStore, LookResult } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { Processor } from './ports/processor.js';
import { fingerprintOf, fingerprintOfRefused, type Money, type MoneyProblem } from './values/money.js';
import type { Claim, FinalOutcome } from './values/payment.js';
import type { Patience, Waiting } from './waiting.js';

/** The payment area of the specification: issue a key, pay with it once, ask for the outcome. */
export interface Payments {
  /** Spec 4.1, endpoint 1. The key is stored when this resolves. `client`: the owner (decisions A5). */
  issueKey(client?: string): Promise<string>;
  /**
   * Spec 4.1, endpoint 2, rules 2 to 5. With patience, a duplicate of a payment under way waits for
   * its end before it is answered as in progress. A key of another client than `client` is one that was never issued.
   */
  pay(key: string, request: PaymentRequest, patience?: Patience, client?: string): NowOrLater<PayAnswer>;
  /** Spec 4.1, endpoint 3: the outcome, or undefined while there is none, or none that is the client's. */
  outcome(key: string, client?: string): NowOrLater<FinalOutcome | undefined>;
}

/** What is to be paid, or the problem with the request's content, which only rule 5 reports. */
export type PaymentRequest = Money | MoneyProblem;

export interface PaymentRules {
  readonly idempotencyTtlMs: number;
  readonly leaseMs: number;
  readonly payloadMismatch: 'replay' | 'reject';
  /** Attempts of requests that are under way at once in this process, at most (decisions P16). */
  readonly maxInFlight: number;
}

export function createPayments(collaborators: {
  keys: KeyStore;
  endings: Endings;
  ledger: Ledger;
  processor: Processor;
  carryOut: CarryOut;
  rules: PaymentRules;
  clock: Clock;
  newKey: () => string;
  newTransactionId: () => string;
  newOwner: () => string;
  waiting: Waiting;
  /** An attempt of a request ended without a known outcome. */
  onUnknown: (claim: Claim, cause: string) => void;
  counts?: Pick<PaymentCounts, 'attemptsOfRequests' | 'settled'>;
}): Payments {
  const {
    keys,
    endings,
    ledger,
    processor,
    carryOut,
    rules,
    clock,
    newKey,
    newTransactionId,
    newOwner,
    waiting,
    onUnknown,
    counts = createPaymentCounts(),
  } = collaborators;
  const { idempotencyTtlMs, leaseMs, payloadMismatch } = rules;
  const { certainResult, typicalMs } = processor;
  const { replay, inProgress, conflict, conflictWith, busy, differs, took } = createAnswers({
    ledger,
    leaseMs,
    payloadMismatch,
    typicalMs,
  });
  function tryToPay(key: string, request: PaymentRequest, client: string | undefined): NowOrLater<PayAnswer> {
    return 'problem' in request ? refuseContent(key, request, client) : pay(key, request, client);
  }

  /** Waits instead of answering 'in progress'; where the attempt ended without an outcome, this request begins one. */
  async function payPatiently(
    key: string,
    request: PaymentRequest,
    patience: Patience,
    client: string | undefined,
  ): Promise<PayAnswer> {
    let answer = await tryToPay(key, request, client);
    if (answer.state !== 'in progress') return answer;
    const place = waiting.enter(key, patience);
    if (!place) return answer;
    try {
      let fault: unknown;
      while (answer.state === 'in progress' && (await place.next())) {
        try {
          answer = await tryToPay(key, request, client);
          fault = undefined;
        } catch (thrown) {
          // A store that is away for a moment does not end the wait.
          if (!(thrown instanceof StoreUnavailable)) throw thrown;
          fault = thrown;
        }
      }
      if (fault !== undefined) throw fault;
      // The last try may be long ago, and the payment may be final since.
      if (answer.state === 'in progress') {
        answer = await conflict(key, 'problem' in request ? fingerprintOfRefused(request) : fingerprintOf(request));
      }
      return { ...answer, waited: true };
    } finally {
      place.leave();
    }
  }

  function pay(key: string, money: Money, client: string | undefined): NowOrLater<PayAnswer> {
    const owner = newOwner();
    const fingerprint = fingerprintOf(money);
    const askedAt = clock.monotonic();

    function answerTo(begun: BeginResult): NowOrLater<PayAnswer> {
      switch (begun.state) {
        case 'locked':
          return conflict(key, fingerprint, begun);
        case 'final':
          return replay(begun.final, fingerprint);
        case 'absent':
          return payFromRow(key, owner, fingerprint, client);
        case 'taken':
          return hasRoom()
            ? counted(payWithLock(key, money, fingerprint, owner, begun, askedAt))
            : turnAway(key, owner, fingerprint);
      }
    }

    const begun = keys.begin({ key, owner, leaseMs, fingerprint, client });
    if (!(begun instanceof Promise)) return answerTo(begun);
    return begun
      .catch((fault: unknown) => {
        // The lock may be held although the reply was lost; release it so that retries are not blocked.
        if (isUnknown(fault)) void endings.release(key, owner);
        return lookAtRow(key, client, fault);
      })
      .then(answerTo);
  }

  function hasRoom(): boolean {
    return counts.attemptsOfRequests < rules.maxInFlight;
  }

  async function counted(attempt: Promise<PayAnswer>): Promise<PayAnswer> {
    counts.attemptsOfRequests += 1;
    try {
      return await attempt;
    } finally {
      counts.attemptsOfRequests -= 1;
    }
  }

  /**
   * Claims nothing and releases the lock. The row is read all the same: a payment that was claimed before must not be
   * answered as busy, because that says that nothing was begun.
   */
  async function turnAway(key: string, owner: string, fingerprint: string): Promise<PayAnswer> {
    const found = await ledger.find(key).catch(async (fault: unknown) => {
      await endings.release(key, owner);
      throw fault;
    });
    if (found.state === 'final') await endings.finish(key, owner, found.final);
    else await endings.release(key, owner);
    return found.state === 'absent' ? busy() : conflictWith(found, fingerprint);
  }

  /** The lock is ours. Each path from here releases it, or leaves it to the running attempt. */
  async function payWithLock(
    key: string,
    money: Money,
    fingerprint: string,
    owner: string,
    { claimBy, client }: { claimBy: number; client: string | undefined },
    askedAt: number,
  ): Promise<PayAnswer> {
    const transactionId = newTransactionId();
    const claimed = await ledger
      .claim({
        ...money,
        key,
        owner,
        fingerprint,
        client,
        transactionId,
        processor: processor.name,
        leaseMs,
        claimBy,
        settleAs: certainResult && { outcome: outcomeOf({ transactionId }, certainResult), idempotencyTtlMs },
      })
      .catch(async (fault: unknown) => {
        await endings.release(key, owner);
        throw fault;
      });
    switch (claimed.state) {
      case 'claimed':
        return answerOf(
          claimed.claim,
          await timed(askedAt, carryOut(claimed.claim, askedAt, 'first claim')),
          fingerprint,
        );
      case 'settled':
        // As after every settlement: a death before `finish` leaves a row that the next begin or look finds.
        counts.settled['first claim'] += 1;
        await endings.finish(key, owner, claimed.final);
        took(clock.monotonic() - askedAt);
        return { state: 'processed', final: claimed.final };
      case 'taken over':
        return finishTakeover(claimed.claim, askedAt, fingerprint);
      case 'final':
        await endings.finish(key, owner, claimed.final);
        return replay(claimed.final, fingerprint);
      case 'under way':
        await endings.release(key, owner);
        return inProgress({ ...claimed, heldMs: leaseMs - claimed.remainingMs }, fingerprint);
      case 'expired':
        await endings.release(key, owner);
        return { state: 'invalid key' };
      case 'too late':
        await endings.release(key, owner);
        throw new StoreUnavailable('unchanged', 'the claim came after the lease of its begin');
    }
  }

  /** The key store does not know the key. The row is read before the key is called invalid (protocol, step 1). */
  async function payFromRow(
    key: string,
    owner: string,
    fingerprint: string,
    client: string | undefined,
  ): Promise<PayAnswer> {
    const askedAt = clock.monotonic();
    const found = await ledger.find(key, client);
    switch (found.state) {
      case 'absent':
      case 'expired':
        return { state: 'invalid key' };
      case 'final':
        await endings.finish(key, owner, found.final);
        return replay(found.final, fingerprint);
      case 'under way':
        return inProgress({ ...found, heldMs: leaseMs - found.remainingMs }, fingerprint);
      case 'abandoned':
        return hasRoom() ? counted(takeOver(key, owner, askedAt, fingerprint)) : SOON;
    }
  }

  async function takeOver(key: string, owner: string, askedAt: number, fingerprint: string): Promise<PayAnswer> {
    const claim = await ledger.takeOver({ key, owner, leaseMs, processor: processor.name });
    // Another attempt was faster, and the payment may be final already.
    return claim ? finishTakeover(claim, askedAt, fingerprint) : conflict(key, fingerprint);
  }

  /** Without the key store only outcomes are answered, from the row. No payment is begun. */
  async function lookAtRow(
    key: string,
    client: string | undefined,
    fault: unknown,
  ): Promise<{ state: 'final'; final: FinalOutcome }> {
    if (!(fault instanceof StoreUnavailable)) throw fault;
    const found = await ledger.find(key, client);
    if (found.state !== 'final') throw fault;
    return found;
  }

  async function lookOrRead(key: string, client: string | undefined): Promise<LookResult> {
    try {
      return await keys.look(key, client);
    } catch (fault) {
      return await lookAtRow(key, client, fault);
    }
  }

  /** Pays the row's amount, never the request's. A mismatching request is rejected after the takeover completes. */
  async function finishTakeover(claim: Claim, askedAt: number, fingerprint: string): Promise<PayAnswer> {
    return answerOf(claim, await carryOut(claim, askedAt, 'repeat'), fingerprint);
  }

  /**
   * Answers a request whose content cannot be paid: by rules 2 to 4, then with its own problem. It takes no lock. In a currency
   * that has ended it may repeat an earlier payment: it is compared with it, and takes it over if its owner is dead.
   */
  async function refuseContent(key: string, refused: MoneyProblem, client: string | undefined): Promise<PayAnswer> {
    const askedAt = clock.monotonic();
    const fingerprint = fingerprintOfRefused(refused);
    const looked = await lookOrRead(key, client);
    if (looked.state === 'locked') return conflict(key, fingerprint, looked);
    if (looked.state === 'final') return replay(looked.final, fingerprint);
    const found = await ledger.find(key, client);
    switch (found.state) {
      case 'final':
        return replay(found.final, fingerprint);
      case 'under way':
        return inProgress({ ...found, heldMs: leaseMs - found.remainingMs }, fingerprint);
      case 'abandoned':
        return fingerprint && hasRoom() ? counted(takeOver(key, newOwner(), askedAt, fingerprint)) : SOON;
      case 'expired':
        return { state: 'invalid key' };
      case 'absent':
        if (looked.state === 'generated') return { state: 'invalid content', problem: refused.problem };
        return { state: 'invalid key' };
    }
  }

  function answerOf(claim: Claim, result: AttemptResult, fingerprint: string): PayAnswer {
    if (result.state === 'unknown' || result.state === 'not sent') {
      onUnknown(claim, result.cause);
      return { state: result.state };
    }
    if (differs(result.final.fingerprint, fingerprint)) return { state: 'mismatch' };
    return { state: result.state === 'settled' ? 'processed' : 'replayed', final: result.final };
  }

  async function timed(askedAt: number, attempt: Promise<AttemptResult>): Promise<AttemptResult> {
    const result = await attempt;
    if (result.state === 'settled') took(clock.monotonic() - askedAt);
    return result;
  }

  return {
    async issueKey(client) {
      const key = newKey();
      await keys.issue(key, idempotencyTtlMs, client);
      return key;
    },
    pay: (key, request, patience, client) =>
      patience ? payPatiently(key, request, patience, client) : tryToPay(key, request, client),
    outcome: createOutcomes(keys, ledger),
  };
}
