import type { Charge } from '../representations.js';

/**
 * The proof that an answer is the service's own (rule P23): a gateway in between may write any status and any body, before or after the
 * service carried the request out.
 */

/** An answer that has been read to its end. */
interface Whole {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Every answer of the service has it. A browser shows it to a page of another origin only if a proxy exposes it. */
const OWN_HEADER = 'idempay';
/** The type of an error by RFC 9457: one page of the service, with a name for each error. */
const PROBLEM_TYPE = /(?:^|\/)problems#[\w-]+$/;
const CHARGES: readonly Charge[] = ['made', 'none', 'unknown'];

/** The content of a refusal: for people, and in the form of RFC 9457 to programs too. */
interface Refusal {
  readonly message: string;
  readonly type?: string;
  readonly charge?: Charge | undefined;
  readonly refund?: Charge | undefined;
}

/** A refusal (spec 2.5, or RFC 9457) that has the header and the status of its answer; else undefined. */
export function refusalIn({ status, headers, text }: Whole): Refusal | undefined {
  if (status < 400 || !hasOwnHeader(headers)) return undefined;
  const body = parsed(text);
  if (!isObject(body) || body.status !== status) return undefined;
  const { error, message, type, detail, charge, refund } = body;
  if (typeof error === 'string' && typeof message === 'string') return { message };
  if (typeof type !== 'string' || !PROBLEM_TYPE.test(type) || typeof detail !== 'string') return undefined;
  const known = (told: unknown) => CHARGES.find((each) => each === told);
  return { message: detail, type, charge: known(charge), refund: known(refund) };
}

/** The sentence of such a refusal. */
export const messageOf = (answer: Whole): string | undefined => refusalIn(answer)?.message;

/**
 * The sentence for a request that may have changed something. It must be one of the sentences of the service, because a gateway that
 * replaces an answer may keep its headers, and may write the same three members.
 */
export function provenMessageOf(answer: Whole): string | undefined {
  const message = messageOf(answer);
  return message !== undefined && SENTENCES[answer.status]?.test(message) ? message : undefined;
}

export const hasOwnHeader = (headers: Headers): boolean => headers.get(OWN_HEADER)?.trim() === '1';

/** True if the body is of this media type, as `Content-Type` says; parameters such as `charset` do not matter. */
export function isOfType(headers: Headers, type: 'application/json' | 'application/x-ndjson'): boolean {
  return headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() === type;
}

/** Undefined for text that is no JSON: half of an answer, for example. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * How the service's sentences begin, by status. One that is missing here costs patience, never money; test/unit/client/proof holds
 * them against the service's catalogue of errors.
 */
const SENTENCES: Readonly<Record<number, RegExp>> = {
  400: /^(?:transactions\[\d+\]: |'\w+' |The body must be |The request body cannot be read: |A refund names its payment by |The request is not valid HTTP\.|Invalid or missing Idempotency-Key\.$|Missing Idempotency-Key header\.$|This Idempotency-Key is not the key of that reference |Idempotency-Key must be 1 to 64 |The transaction id in the path must |The (?:path|query) is not validly |Send one (?:Host header |Content-Type, )|Send the new status as |HTTP\/1\.0 has no Transfer-Encoding|The last transfer coding must )/,
  401: /^(?:Send an API key or a token: |The API key or token is unknown, )/,
  402: /^(?:Payment|Refund) declined: /,
  403: /^(?:Your API key or token lacks the scope |Without AUTH a page of another site may not )/,
  404: /^(?:Transaction not found for id: \d+$|No payment found (?:for this Idempotency-Key[.,]|that could be refunded\.)|No payment found\. Rows were lost, |Webhook '[^']*' not found\.$|There is nothing at this path\.)/,
  405: /^This path does not take that method\./,
  409: /^(?:Payment is already being processed\.$|Attempt \d+ is (?:still being processed|pending), |The payment cannot be ended at the processor |The payment is [A-Z]+, which is final: |The service may still find out the outcome |The payment was claimed with the processor |The transaction is [A-Z]+, which is final: |The refund is already being processed\.$|The payment is not completed yet, |The record of the payment is about to be removed, |The payment was charged by the processor )/,
  410: /^(?:The payment was cancelled\. No charge will be sent |The payment is cancelled, but the processor charged it\. |Settlements (?:before this cursor may not |after this place were ))/,
  412: /^The \w+ does not meet If-Match or If-None-Match /,
  413: /^(?:The request body must not exceed \d+ bytes|The chunk extensions of the request body )/,
  414: /^The request target must not exceed /,
  415: /^Send the body as JSON in UTF-8, /,
  417: /^Send no Expect header, /,
  421: /^Without AUTH the service answers to /,
  422: /^(?:This Idempotency-Key (?:belongs to a payment |has created something else\.)|This reference is a payment of another amount |No payment of this reference is yours |Attempt \d+ (?:needs attempt \d+ to be declined, |was declined[,.] |was never begun, )|Rows were lost, and the processor has a record of attempt \d+, |The payment is completed with Transaction ID: |The payment was declined, so there is nothing to cancel\.|The processor has an outcome of this payment|The payment is [A-Z]+, so there is nothing to give back\.|The payment was made in [A-Z]{3}, |The payment has \d+(?:\.\d+)? [A-Z]{3} left |The payment has a refund of this name, )/,
  429: /^At most \d+ requests a minute are served /,
  431: /^The request headers are too large\./,
  501: /^The adapter of the processor does not know refunds /,
  503: /nothing was (?:begun|changed)/,
};
