import type { Clock } from '../platform/clock.js';
import { createAnswers, type PayAnswer } from './answers.js';
import { createBegin } from './begin.js';
import { type CancelPayment, createCancelPayment } from './cancel.js';
import { createClaims, type PaymentRules } from './claim.js';
import type { Endings } from './endings.js';
import type { CarryOut } from './execution.js';
import { createTellCharge, type TellCharge } from './history/charge.js';
import { createIssueComputedKey, type IssueComputedKey } from './issue.js';
import type { LookUpNext } from './lost-attempts.js';
import { createNewestOutcome, createOutcomes, type NewestOutcome } from './outcomes.js';
import { createPayPatiently } from './patience.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { KeyStore } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { PaymentHistory } from './ports/payment-history.js';
import type { Processor } from './ports/processor.js';
import { createRefuseContent } from './refused-content.js';
import { createTurnOf } from './turn.js';
import type { PaymentRequest } from './values/money.js';
import type { Claim, FinalOutcome } from './values/payment.js';
import type { ComputeKey, NamedPayment, Reference } from './values/reference.js';
import type { Patience, Waiting } from './waiting.js';

/** The payment area of the specification: issue a key, pay with it once, ask for the outcome. */
export interface Payments {
  /** Spec 4.1, endpoint 1. The key is stored when this resolves. `client`: the owner (rule A5). */
  issueKey(client?: string): Promise<string>;
  /** The same for the key of a reference, which is computed: it is stored where a payment could use it now. */
  issueComputedKey: IssueComputedKey;
  computeKey: ComputeKey;
  /**
   * Spec 4.1, endpoint 2, rules 2 to 5. With patience, a duplicate of a payment under way waits for its end before it is answered as
   * in progress. A key of another client than the one that asks is one that was never issued.
   */
  pay(named: NamedPayment, request: PaymentRequest, patience?: Patience): Promise<PayAnswer>;
  /** Spec 4.1, endpoint 3: the outcome, or undefined while there is none, or none that is the client's. */
  outcome(key: string, client?: string): Promise<FinalOutcome | undefined>;
  /** The outcome of the newest attempt at a reference, with its key. `first`: names the first attempt. */
  newestOutcome(first: NamedPayment & { readonly reference: Reference }): Promise<NewestOutcome>;
  cancel: CancelPayment;
  /** Whether what is named was charged, as far as the rows say. */
  tellCharge: TellCharge;
}

export function createPayments(collaborators: {
  keys: KeyStore;
  endings: Endings;
  ledger: Ledger;
  processor: Processor;
  carryOut: CarryOut;
  lookUpNext: LookUpNext;
  history: Pick<PaymentHistory, 'find' | 'newestAttempt'>;
  computeKey: ComputeKey;
  rules: PaymentRules & { readonly retentionMs?: number | undefined };
  clock: Clock;
  newKey: () => string;
  newTransactionId: () => string;
  newOwner: () => string;
  waiting: Waiting;
  /** An attempt of a request ended without a known outcome. */
  onUnknown: (claim: Claim, cause: string) => void;
  counts?: Pick<PaymentCounts, 'attemptsOfRequests' | 'settled'>;
}): Payments {
  const { keys, endings, ledger, history, processor, carryOut, rules, clock, newKey, newTransactionId, newOwner } =
    collaborators;
  const { computeKey, lookUpNext, waiting, onUnknown, counts = createPaymentCounts() } = collaborators;
  const { idempotencyTtlMs, leaseMs, payloadMismatch } = rules;
  const turnOf = createTurnOf(computeKey, rules);
  const { typicalMs } = processor.traits;
  const answers = createAnswers({ ledger, history, leaseMs, payloadMismatch, computeKey, typicalMs });
  const claims = createClaims({
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
    counts,
  });
  const begin = createBegin({ keys, endings, ledger, answers, claims, leaseMs, idempotencyTtlMs, clock, newOwner });
  const refuseContent = createRefuseContent({ keys, ledger, answers, claims, clock, newOwner });
  const payPatiently = createPayPatiently(waiting, answers, payAtOnce);

  const outcome = createOutcomes(keys, ledger);

  function payAtOnce(named: NamedPayment, request: PaymentRequest): Promise<PayAnswer> {
    return 'problem' in request ? refuseContent(named, request) : begin(named, request);
  }

  return {
    async issueKey(client) {
      const key = newKey();
      await keys.issue(key, idempotencyTtlMs, { client });
      return key;
    },
    issueComputedKey: createIssueComputedKey({ keys, endings, ledger, turnOf, idempotencyTtlMs }),
    computeKey,
    pay: (named, request, patience) => (patience ? payPatiently(named, request, patience) : payAtOnce(named, request)),
    outcome,
    newestOutcome: createNewestOutcome(outcome, history),
    tellCharge: createTellCharge({ history, ledger, computeKey }),
    cancel: createCancelPayment({
      keys,
      endings,
      ledger,
      processor,
      lookUpNext,
      turnOf,
      rules,
      newOwner,
      newTransactionId,
    }),
  };
}
