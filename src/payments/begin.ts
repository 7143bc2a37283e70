import type { Clock } from '../platform/clock.js';
import { isUnknown } from '../platform/faults.js';
import type { Answers, PayAnswer } from './answers.js';
import type { Claims, PayAttempt } from './claim.js';
import type { Endings } from './endings.js';
import { outcomeWithoutKeyStore } from './outcomes.js';
import type { KeyStore } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import { fingerprintOf, type RequestedPayment } from './values/money.js';
import type { NamedPayment } from './values/reference.js';

/** Begins a payment in the key store, and answers by what is found there (protocol, step 1). */
export type Begin = (named: NamedPayment, request: RequestedPayment) => Promise<PayAnswer>;

export function createBegin(collaborators: {
  keys: KeyStore;
  endings: Endings;
  ledger: Ledger;
  answers: Answers;
  claims: Claims;
  leaseMs: number;
  idempotencyTtlMs: number;
  clock: Clock;
  newOwner: () => string;
}): Begin {
  const { keys, endings, ledger, answers, claims, leaseMs, idempotencyTtlMs, clock, newOwner } = collaborators;
  const { replay, conflict, conflictWith } = answers;
  const recordLifeMs = Math.max(leaseMs, idempotencyTtlMs);

  return async function begin({ key, client, reference }, { amount, currency, content }) {
    const owner = newOwner();
    const money = { amount, currency };
    const fingerprint = fingerprintOf(money);
    const askedAt = clock.monotonic();
    // Listed member by member, because a copy of the object would cost every repeat two microseconds.
    const attempt: PayAttempt = { key, reference, money, content, client, owner, fingerprint, askedAt };
    const makes = reference && { reference, lifeMs: recordLifeMs };
    const begun = await keys.begin({ key, owner, leaseMs, fingerprint, client, makes }).catch((fault: unknown) => {
      // The lock may be held although the reply was lost; release it so that retries are not blocked.
      if (isUnknown(fault)) void endings.release(key, owner);
      return outcomeWithoutKeyStore(ledger, key, client, fault);
    });
    switch (begun.state) {
      case 'locked':
        return conflict(attempt, attempt.fingerprint, begun);
      case 'final':
        return replay(attempt, begun.final, attempt.fingerprint);
      case 'absent':
        return payFromRow(attempt);
      case 'taken':
        return claims.payWithLock(attempt, begun);
    }
  };

  /** The key store does not know the key. The row is read before the key is called invalid (protocol, step 1). */
  async function payFromRow(attempt: PayAttempt): Promise<PayAnswer> {
    const { key, client, owner, fingerprint } = attempt;
    const askedAt = clock.monotonic();
    const found = await ledger.find(key, client);
    switch (found.state) {
      case 'absent':
      case 'expired':
        return { state: 'invalid key' };
      case 'final':
        await endings.finish(key, owner, found.final);
        return replay(attempt, found.final, fingerprint);
      case 'cancelled':
      case 'under way':
        return conflictWith(attempt, found, fingerprint);
      case 'abandoned':
        return claims.takeOver(attempt, owner, askedAt, fingerprint);
    }
  }
}
