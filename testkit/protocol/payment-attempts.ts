import { randomInt, randomUUID } from 'node:crypto';
import { v7 as uuidV7 } from 'uuid';
import type { Cancellation, ClaimAttempt, Ledger, Turn } from '#idempay/payments/ports/ledger.js';
import { generateIdempotencyKey } from '#idempay/payments/values/idempotency-key.js';
import { fingerprintOf } from '#idempay/payments/values/money.js';
import type { Claim, FinalOutcome, Outcome } from '#idempay/payments/values/payment.js';
import { createComputeKey } from '#idempay/payments/values/reference.js';
import { createTransactionIds, lowestTransactionIdAt } from '#idempay/payments/values/transaction-id.js';
import { patience } from '../time/patience.js';

/** A lease or a life that no test outlives, however slow the machine. */
export const LONG_MS = 600_000;
/** A lease or a life that is over when it is looked at, after `pass`. Nothing may need it before, because a busy machine may come too late. */
export const SHORT_MS = patience(50);
/** The life of what is used before it expires, also on a slow machine, and again afterwards. */
export const SHORT_LIFE_MS = patience(500);
export const DECLINED = { state: 'DECLINED', reason: 'no funds' } as const satisfies Outcome;

export const newKey = generateIdempotencyKey;
export const newKeyOf = (msecs: number): string => uuidV7({ msecs });
export const newTransactionId = createTransactionIds(Date.now);
/** One of the first microsecond of this millisecond. */
export const newTransactionIdOf = (ms: number): string =>
  lowestTransactionIdAt(ms).replace(/0{6}$/, String(randomInt(1_000_000)).padStart(6, '0'));
export const newReference = (): string => `order-${randomUUID()}`;
export const newOwner = (): string => `owner-${randomUUID()}`;
/** A name that no other test uses, so that abandoned payments of other tests are out of sight. */
export const newProcessorName = (): string => `processor-${randomUUID()}`;

export function inState<A extends { readonly state: string }, S extends A['state']>(
  answer: A,
  state: S,
): Extract<A, { readonly state: S }> {
  if (answer.state !== state) throw new Error(`answered '${answer.state}' instead of '${state}'`);
  return answer as Extract<A, { readonly state: S }>;
}

export function claimAttempt(members: Partial<ClaimAttempt> = {}): ClaimAttempt {
  const money = { amount: members.amount ?? '100.50', currency: members.currency ?? 'USD' };
  return {
    key: newKey(),
    owner: newOwner(),
    transactionId: newTransactionId(),
    fingerprint: fingerprintOf(money),
    processor: 'test',
    leaseMs: LONG_MS,
    claimBy: performance.now() + LONG_MS,
    waitAfterLossMs: 0,
    ...money,
    ...members,
  };
}

/** The fields of an attempt at a reference that a claim, or a cancellation, has. */
export interface TurnMembers {
  readonly key: string;
  readonly client: string | undefined;
  readonly turn: Turn;
  readonly waitAfterLossMs: number;
}

/** Makes them with the keys that the deployment with this id computes. */
export function turnsOf(deploymentId: string) {
  const computeKey = createComputeKey(deploymentId);
  return (
    text: string,
    attempt = 1,
    {
      client,
      lateMs,
      waitAfterLossMs = 0,
    }: Partial<Pick<TurnMembers, 'client' | 'waitAfterLossMs'> & Pick<Turn, 'lateMs'>> = {},
  ): TurnMembers => {
    const reference = { text, attempt, client };
    const previousKey = attempt > 1 ? computeKey({ ...reference, attempt: attempt - 1 }) : undefined;
    return { key: computeKey(reference), client, turn: { reference, previousKey, lateMs }, waitAfterLossMs };
  };
}

export function cancellation(members: Partial<Cancellation> = {}): Cancellation {
  return {
    key: newKey(),
    owner: newOwner(),
    transactionId: newTransactionId(),
    claimBy: performance.now() + LONG_MS,
    processor: 'test',
    idempotencyTtlMs: LONG_MS,
    isLookedUp: false,
    waitAfterLossMs: 0,
    ...members,
  };
}

export async function givenClaim(ledger: Ledger, members: Partial<ClaimAttempt> = {}): Promise<Claim> {
  return inState(await ledger.claim(claimAttempt(members)), 'claimed').claim;
}

export const completed = ({ transactionId }: Pick<Claim, 'transactionId'>): Outcome => ({
  state: 'COMPLETED',
  transactionId,
});

export async function givenSettled(
  ledger: Ledger,
  claim: Claim,
  { outcome = completed(claim), ttlMs = LONG_MS }: { outcome?: Outcome; ttlMs?: number } = {},
): Promise<FinalOutcome> {
  return inState(await ledger.settle(claim, outcome, ttlMs), 'settled').final;
}
