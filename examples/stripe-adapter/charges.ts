import { minorUnits } from './amounts.ts';
import { type Charge, chargeParameters, type Ending, endingParameters, withoutSecrets } from './content.ts';
import type { Intents } from './intents.ts';
import {
  type Answer,
  atWork,
  declined,
  intentIn,
  isOfAnotherRequest,
  outcomeOfRefusal,
  unclear,
  wrongSetUp,
} from './outcomes.ts';
import type { Payers } from './payers.ts';
import { createQuiet } from './quiet.ts';
import { foundIf } from './search.ts';

export interface ChargeSettings {
  /** For one question of Idempay with everything that is asked for it: less than its `PROCESSOR_TIMEOUT_MS`. */
  readonly timeoutMs: number;
  /** From now on a request that was sent to Stripe has been carried out, or never will be. */
  readonly settleMs: number;
}

/** Stripe's documentation: in an outage its search may be an hour behind. */
const SEARCH_LAG_MS = 3_600_000;
/** Stripe's names of payment methods. Anything else as a source is never sent there, so a decline of it is certain. */
const PAYMENT_METHOD = /^pm_\w+$/;
const NO_PAYMENT_METHOD = 'the source is no payment method of Stripe';

export interface Charges {
  charge(charge: Charge): Promise<Answer>;
  /** `id` is the PaymentIntent's, if Idempay knows it. */
  lookUp(reference: string, id: string | undefined): Promise<Answer>;
  end(ending: Ending): Promise<Answer>;
}

export function createCharges(intents: Intents, payers: Payers, { timeoutMs, settleMs }: ChargeSettings): Charges {
  const quiet = createQuiet();

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
      return quiet.during(reference, async () => {
        const payer = await payers.of(charge, deadline).catch((fault: Error) => fault);
        // No decline: an earlier attempt may have found its payer, and be charged.
        if (payer instanceof Error) return wrongSetUp(payer.message);
        const reply = await intents.create(chargeParameters(charge, money.units, payer), reference, deadline);
        return withoutSecrets(await intents.outcomeOf(reply, reference, deadline), charge);
      });
    },

    /**
     * 404 says: this reference will not be charged unless it is sent again. That is certain if Stripe's lists do not have it, and no
     * request for it can still be under way. Therefore this process has sent none for `settleMs`, and Idempay, which looks up only after
     * its own attempt has ended, asks for that long. If there are too many PaymentIntents to read, the search must have had its hour.
     */
    async lookUp(reference, id) {
      if (quiet.isUnderWay(reference)) return atWork;
      const askedAt = performance.now();
      const deadline = AbortSignal.timeout(timeoutMs);
      const found = await intents.find(reference, id, deadline);
      if (found.state === 'unclear') return unclear(504, found.cause);
      if (found.state === 'foreign') return wrongSetUp(found.cause);
      if (found.state === 'found') {
        quiet.forget(reference);
        return answered(await intents.settled(found.intent, deadline));
      }
      const certainAt = quiet.since(reference) + (found.everywhere ? settleMs : SEARCH_LAG_MS);
      if (quiet.isUnderWay(reference)) return atWork;
      if (askedAt < certainAt) return unclear(425, 'not found, and not certain yet');
      return { status: 404, body: { error: 'no charge with this reference' } };
    },

    /**
     * Cancels a PaymentIntent that exists. If there is none, a charge may still arrive: at this adapter, at another instance, or at Stripe.
     * So the ending takes the charge's key at Stripe, with a PaymentIntent that cannot be paid. Stripe carries out only the first of two
     * requests with one key, even if the processes that sent them die.
     */
    async end({ reference, transactionId, amount, currency, id }) {
      const money = minorUnits(amount, currency);
      // Such a charge was never sent, and never will be.
      if ('problem' in money) return answered(declined(money.problem));
      const deadline = AbortSignal.timeout(timeoutMs);
      const found = await intents.find(reference, id, deadline);
      if (found.state !== 'missing') return answered(await intents.ended(found, deadline));
      const parameters = endingParameters({ reference, transactionId, currency }, money.units);
      const reply = await intents.create(parameters, reference, deadline);
      const intent = intentIn(reply);
      if (intent) return answered(await intents.ended(foundIf(intent, reference), deadline));
      // The charge came first: it exists now, or Stripe keeps a fault with its key.
      if (isOfAnotherRequest(reply)) {
        return answered(await intents.ended(await intents.find(reference, undefined, deadline), deadline));
      }
      const refused = outcomeOfRefusal(reply);
      return refused.status === 402 || refused.status === 422 ? answered(refused) : { ...refused, status: 425 };
    },
  };
}

/** The status of an answer to a look-up or an ending, which succeeds if it finds a decline, or a payment that waits. */
const answered = (answer: Answer): Answer =>
  answer.status === 402 || answer.status === 202 ? { ...answer, status: 200 } : answer;
