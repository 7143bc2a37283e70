import { type ErrorDetails, InvalidRequestError } from '../errors.js';
import { detailsOf } from '../http/answers.js';
import type { Call, CallOptions } from '../http/call.js';
import type { Changes } from '../http/changes.js';
import { isNotModified, isPayment, jsonOf } from '../http/forms.js';
import { askedAnew, type PagedList, pagedList, queryOf, type Search } from '../http/pages.js';
import { isObject, provenMessageOf } from '../http/proof.js';
import { Remembered } from '../http/remembered.js';
import type { Requests } from '../http/requests.js';
import { linesOf } from '../http/streams.js';
import type { Answer, Outgoing } from '../http/transport.js';
import { refuseUnknown } from '../refuse-unknown.js';
import type { Payment, PaymentTimeline, ProcessorAnswer, Resolution } from '../representations.js';
import { checkedFilter, isAbout, type PaymentReference } from './references.js';

export interface PaymentFilter {
  /** Exactly this one: all its attempts. One that is undefined or empty is refused, because it would list the payments of every order. */
  readonly reference?: string;
  /**
   * For operators: exactly this description, or value of the metadata. It needs `from`, because the payments since then are gone through. One that
   * is undefined or empty is refused.
   */
  readonly content?: string;
  /** How the key begins (hexadecimal digits), or the transaction id (`TXN` and digits). */
  readonly find?: string | undefined;
  /** Exactly this processor. */
  readonly processor?: string | undefined;
  readonly state?: Exclude<Payment['state'], 'PENDING'> | undefined;
  /** Selects only payments that wait for their payer, or for a bank. */
  readonly pending?: true | undefined;
  /** When it was paid with first: a day (`'2026-11-20'`, UTC) or a moment (`'2026-11-20T13:00:00Z'`); this one included. */
  readonly from?: string | Date | undefined;
  /** This one not included. */
  readonly to?: string | Date | undefined;
  /** How many payments one page has: 1 to 500. */
  readonly limit?: number | undefined;
  /** Only refunds, or payments and refunds. If omitted, only payments. A refund has the member `refund`. */
  readonly kind?: PaymentKind | undefined;
}

export type PaymentKind = 'payment' | 'refund' | 'all';

export interface ExportFilter {
  /** The last of several days, which is included; at most 366 days. */
  readonly lastDay?: string | undefined;
  /** Exactly this processor. */
  readonly processor?: string | undefined;
  /** Only refunds, or payments and refunds. If omitted, only payments. */
  readonly kind?: PaymentKind | undefined;
}

export type PaymentList = PagedList<Payment>;

/** The service's answer about a key. */
export type LookUpResult =
  | { readonly state: 'found'; readonly payment: Payment }
  /** `isCertain`: nothing was charged with the key, and nothing can be. */
  | { readonly state: 'absent'; readonly isCertain: boolean; readonly details: ErrorDetails };

/** Says in a 404 whether it is certain that nothing was charged with the key. */
const KEY_STATE_HEADER = 'idempay-key-state';
const EXPIRED_UNPAID = 'expired-unpaid';

/** Rejects with what hinders the look-up, and with an UnexpectedAnswerError for a record of another reference or attempt than `asked`. */
export function lookUp(
  requests: Requests,
  call: Call,
  key: string,
  asked: Partial<PaymentReference> = {},
): Promise<LookUpResult> {
  return requests.sendWithin<LookUpResult>(call, ofKey(key), (answer) => {
    if (answer.status === 404 && provenMessageOf(answer)?.startsWith(ABSENT)) {
      const isCertain = answer.headers.get(KEY_STATE_HEADER) === EXPIRED_UNPAID;
      return { state: 'absent', isCertain, details: detailsOf(answer) };
    }
    const payment = paymentIn(answer, key);
    return payment && isAbout(payment, asked) ? { state: 'found', payment } : undefined;
  });
}

const ABSENT = 'No payment found for this Idempotency-Key';

export class PaymentRecords {
  readonly #remembered: Remembered<string, Payment>;

  constructor(
    private readonly requests: Requests,
    private readonly change: Changes,
    remembered: number,
  ) {
    this.#remembered = new Remembered(remembered);
  }

  get(key: string, options: CallOptions): Promise<Payment> {
    const request = () => {
      const known = this.#remembered.get(key);
      return { ...ofKey(key), ...(known && { headers: { 'if-none-match': known.tag } }) };
    };
    return this.requests.send(options, request, (answer) => {
      const known = this.#remembered.get(key);
      if (isNotModified(answer, known?.tag)) return known?.value;
      if (answer.status === 304) this.#remembered.forget(key);
      const payment = paymentIn(answer, key);
      return payment && this.#remembered.set(key, answer.headers.get('etag'), payment);
    });
  }

  /** The list counts only if each refund names this payment, because an answer about another one could hide what was given back. */
  refunds(key: string, options: CallOptions): Promise<readonly Payment[]> {
    const path = `${ofKey(key).path}/refunds`;
    return this.requests.send(options, { method: 'GET', path }, (answer) => {
      const refunds = jsonOf(answer);
      const isAsked = (each: unknown) => isPayment(each) && each.refund?.payment === plainKey(key);
      return Array.isArray(refunds) && refunds.every(isAsked) ? Object.freeze(refunds as Payment[]) : undefined;
    });
  }

  timeline(key: string, options: CallOptions): Promise<PaymentTimeline> {
    return this.requests.send(options, { method: 'GET', path: `${ofKey(key).path}/timeline` }, (answer) => {
      const timeline = answerOf<PaymentTimeline>(answer, key);
      return Array.isArray(timeline?.events) ? timeline : undefined;
    });
  }

  askProcessor(key: string, options: CallOptions): Promise<ProcessorAnswer> {
    return this.requests.send(options, { method: 'GET', path: `${ofKey(key).path}/processor-answer` }, (answer) => {
      const said = answerOf<ProcessorAnswer>(answer, key);
      return typeof said?.answer === 'string' ? said : undefined;
    });
  }

  list(filter: PaymentFilter, options: CallOptions): PaymentList {
    return pagedList(this.requests, options, () => searchFor(filter));
  }

  export(day: string, filter: ExportFilter, options: CallOptions): AsyncIterable<Payment> {
    return askedAnew(() => this.#export(day, filter, options));
  }

  /** Given twice, the same resolution is kept once. */
  resolve(key: string, { outcome, reason }: Resolution, options: CallOptions): Promise<Payment> {
    const path = `${ofKey(key).path}/resolution`;
    this.#remembered.forget(key);
    return this.change(options, {
      request: { method: 'POST', path, body: JSON.stringify({ outcome, reason }) },
      kind: 'repeatable',
      read: (answer) => paymentIn(answer, key),
      // It has another outcome, or another reason: the service answers its own with 200 again.
      afterwards: (refusal) => (refusal.message.includes('which is final') ? refusal : undefined),
    });
  }

  async *#export(
    day: string,
    { lastDay, processor, kind }: ExportFilter,
    options: CallOptions,
  ): AsyncGenerator<Payment> {
    if (!isDay(day)) throw new InvalidRequestError("'day' must be a day in UTC as text, such as '2026-11-25'.");
    // An empty one would export one day only.
    if (lastDay !== undefined && !isDay(lastDay))
      throw new InvalidRequestError("'lastDay' must be a day in UTC as text, such as '2026-11-30'.");
    const path = `/api/payments/export${queryOf({ day, lastDay, processor, kind })}`;
    yield* linesOf(this.requests.open(options, { method: 'GET', path }, 'application/x-ndjson'), isPayment);
  }
}

const FILTERS = new Set([
  'reference',
  'content',
  'find',
  'processor',
  'state',
  'kind',
  'pending',
  'from',
  'to',
  'limit',
]);

function searchFor(filter: PaymentFilter): Search<Payment> {
  refuseUnknown(filter, 'option of list', FILTERS);
  const { find, state, kind, processor, limit } = filter;
  if (filter.pending !== undefined && filter.pending !== true)
    throw new InvalidRequestError("'pending' must be true, or be left out.");
  const pending = filter.pending && 'true';
  const reference = 'reference' in filter ? checkedFilter(filter.reference) : undefined;
  const [from, to] = [momentOf('from', filter.from), momentOf('to', filter.to)];
  if ('content' in filter && (typeof filter.content !== 'string' || filter.content === ''))
    throw new InvalidRequestError("'content' must be a description, or a value of the metadata.");
  const parameters = {
    reference,
    content: filter.content,
    find,
    state,
    kind,
    pending,
    processor,
    from,
    to,
    limit: limit?.toString(),
  };
  return {
    path: '/api/payments',
    parameters,
    isElement: (each): each is Payment => isPayment(each) && isListed(each, reference),
  };
}

/**
 * False for a payment of another reference, which a list has if a proxy dropped the query. A refund has no reference of its own, and a service
 * of an older version shows none.
 */
function isListed({ refund, reference: named }: Payment, reference: string | undefined): boolean {
  return reference === undefined || refund !== undefined || named === undefined || named === reference;
}

export function ofKey(key: string): Outgoing & { method: 'GET' } {
  // An empty one would be another path.
  if (typeof key !== 'string' || key === '') throw new InvalidRequestError("'key' must be an idempotency key.");
  return { method: 'GET', path: `/api/payments/${encodeURIComponent(key)}` };
}

/** An object about this key; undefined for every other answer. */
function answerOf<T extends { readonly idempotencyKey: string }>(answer: Answer, key: string): T | undefined {
  const said = jsonOf(answer);
  return isObject(said) && said.idempotencyKey === plainKey(key) ? Object.freeze(said as unknown as T) : undefined;
}

/** The payment of this key; undefined for every other answer. */
export function paymentIn(answer: Answer, key: string): Payment | undefined {
  const payment = jsonOf(answer);
  const isAsked = isPayment(payment) && payment.idempotencyKey === plainKey(key);
  return isAsked ? Object.freeze(payment) : undefined;
}

/** As the service takes it: in any case, and quoted as a string of structured fields (rule P2). */
function plainKey(key: string): string {
  return key
    .trim()
    .replace(/^"(.*)"$/, '$1')
    .toLowerCase();
}

/** The moment as the service takes it. Throws an InvalidRequestError. */
export function momentOf(name: string, moment: string | Date | undefined): string | undefined {
  if (!(moment instanceof Date)) return moment;
  if (Number.isNaN(moment.getTime())) throw new InvalidRequestError(`'${name}' must be a valid Date, or text.`);
  return moment.toISOString();
}

/** A day that exists: `Date.parse` moves the others into the next month. */
function isDay(text: unknown): text is string {
  if (typeof text !== 'string' || !/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const ms = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}
