import type {
  Charge,
  ChargeResult,
  LookUpResult,
  NotSent,
  Processor,
  ProcessorTraits,
} from '#idempay/payments/ports/processor.js';

/** The processor's reaction to the next charge: the outcome that it keeps, and its visible answer. */
export interface NextCharge {
  /** `none`: the charge never arrives. `not sent`: it does not even leave, and its sender knows. */
  readonly outcome: 'succeeded' | 'declined' | 'none' | 'not sent';
  /** The answer is lost: the sender is told 'unknown', whatever the outcome is. */
  readonly answerLost?: boolean;
  readonly after?: Promise<void>;
}

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
  private readonly outcomes = new Map<string, LookUpResult>();
  private readonly plans: NextCharge[] = [];
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

  async charge(charge: Charge): Promise<ChargeResult | NotSent> {
    const { outcome, answerLost = false, after } = this.plans.shift() ?? { outcome: 'succeeded' };
    if (outcome === 'not sent') return { state: 'not sent', cause: 'no connection could be made' };
    if (outcome !== 'none') this.charges.push(charge);
    await after;
    if (outcome === 'none') return { state: 'unknown', cause: 'the charge never arrived' };
    const result = outcome === 'succeeded' ? { state: outcome } : { state: outcome, reason: 'insufficient funds' };
    const { amount, currency } = charge;
    const charged = outcome === 'succeeded' && this.tellsAmounts ? { charged: { amount, currency } } : {};
    this.outcomes.set(charge.key, { ...result, ...charged });
    return answerLost ? { state: 'unknown', cause: 'the answer was lost' } : result;
  }

  async lookUp(key: string): Promise<LookUpResult> {
    this.lookUps.push(key);
    const planned = this.lookUpPlans.shift();
    if (typeof planned === 'function') return planned();
    return planned ?? this.outcomes.get(key) ?? { state: 'no record' };
  }

  chargesOf(key: string): Charge[] {
    return this.charges.filter((charge) => charge.key === key);
  }
}
