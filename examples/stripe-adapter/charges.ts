import { setTimeout as pause } from 'node:timers/promises';
import { minorUnits } from './amounts.ts';
import { aboutParameters, type Charge, withoutSource } from './content.ts';
import { type Answer, atWork, declined, outcomeOf, outcomeOfIntent, unclear, wrongSetUp } from './outcomes.ts';
import type { Payers } from './payers.ts';
import { findIntent } from './search.ts';
import type { Parameters, Stripe } from './stripe.ts';

export interface ChargeSettings {
  /** For one question of Idempay with everything that is asked for it: less than its `PROCESSOR_TIMEOUT_MS`. */
  readonly timeoutMs: number;
  /** From now on a request that was sent to Stripe has been carried out, or never will be. */
  readonly settleMs: number;
  /** How many pages of a list are read at most to look for one charge. */
  readonly pages: number;
}

/** Stripe's documentation: in an outage its search may be an hour behind. */
const SEARCH_LAG_MS = 3_600_000;
/** The oldest are forgotten, and wait anew. */
const MOST_QUIET = 100_000;
const RATE_LIMIT_PAUSE_MS = 250;
/** Stripe's names of payment methods. Anything else as a source is never sent there, so a decline of it is certain. */
const PAYMENT_METHOD = /^pm_\w+$/;
const NO_PAYMENT_METHOD = 'the source is no payment method of Stripe';

export interface Charges {
  charge(charge: Charge): Promise<Answer>;
  lookUp(reference: string): Promise<Answer>;
}

export function createCharges(stripe: Stripe, payers: Payers, settings: ChargeSettings): Charges {
  const { timeoutMs, settleMs, pages } = settings;
  /** Charges that this process is sending. */
  const underWay = new Map<string, number>();
  /** Since when this process knows of no request for a reference. */
  const quietSince = new Map<string, number>();

  /** Sent once, but for a rate limit: that stands before Stripe's idempotency keys, so nothing was begun. */
  async function send(parameters: Parameters, reference: string, deadline: AbortSignal): Promise<Answer> {
    for (;;) {
      const reply = await stripe.post('/v1/payment_intents', parameters, reference, deadline);
      const answer = outcomeOf(reply);
      if (answer.status !== 503) return answer;
      const isOver = await pause(RATE_LIMIT_PAUSE_MS, false, { signal: deadline }).catch(() => true);
      if (isOver) return answer;
    }
  }

  return {
    /**
     * Killed before the POST: nothing was sent. Killed after it: Stripe carries it out. Idempay looks the reference up in both cases, and
     * may send it again; for a key that it knows Stripe answers the first result.
     */
    async charge(charge) {
      const { reference, amount, currency, source } = charge;
      const money = minorUnits(amount, currency);
      if ('problem' in money) return declined(money.problem);
      if (source !== undefined && !PAYMENT_METHOD.test(source)) return declined(NO_PAYMENT_METHOD);
      const deadline = AbortSignal.timeout(timeoutMs);
      underWay.set(reference, (underWay.get(reference) ?? 0) + 1);
      try {
        const payer = await payers.of(charge, deadline).catch((fault: Error) => fault);
        // No decline: an earlier attempt may have found its payer, and be charged.
        if (payer instanceof Error) return wrongSetUp(payer.message);
        const parameters = {
          amount: `${money.units}`,
          currency: currency.toLowerCase(),
          payment_method: payer.paymentMethod,
          ...(payer.customer !== undefined && { customer: payer.customer }),
          'payment_method_types[0]': 'card',
          confirm: 'true',
          // Nobody is there to authenticate: such a card is declined.
          error_on_requires_action: 'true',
          ...aboutParameters(charge),
        };
        return withoutSource(await send(parameters, reference, deadline), source);
      } finally {
        const others = (underWay.get(reference) ?? 1) - 1;
        if (others > 0) underWay.set(reference, others);
        else underWay.delete(reference);
        quietFrom(reference);
      }
    },

    /**
     * 404 says: this reference will not be charged unless it is sent again. That is certain if Stripe's lists do not have it, and no
     * request for it can still be under way. Therefore this process has sent none for `settleMs`, and Idempay, which looks up only after
     * its own attempt has ended, asks for that long. If there are too many PaymentIntents to read, the search must have had its hour.
     */
    async lookUp(reference) {
      if (underWay.has(reference)) return atWork;
      const askedAt = performance.now();
      const found = await findIntent(stripe, reference, pages, AbortSignal.timeout(timeoutMs));
      if (found.state === 'unclear') return unclear(504, found.cause);
      if (found.state === 'found') {
        quietSince.delete(reference);
        return forLookUp(outcomeOfIntent(found.intent));
      }
      const since = quietSince.get(reference) ?? quietFrom(reference);
      const certainAt = since + (found.everywhere ? settleMs : SEARCH_LAG_MS);
      if (underWay.has(reference)) return atWork;
      if (askedAt < certainAt) return unclear(425, 'not found, and not certain yet');
      return { status: 404, body: { error: 'no charge with this reference' } };
    },
  };

  function quietFrom(reference: string): number {
    const now = performance.now();
    quietSince.delete(reference);
    quietSince.set(reference, now);
    if (quietSince.size > MOST_QUIET) quietSince.delete(quietSince.keys().next().value as string);
    return now;
  }
}

/** A look-up that finds a decline has succeeded. */
const forLookUp = (answer: Answer): Answer => (answer.status === 402 ? { ...answer, status: 200 } : answer);
