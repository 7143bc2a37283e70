import {
  type Action,
  type Charge,
  type ChargeResult,
  CONTRACT_OF_ENDINGS,
  type Ending,
  type EndResult,
  type LookUpResult,
  type NotSent,
  type OpenCharge,
  type Processor,
  type ProcessorTraits,
  type Refund,
  type RefundResult,
} from '#idempay/payments/ports/processor.js';
import { fingerprintOf, type Money } from '#idempay/payments/values/money.js';

/** The processor's reaction to the next charge: the outcome that it keeps, and its visible answer. */
export interface NextCharge {
  /** `none`: the charge never arrives. `not sent`: it does not even leave, and its sender knows. */
  readonly outcome: 'succeeded' | 'declined' | 'pending' | 'none' | 'not sent';
  /** The answer is lost: the sender is told 'unknown', whatever the outcome is. */
  readonly answerLost?: boolean;
  readonly after?: Promise<void>;
}

export const ACTION: Action = { url: 'https://bank.example/confirm' };
const NO_CONTRACT = { state: 'unknown', cause: 'the reply names no contract' } as const;
/** A time that ends long after the test. */
const PENDING_MS = 3_600_000;

/** Short, because each lease outlives it. A test of what the time-out decides has one of its own. */
const TIMEOUT_MS = 5;

/**
 * A processor that a test controls. It moves money each time it is asked to, and remembers that. It does not deduplicate, so
 * that a second charge with one key is detected.
 */
export class RecordingProcessor implements Processor {
  readonly traits: ProcessorTraits;
  readonly charges: Charge[] = [];
  readonly lookUps: string[] = [];
  /** The same, with what each one named besides the key. */
  readonly questions: {
    readonly key: string;
    readonly money?: Money | undefined;
    readonly open?: OpenCharge | undefined;
  }[] = [];
  readonly endings: Ending[] = [];
  readonly refunds: Refund[] = [];
  readonly refundLookUps: { readonly key: string; readonly payment: string; readonly id?: string | undefined }[] = [];
  contract = CONTRACT_OF_ENDINGS;
  private readonly endPlans: (EndResult | (() => Promise<EndResult>))[] = [];
  private readonly ended = new Set<string>();
  private readonly outcomes = new Map<string, LookUpResult>();
  private readonly plans: NextCharge[] = [];
  private readonly refundOutcomes = new Map<string, LookUpResult>();
  private readonly refundPlans: NextCharge[] = [];
  private readonly refundLookUpPlans: (LookUpResult | (() => Promise<LookUpResult>))[] = [];
  private readonly lookUpPlans: (LookUpResult | (() => Promise<LookUpResult>))[] = [];

  /** True if a look-up names the amount that was charged. */
  tellsAmounts = true;

  constructor(
    name: string,
    dedupMs = Number.POSITIVE_INFINITY,
    timeoutMs = TIMEOUT_MS,
    formerNames: readonly string[] = [],
  ) {
    this.traits = { name, formerNames, typicalMs: 0, timeoutMs, dedupMs };
  }

  plan(...charges: NextCharge[]): void {
    this.plans.push(...charges);
  }

  planLookUp(...answers: (LookUpResult | (() => Promise<LookUpResult>))[]): void {
    this.lookUpPlans.push(...answers);
  }

  planEnd(...answers: (EndResult | (() => Promise<EndResult>))[]): void {
    this.endPlans.push(...answers);
  }

  planRefund(...refunds: NextCharge[]): void {
    this.refundPlans.push(...refunds);
  }

  planRefundLookUp(...answers: (LookUpResult | (() => Promise<LookUpResult>))[]): void {
    this.refundLookUpPlans.push(...answers);
  }

  /** Decides a pending refund. */
  decideRefund(key: string, outcome: LookUpResult): void {
    this.refundOutcomes.set(key, outcome);
  }

  /** Decides a pending charge, which its payer has confirmed or refused. */
  decide(key: string, outcome: LookUpResult): void {
    this.outcomes.set(key, outcome);
  }

  async charge(charge: Charge): Promise<ChargeResult | NotSent> {
    const { outcome, answerLost = false, after } = this.plans.shift() ?? { outcome: 'succeeded' };
    if (outcome === 'not sent') return { state: 'not sent', cause: 'no connection could be made' };
    if (outcome !== 'none') {
      if (this.ended.has(charge.key)) return { state: 'declined', reason: 'ended' };
      this.charges.push(charge);
    }
    await after;
    if (outcome === 'none') return { state: 'unknown', cause: 'the charge never arrived' };
    const result = this.resultOf(outcome);
    const { amount, currency } = charge;
    const charged = outcome !== 'declined' && this.tellsAmounts ? { charged: { amount, currency } } : {};
    this.outcomes.set(charge.key, { ...result, ...charged } as LookUpResult);
    return answerLost ? { state: 'unknown', cause: 'the answer was lost' } : result;
  }

  private resultOf(outcome: 'succeeded' | 'declined' | 'pending'): Exclude<ChargeResult, { state: 'unknown' }> {
    if (outcome === 'pending') {
      return { state: outcome, untilMs: Date.now() + PENDING_MS, action: ACTION, id: 'pi_1' };
    }
    return outcome === 'succeeded' ? { state: outcome } : { state: outcome, reason: 'insufficient funds' };
  }

  async end(ending: Ending, money?: Money): Promise<EndResult> {
    this.endings.push(ending);
    const planned = this.endPlans.shift();
    if (planned) return typeof planned === 'function' ? planned() : planned;
    const known = this.outcomes.get(ending.key);
    const charged = known && 'charged' in known ? known.charged : undefined;
    if (money && charged && charged.amount !== money.amount) return { state: 'unknown', cause: 'of another amount' };
    if (known?.state === 'succeeded' || known?.state === 'declined') return known;
    const ended = { state: 'declined', reason: 'ended' } as const;
    this.ended.add(ending.key);
    this.outcomes.set(ending.key, ended);
    return ended;
  }

  async lookUp(key: string, money?: Money, open?: OpenCharge): Promise<LookUpResult> {
    this.lookUps.push(key);
    this.questions.push({ key, money, open });
    if (open && this.contract < CONTRACT_OF_ENDINGS) return NO_CONTRACT;
    const planned = this.lookUpPlans.shift();
    if (typeof planned === 'function') return planned();
    return ofMoney(planned ?? this.outcomes.get(key) ?? { state: 'no record' }, money);
  }

  /** Gives back each time that it is asked to, as `charge` charges each time. An adapter of an earlier contract gives nothing back. */
  async refund(refund: Refund): Promise<RefundResult | NotSent> {
    const { outcome, answerLost = false, after } = this.refundPlans.shift() ?? { outcome: 'succeeded' };
    if (outcome === 'not sent') return { state: 'not sent', cause: 'no connection could be made' };
    if (this.contract < CONTRACT_OF_ENDINGS) return NO_CONTRACT;
    if (outcome !== 'none') this.refunds.push(refund);
    await after;
    if (outcome === 'none') return { state: 'unknown', cause: 'the refund never arrived' };
    const result = this.refundResultOf(outcome);
    const { amount, currency } = refund;
    const charged = outcome !== 'declined' && this.tellsAmounts ? { charged: { amount, currency } } : {};
    this.refundOutcomes.set(refund.key, { ...result, ...charged } as LookUpResult);
    return answerLost ? { state: 'unknown', cause: 'the answer was lost' } : result;
  }

  private refundResultOf(outcome: 'succeeded' | 'declined' | 'pending'): RefundResult {
    if (outcome === 'pending') return { state: outcome, untilMs: Date.now() + PENDING_MS, id: 're_1' };
    return outcome === 'succeeded' ? { state: outcome, id: 're_1' } : { state: outcome, reason: 'the card was closed' };
  }

  async lookUpRefund(key: string, payment: string, money?: Money, open?: OpenCharge): Promise<LookUpResult> {
    this.refundLookUps.push({ key, payment, id: open?.id });
    if (this.contract < CONTRACT_OF_ENDINGS) return NO_CONTRACT;
    const planned = this.refundLookUpPlans.shift();
    if (typeof planned === 'function') return planned();
    return ofMoney(planned ?? this.refundOutcomes.get(key) ?? { state: 'no record' }, money);
  }

  chargesOf(key: string): Charge[] {
    return this.charges.filter((charge) => charge.key === key);
  }

  refundsOf(key: string): Refund[] {
    return this.refunds.filter((refund) => refund.key === key);
  }
}

/** A reply that names other money than was asked about is not believed. */
function ofMoney(known: LookUpResult, money: Money | undefined): LookUpResult {
  const charged = 'charged' in known ? known.charged : undefined;
  const isOther = money && charged && fingerprintOf(money) !== fingerprintOf(charged);
  return isOther ? { state: 'unknown', cause: 'the reply names another amount' } : known;
}
