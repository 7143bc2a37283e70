import type { Answer } from './outcomes.ts';
import { REFERENCE } from './search.ts';
import type { Parameters } from './stripe.ts';

/** A charge of the second contract. The same members come with every send of a payment, so Stripe gets the same parameters. */
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
}

/** Undefined if the body is no charge. Members that Idempay may add later are ignored. */
export function readCharge(reference: unknown, body: Readonly<Record<string, unknown>>): Charge | undefined {
  const { transactionId, amount, currency, source, description, metadata, order } = body;
  const isText = (member: unknown) => typeof member === 'string';
  const isTextOrAbsent = (member: unknown) => member === undefined || isText(member);
  const isCharge =
    [reference, transactionId, amount, currency].every(isText) &&
    [source, description, order].every(isTextOrAbsent) &&
    (metadata === undefined ||
      (typeof metadata === 'object' && metadata !== null && Object.values(metadata).every(isText)));
  if (!isCharge) return undefined;
  return { reference, transactionId, amount, currency, source, description, metadata, order } as Charge;
}

/** Idempay's own names come last: a look-up finds the charge by them. */
export function aboutParameters({ reference, transactionId, description, metadata, order }: Charge): Parameters {
  const given = Object.entries(metadata ?? {}).map(([name, value]) => [`metadata[${stripeName(name)}]`, value]);
  return {
    ...(description !== undefined && { description }),
    ...Object.fromEntries(given),
    ...(order !== undefined && { 'metadata[idempay_order]': order }),
    [`metadata[${REFERENCE}]`]: reference,
    'metadata[idempay_transaction]': transactionId,
  };
}

/** Stripe refuses a charge for square brackets in a name. The other limits of its metadata are not below Idempay's. */
const stripeName = (name: string) => name.replaceAll('[', '(').replaceAll(']', ')');

/** Stripe's sentence may quote the payment method, and an answer is logged. */
export function withoutSource(answer: Answer, source: string | undefined): Answer {
  if (source === undefined) return answer;
  const texts = Object.entries(answer.body).map(([name, text]) => [name, text.replaceAll(source, '(the source)')]);
  return { ...answer, body: Object.fromEntries(texts) };
}
