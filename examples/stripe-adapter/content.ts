import { ACTION, type Answer, CLIENT_SECRET, ENDING } from './outcomes.ts';
import type { Payer } from './payers.ts';
import { REFERENCE } from './search.ts';
import type { Parameters } from './stripe.ts';

/** A charge of the third contract. The same members come with every send of a payment, so Stripe gets the same parameters. */
export interface Charge {
  /** Idempay's key, and Stripe's. */
  readonly reference: string;
  readonly transactionId: string;
  readonly amount: string;
  readonly currency: string;
  /** The payment method of Stripe that the payer's browser got there. No log has it. */
  readonly source?: string;
  readonly description?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly order?: string;
  /** A payer is present: Stripe sends the browser there after the bank's page. No log has it. */
  readonly returnUrl?: string;
}

/** An ending of the third contract. `id` is the name that this adapter gave the charge in an earlier reply. */
export interface Ending {
  readonly reference: string;
  readonly transactionId: string;
  readonly amount: string;
  readonly currency: string;
  readonly id?: string | undefined;
}

/** A refund of the third contract. `charge` is the reference of the charge, and `id` the name that this adapter gave it. */
export interface Refund extends Ending {
  readonly charge: string;
  readonly reason?: string;
}

/** A look-up of a refund. `id` is the name that this adapter gave the refund. */
export interface RefundQuestion {
  readonly reference: string;
  readonly charge: string;
  readonly id?: string | undefined;
}

const isText = (member: unknown) => typeof member === 'string';
const isTextOrAbsent = (member: unknown) => member === undefined || isText(member);

/** Undefined if the body is no charge. Members that Idempay may add later are ignored. */
export function readCharge(reference: unknown, body: Readonly<Record<string, unknown>>): Charge | undefined {
  const { transactionId, amount, currency, source, description, metadata, order, returnUrl } = body;
  const isCharge =
    [reference, transactionId, amount, currency].every(isText) &&
    [source, description, order, returnUrl].every(isTextOrAbsent) &&
    (metadata === undefined ||
      (typeof metadata === 'object' && metadata !== null && Object.values(metadata).every(isText)));
  if (!isCharge) return undefined;
  return { reference, transactionId, amount, currency, source, description, metadata, order, returnUrl } as Charge;
}

/** Undefined if the body is no ending. */
export function readEnding(reference: string, body: Readonly<Record<string, unknown>>): Ending | undefined {
  const { transactionId, amount, currency, id } = body;
  const isEnding = [transactionId, amount, currency].every(isText) && isTextOrAbsent(id);
  return isEnding ? ({ reference, transactionId, amount, currency, id } as Ending) : undefined;
}

/** Undefined if the body is no refund. */
export function readRefund(reference: unknown, body: Readonly<Record<string, unknown>>): Refund | undefined {
  const { charge, id, transactionId, amount, currency, reason } = body;
  const isRefund =
    [reference, charge, transactionId, amount, currency].every(isText) && [id, reason].every(isTextOrAbsent);
  return isRefund ? ({ reference, charge, id, transactionId, amount, currency, reason } as Refund) : undefined;
}

/** One confirmed PaymentIntent. */
export function chargeParameters(charge: Charge, units: number, payer: Payer): Parameters {
  return {
    amount: `${units}`,
    currency: charge.currency.toLowerCase(),
    payment_method: payer.paymentMethod,
    ...(payer.customer !== undefined && { customer: payer.customer }),
    'payment_method_types[0]': 'card',
    confirm: 'true',
    ...payerParameters(charge),
    ...aboutParameters(charge),
  };
}

/**
 * If no payer is present, a payment cannot be confirmed, so a card that asks for it is declined. If a payer is present, Stripe answers with
 * the address of the bank's page; or, if the shop's metadata asks for the client secret, with something that Stripe's script shows inside
 * the shop's page.
 */
function payerParameters({ returnUrl, metadata }: Charge): Parameters {
  if (returnUrl === undefined) return { error_on_requires_action: 'true' };
  return { return_url: returnUrl, ...(metadata?.[ACTION] === CLIENT_SECRET && { use_stripe_sdk: 'true' }) };
}

/** Idempay's own names come last: a look-up finds the charge by them. */
function aboutParameters({ reference, transactionId, description, metadata, order }: Charge): Parameters {
  const given = Object.entries(metadata ?? {})
    .filter(([name]) => name !== ENDING)
    .map(([name, value]) => [`metadata[${stripeName(name)}]`, value]);
  return {
    ...(description !== undefined && { description }),
    ...Object.fromEntries(given),
    ...(order !== undefined && { 'metadata[idempay_order]': order }),
    [`metadata[${REFERENCE}]`]: reference,
    'metadata[idempay_transaction]': transactionId,
  };
}

/** A PaymentIntent that cannot be paid: it has no payment method, and its client secret is given to no page. */
export function endingParameters(
  { reference, transactionId, currency }: Pick<Ending, 'reference' | 'transactionId' | 'currency'>,
  units: number,
): Parameters {
  return {
    amount: `${units}`,
    currency: currency.toLowerCase(),
    'payment_method_types[0]': 'card',
    [`metadata[${REFERENCE}]`]: reference,
    'metadata[idempay_transaction]': transactionId,
    [`metadata[${ENDING}]`]: 'true',
  };
}

/** Stripe refuses a charge for square brackets in a name. The other limits of its metadata are not below Idempay's. */
const stripeName = (name: string) => name.replaceAll('[', '(').replaceAll(']', ')');

/** Stripe's sentence may quote the payment method or the return address, and an answer is logged. */
export function withoutSecrets(answer: Answer, { source, returnUrl }: Charge): Answer {
  const hidden = [
    [source, '(the source)'],
    [returnUrl, '(the return address)'],
  ] as const;
  const cleaned = (text: string) =>
    hidden.reduce((rest, [secret, name]) => (secret ? rest.replaceAll(secret, name) : rest), text);
  const members = Object.entries(answer.body).map(([name, member]) => [
    name,
    typeof member === 'string' ? cleaned(member) : member,
  ]);
  return { ...answer, body: Object.fromEntries(members) };
}
