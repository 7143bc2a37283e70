import { decimalText, minorUnits } from './amounts.ts';
import type { Refund, RefundQuestion } from './content.ts';
import type { Intents } from './intents.ts';
import {
  type Answer,
  atWork,
  declined,
  isFinal,
  outcomeOfRefundRefusal,
  type PaymentIntent,
  unclear,
  wrongSetUp,
} from './outcomes.ts';
import { createQuiet } from './quiet.ts';
import { REFERENCE } from './search.ts';
import type { Parameters, Reply, Stripe } from './stripe.ts';

export interface RefundSettings {
  /** As for charges. */
  readonly timeoutMs: number;
  readonly settleMs: number;
  /** The adapter reads at most this many pages of the refunds of one charge. */
  readonly pages: number;
}

/** A refund of Stripe. */
interface StripeRefund {
  readonly id: string;
  readonly status: string | null;
  readonly amount: number;
  readonly currency: string;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly failure_reason?: string | null;
  readonly metadata?: Readonly<Record<string, string>> | null;
}

type Read =
  | { readonly state: 'read'; readonly refunds: readonly StripeRefund[] }
  | { readonly state: 'unclear'; readonly cause: string };

export interface Refunds {
  refund(refund: Refund): Promise<Answer>;
  /** `id` is the refund's, if Idempay knows it. */
  lookUp(question: RefundQuestion): Promise<Answer>;
}

const PAGE = 100;
/** Stripe does not say when a refund will have arrived; banks take up to ten working days. */
const PENDING_MS = 14 * 86_400_000;

/**
 * Refunds of the third contract. Stripe forgets an idempotency key after 24 hours, and Idempay may send a refund again long after that: so
 * the refunds of the charge are searched for Idempay's reference before one is made. Stripe's list of them is up to date.
 */
export function createRefunds(stripe: Stripe, intents: Intents, settings: RefundSettings): Refunds {
  const { timeoutMs, settleMs, pages } = settings;
  const quiet = createQuiet();

  return {
    /** Two sends at once have the same key at Stripe, and the same parameters. So Stripe makes one of them. */
    async refund(refund) {
      const { reference, charge, id, amount, currency } = refund;
      const money = minorUnits(amount, currency);
      if ('problem' in money) return declined(money.problem);
      const deadline = AbortSignal.timeout(timeoutMs);
      return quiet.during(reference, async () => {
        const found = await intents.find(charge, id, deadline);
        if (found.state === 'foreign') return wrongSetUp(found.cause);
        if (found.state === 'unclear') return unclear(504, found.cause);
        if (found.state === 'missing') return found.everywhere ? declined(NO_CHARGE) : unclear(504, NOT_FOUND);
        return ofIntent(refund, found.intent, money.units, deadline);
      });
    },

    /** 404 says: this refund will not be made unless it is sent again. As for a charge, no request for it may be under way. */
    async lookUp({ reference, charge, id }) {
      if (quiet.isUnderWay(reference)) return atWork;
      const askedAt = performance.now();
      const deadline = AbortSignal.timeout(timeoutMs);
      if (id !== undefined) return answered(await read(id, reference, deadline));
      const made = await refundsOfCharge(charge, deadline);
      if (made.state === 'unclear') return unclear(504, made.cause);
      const known = made.refunds.find((each) => isOf(each, reference));
      if (known) {
        quiet.forget(reference);
        return answered(outcomeOf(known));
      }
      const certainAt = quiet.since(reference) + settleMs;
      if (quiet.isUnderWay(reference)) return atWork;
      if (askedAt < certainAt) return unclear(425, 'not found, and not certain yet');
      return { status: 404, body: { error: 'no refund with this reference' } };
    },
  };

  async function ofIntent(
    refund: Refund,
    intent: PaymentIntent,
    units: number,
    deadline: AbortSignal,
  ): Promise<Answer> {
    const { reference, currency } = refund;
    const made = await refundsOf(intent, deadline);
    if (made.state === 'unclear') return unclear(504, made.cause);
    const known = made.refunds.find((each) => isOf(each, reference));
    if (known) return outcomeOf(known);
    const refusal = refusalOf(intent, made.refunds, units, currency);
    if (refusal) return refusal;
    const parameters = refundParameters(refund, intent, units);
    const reply = await intents.throughRateLimit(
      () => stripe.post('/v1/refunds', parameters, reference, deadline),
      deadline,
    );
    const created = refundIn(reply);
    // The reply may be the first one to the key, and old.
    return created ? read(created.id, reference, deadline) : outcomeOfRefundRefusal(reply);
  }

  /** None if there is no such charge. */
  async function refundsOfCharge(charge: string, deadline: AbortSignal): Promise<Read> {
    const found = await intents.find(charge, undefined, deadline);
    if (found.state === 'found') return refundsOf(found.intent, deadline);
    if (found.state !== 'missing') return { state: 'unclear', cause: found.cause };
    return found.everywhere ? { state: 'read', refunds: [] } : { state: 'unclear', cause: NOT_FOUND };
  }

  /** All refunds of a charge: one that is not seen would be made again. */
  async function refundsOf({ id }: PaymentIntent, deadline: AbortSignal): Promise<Read> {
    const refunds: StripeRefund[] = [];
    let after: Parameters = {};
    for (let page = 0; page < pages; page += 1) {
      const reply = await stripe.get('/v1/refunds', { payment_intent: id, limit: `${PAGE}`, ...after }, deadline);
      if (reply.state === 'lost') return { state: 'unclear', cause: `no answer of Stripe: ${reply.cause}` };
      const { data, has_more } = reply.body;
      if (reply.status !== 200 || !Array.isArray(data)) {
        return { state: 'unclear', cause: `Stripe answered ${reply.status}` };
      }
      refunds.push(...(data as StripeRefund[]));
      const last = refunds.at(-1);
      if (has_more !== true || !last) return { state: 'read', refunds };
      after = { starting_after: last.id };
    }
    return { state: 'unclear', cause: 'the charge has more refunds than LIST_PAGES reads' };
  }

  async function read(id: string, reference: string, deadline: AbortSignal): Promise<Answer> {
    const reply = await stripe.get(`/v1/refunds/${id}`, {}, deadline);
    if (reply.state === 'lost') return unclear(504, `no answer of Stripe: ${reply.cause}`);
    if (reply.status === 404) return wrongSetUp(`this account of Stripe has no ${id}`);
    const refund = refundIn(reply);
    if (!refund) return unclear(502, `Stripe answered ${reply.status}`);
    return isOf(refund, reference) ? outcomeOf(refund) : wrongSetUp(`${id} is of another refund`);
  }
}

const NO_CHARGE = 'Stripe has no charge with this reference';
const NOT_FOUND = 'the charge was not found, and not everything was searched';

const isOf = ({ metadata }: StripeRefund, reference: string) => metadata?.[REFERENCE] === reference;

/** Stripe gives back no more than this either. It says so in an error without a code, which could mean something else. */
function refusalOf(
  intent: PaymentIntent,
  made: readonly StripeRefund[],
  units: number,
  currency: string,
): Answer | undefined {
  if (intent.status !== 'succeeded') return isFinal(intent) ? declined('the charge has not succeeded') : atWork;
  if (intent.currency.toUpperCase() !== currency) return declined(`the charge is in ${intent.currency.toUpperCase()}`);
  const given = made.filter(({ status }) => !isOver(status)).reduce((sum, { amount }) => sum + amount, 0);
  return units > intent.amount - given ? declined('more than is left of the charge') : undefined;
}

/** The reason of the shop goes into the metadata: Stripe's own `reason` takes three words only. */
function refundParameters(refund: Refund, { id }: PaymentIntent, units: number): Parameters {
  const { reference, transactionId, reason } = refund;
  return {
    payment_intent: id,
    amount: `${units}`,
    [`metadata[${REFERENCE}]`]: reference,
    'metadata[idempay_transaction]': transactionId,
    ...(reason !== undefined && { 'metadata[idempay_reason]': reason }),
  };
}

const isOver = (status: string | null) => status === 'failed' || status === 'canceled';

function refundIn(reply: Reply): StripeRefund | undefined {
  return reply.state === 'answered' && reply.status === 200 ? (reply.body as unknown as StripeRefund) : undefined;
}

/** As a reply to a refund. In `requires_action` Stripe waits for the payer's bank details. */
function outcomeOf({ id, status, amount, currency, created, failure_reason }: StripeRefund): Answer {
  const about = { id, amount: decimalText(amount, currency), currency };
  if (status === 'succeeded') return { status: 200, body: { status, ...about } };
  if (isOver(status)) {
    const { body } = declined(
      failure_reason ?? (status === 'canceled' ? 'the refund was cancelled' : 'the refund failed'),
    );
    return { status: 402, body: { ...body, ...about } };
  }
  if (status !== 'pending' && status !== 'requires_action') return { ...atWork, body: { ...atWork.body, ...about } };
  const until = new Date(created * 1000 + PENDING_MS).toISOString();
  return { status: 202, body: { status: 'pending', until, ...about } };
}

const answered = (answer: Answer): Answer =>
  answer.status === 402 || answer.status === 202 ? { ...answer, status: 200 } : answer;
