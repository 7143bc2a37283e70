import type { PaymentLife } from '../ports/payment-history.js';
import { shownProcessor } from '../processors/processor-url.js';

/** What happens next with a payment. */
export interface NextStep {
  readonly what: 'pay' | 'under way' | 'recovery' | 'operator' | 'replayed' | 'superseded' | 'expired' | 'cancelled';
  /** Until or from when, as the text says; milliseconds since the epoch. Undefined where it is not known. */
  readonly at?: number | undefined;
  /** From when on the service accepts a resolution of a payment that is PROCESSING; milliseconds since the epoch. Undefined if it never will. */
  readonly resolvableAt?: number | undefined;
  /** One plain sentence, with the moment in it: it is read alone, too. */
  readonly text: string;
}

export interface TimelineRules {
  /** The names of this service's processor: only its payments are taken over here. */
  readonly processors: readonly string[];
  /** From this age on a payment that may have been sent is an operator's to resolve. */
  readonly dedupMs: number;
  /** The same of one that was surely never sent. */
  readonly idempotencyTtlMs: number;
}

/** `until` is undefined for the key of a reference, with which it can be paid at any time. */
export const pay = (until: number | undefined): NextStep => ({
  what: 'pay',
  at: until,
  text:
    until === undefined
      ? 'It can be paid, by its reference at any time.'
      : `The key is issued, and can be paid with until ${isoOf(until)}.`,
});

const isoOf = (ms: number) => new Date(ms).toISOString();

export const underWay = (until: number, resolvableAt?: number): NextStep => ({
  what: 'under way',
  at: until,
  resolvableAt,
  text: 'An execution is at work; another one may take the payment over when its lease has ended without an outcome.',
});

/** `client` is undefined for those who see all payments. `newest`: the newest attempt at its reference, if it has one. */
export function nextOf(
  life: PaymentLife,
  rules: TimelineRules,
  client: string | undefined,
  newest: number | undefined,
): NextStep {
  const { payment, now } = life;
  if (payment.state !== 'PROCESSING') return endOf(life, newest);
  const operatorFrom = operatorFromOf(life, rules);
  if (life.leaseUntil > now) return underWay(life.leaseUntil, Math.max(life.leaseUntil, operatorFrom));
  const isOurs = rules.processors.includes(payment.processor);
  if (operatorFrom <= now) {
    return {
      what: 'operator',
      at: operatorFrom,
      resolvableAt: operatorFrom,
      text: isOurs
        ? `An operator may resolve it since ${isoOf(operatorFrom)}. Recovery still looks it up at the processor.`
        : `An operator may resolve it since ${isoOf(operatorFrom)}; only a service with the processor ${shownProcessor(payment.processor, client)} looks it up.`,
    };
  }
  if (!isOurs) {
    return {
      what: 'recovery',
      resolvableAt: operatorFrom,
      text: `Only a service with the processor ${shownProcessor(payment.processor, client)} can continue it.`,
    };
  }
  const operator = Number.isFinite(operatorFrom)
    ? `, and an operator may resolve it from ${isoOf(operatorFrom)} on`
    : '';
  return {
    what: 'recovery',
    at: life.recoverAt,
    resolvableAt: operatorFrom,
    text: `Recovery asks the processor again at ${isoOf(life.recoverAt)}, a repeat with its key at once${operator}.`,
  };
}

/** What a repeat gets of a payment that has ended. */
function endOf({ payment, now, expiresAt }: PaymentLife, newest: number | undefined): NextStep {
  const { state, reference, attempt } = payment;
  if (state === 'CANCELLED') return { what: 'cancelled', text: 'It is closed: no charge will be sent for it.' };
  if (attempt !== undefined && newest !== undefined && newest > attempt) {
    return {
      what: 'superseded',
      text: `It is final, and attempt ${newest} was made after it: a repeat of attempt ${attempt} is refused.`,
    };
  }
  if (reference !== undefined) {
    const asLong = state === 'DECLINED' ? 'until a later attempt is made' : 'for as long as it is kept';
    return {
      what: 'replayed',
      text: `It is final: a repeat with its reference and attempt gets this outcome ${asLong}.`,
    };
  }
  return expiresAt !== undefined && expiresAt > now
    ? {
        what: 'replayed',
        at: expiresAt,
        text: `It is final: a repeat with its key gets this outcome again until ${isoOf(expiresAt)}.`,
      }
    : { what: 'expired', at: expiresAt, text: 'It is final, and its key has expired: a repeat is refused.' };
}

/** As the ledger judges a resolution. */
function operatorFromOf(life: PaymentLife, { idempotencyTtlMs, dedupMs }: TimelineRules): number {
  if (life.chargedUnknownAmount) return life.resolutionCountsFrom;
  return life.resolutionCountsFrom + (life.unsent ? idempotencyTtlMs : dedupMs);
}
