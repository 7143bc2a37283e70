import { InvalidRequestError, LAST_ATTEMPT, type PaymentName } from '../errors.js';
import { hasOwnHeader } from '../http/proof.js';
import type { Answer } from '../http/transport.js';
import type { Payment } from '../representations.js';

/** A thing to be paid once, such as an order. */
export interface PaymentReference {
  /** Such as the number of the order: 1 to 128 of `A-Z a-z 0-9 - . _ ~ : / @`. */
  readonly reference: string;
  /** 1 if omitted, at most 99. One more only after a decline, when the payer wants to try again. */
  readonly attempt?: number | undefined;
}

/** For operators: a reference of another client. */
export interface OperatedReference extends PaymentReference {
  /** The client that has the reference, such as `key:shop`. */
  readonly client?: string | undefined;
}

/** A payment as a request names it. The key of a reference is undefined until an answer has named it. */
export type AskedPayment = PaymentName<string | undefined>;

const REFERENCE = /^[A-Za-z0-9\-._~:/@]{1,128}$/;
/** Words that programs write if the number of an order is missing, and the UUID that is all zeros. */
const ABSENT_VALUE = /(?:^|[-._~:/@])(?:undefined|null|NaN|None|false|nil|0{8}-(?:0{4}-){3}0{12})$/;
/** Words and years, with a separator after each: what an empty variable leaves of a name, as in `order-`. No text is matched in two ways. */
const WORDS_ALONE = /^(?:(?:[a-z]+|[A-Z][a-z]*|[A-Z]{2,}|(?:19|20)\d\d)[-._~:/@])+$/;
const COMPUTED_KEY = /^f[0-9a-f]{7}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;
const KEY_HEADER = 'idempotency-key';
const REFUND_KEY_HEADER = 'idempay-refund-key';

/** The service's own sentences, before anything is sent. */
const INVALID_REFERENCE =
  "'reference' must name one order by 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : / @, sent once. A '+' is read as a blank.";
const WITH_ABSENT_VALUE =
  "'reference' ends with 'undefined', 'null', 'NaN', 'None', 'false', 'nil' or the UUID of zeros: the number of the order is missing, and all such orders would share one payment. Send the order's own number.";
const WITH_WORDS_ALONE =
  "'reference' has only words or years, with a separator after each: the number of the order is missing, and all such orders would share one payment. Send the order's own number, encoded for a URL: '#' is %23.";
const INVALID_ATTEMPT = `'attempt' must be a whole number from 1 to ${LAST_ATTEMPT}, sent once.`;
const WITHOUT_REFERENCE = "'attempt' says which payment of a 'reference' is meant: send both.";

const INVALID_REFUND_NAME =
  "'name' must name this refund of the payment by 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : / @, with the number that tells it from others, such as order-17-line-2. Repeat a refund with the same name.";

/** Names a reference, which is not checked yet. */
interface NamingReference {
  readonly reference: unknown;
  readonly attempt?: unknown;
}

/** The members of an `OperatedReference`. */
export const REFERENCE_MEMBERS: ReadonlySet<string> = new Set(['reference', 'attempt', 'client']);

/**
 * True if a payment by reference is meant. One that is there and undefined counts: an order without its number must never get a key that
 * nobody can find again.
 */
export function namesReference(options: object): options is NamingReference {
  if ('reference' in options) return true;
  if ('attempt' in options && options.attempt !== undefined) throw new InvalidRequestError(WITHOUT_REFERENCE);
  return false;
}

export function checkedReference(reference: unknown): string {
  const checked = checkedFilter(reference);
  if (WORDS_ALONE.test(checked)) throw new InvalidRequestError(WITH_WORDS_ALONE);
  return checked;
}

/** Payments that were made before words alone were refused can still be listed. */
export function checkedFilter(reference: unknown): string {
  if (typeof reference !== 'string' || !REFERENCE.test(reference)) throw new InvalidRequestError(INVALID_REFERENCE);
  if (ABSENT_VALUE.test(reference)) throw new InvalidRequestError(WITH_ABSENT_VALUE);
  return reference;
}

/** Undefined if none is named. */
export function checkedAttempt(attempt: unknown): number | undefined {
  if (attempt === undefined) return undefined;
  if (Number.isInteger(attempt) && (attempt as number) >= 1 && (attempt as number) <= LAST_ATTEMPT) {
    return attempt as number;
  }
  throw new InvalidRequestError(INVALID_ATTEMPT);
}

export function askedReference({ reference, attempt }: NamingReference): AskedPayment {
  return { key: undefined, reference: checkedReference(reference), attempt: checkedAttempt(attempt) ?? 1 };
}

/** The first attempt is named by the reference alone, as in every document. */
export function referenceQuery(reference: string, attempt: number | undefined, client?: string): string {
  const parameters = {
    reference,
    ...(attempt !== undefined && { attempt: `${attempt}` }),
    ...(client !== undefined && { client }),
  };
  return new URLSearchParams(parameters).toString();
}

/**
 * The key of the payment that an answer is about. The answer proves the key of a reference: it is a computed one, and the answers before
 * had the same. Undefined if it is not, or if a gateway removed the header.
 */
export function keyOfAnswer(
  { headers }: Pick<Answer, 'headers'>,
  { key, reference }: AskedPayment,
): string | undefined {
  if (reference === undefined) return key;
  const named = headers.get(KEY_HEADER)?.trim().toLowerCase() ?? '';
  return isComputed(named) && (key ?? named) === named ? named : undefined;
}

/** The answers of one call are about one key: with another one something in between sends them to another service. */
export function withKeyOf(answer: Answer, asked: AskedPayment): AskedPayment {
  const key = hasOwnHeader(answer.headers) ? keyOfAnswer(answer, asked) : undefined;
  return key === undefined ? asked : { ...asked, key };
}

/**
 * False if a record names another reference, or another attempt, than were asked for: a proxy dropped the query, or gave the answer to another
 * request. A record that names none is taken, because a service of an older version shows none, and a payment that is just being claimed
 * has none yet.
 */
export function isAbout(payment: Payment, asked: Pick<AskedPayment, 'reference' | 'attempt'>): boolean {
  const isOther = <T>(named: T | null | undefined, wanted: T | undefined) =>
    wanted !== undefined && (named ?? wanted) !== wanted;
  return !isOther(payment.reference, asked.reference) && !isOther(payment.attempt, asked.attempt);
}

/** The name of a refund has the alphabet of references, and the same refusals. */
export function checkedRefundName(name: unknown): string {
  if (typeof name === 'string' && REFERENCE.test(name) && !ABSENT_VALUE.test(name) && !WORDS_ALONE.test(name))
    return name;
  throw new InvalidRequestError(INVALID_REFUND_NAME);
}

/** The key of the refund that an answer is about; the answers before had the same. Undefined if a gateway removed the header. */
export function refundKeyOf({ headers }: Pick<Answer, 'headers'>, known: string | undefined): string | undefined {
  const named = headers.get(REFUND_KEY_HEADER)?.trim().toLowerCase() ?? '';
  return isComputed(named) && (known ?? named) === named ? named : undefined;
}

/** True if the key belongs to a reference, or to a refund, by its form. */
export function isComputed(key: string): boolean {
  return COMPUTED_KEY.test(key);
}
