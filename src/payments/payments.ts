import type { Clock } from '../platform/clock.js';
import type { NowOrLater } from '../platform/now-or-later.js';
import { createAnswers, type PayAnswer } from './answers.js';
import type { CarryOut } from './attempt.js';
import { createBegin } from './begin.js';
import { createClaims, type PaymentRules } from './claim.js';
import type { Endings } from './endings.js';
import { createOutcomes } from './outcomes.js';
import { createPayPatiently } from './patience.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { KeyStore } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { Processor } from './ports/processor.js';
import { createRefuseContent } from './refused-content.js';
import type { PaymentRequest } from './values/money.js';
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
  const { keys, endings, ledger, processor, carryOut, rules, clock, newKey, newTransactionId, newOwner } =
    collaborators;
  const { waiting, onUnknown, counts = createPaymentCounts() } = collaborators;
  const { idempotencyTtlMs, leaseMs, payloadMismatch } = rules;
  const answers = createAnswers({ ledger, leaseMs, payloadMismatch, typicalMs: processor.traits.typicalMs });
  const claims = createClaims({
    endings,
    ledger,
    processor,
    carryOut,
    answers,
    rules,
    clock,
    newTransactionId,
    onUnknown,
    counts,
  });
  const begin = createBegin({ keys, endings, ledger, answers, claims, leaseMs, clock, newOwner });
  const refuseContent = createRefuseContent({ keys, ledger, answers, claims, clock, newOwner });
  const payPatiently = createPayPatiently(waiting, answers, payAtOnce);

  function payAtOnce(key: string, request: PaymentRequest, client: string | undefined): NowOrLater<PayAnswer> {
    return 'problem' in request ? refuseContent(key, request, client) : begin(key, request, client);
  }

  return {
    async issueKey(client) {
      const key = newKey();
      await keys.issue(key, idempotencyTtlMs, client);
      return key;
    },
    pay: (key, request, patience, client) =>
      patience ? payPatiently(key, request, patience, client) : payAtOnce(key, request, client),
    outcome: createOutcomes(keys, ledger),
  };
}
