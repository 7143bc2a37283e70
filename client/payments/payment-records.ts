import { InvalidRequestError, NotFoundError } from '../errors.js';
import { parsed } from '../http/answers.js';
import type { Call, CallOptions } from '../http/call.js';
import { Remembered } from '../http/remembered.js';
import type { Requests } from '../http/requests.js';
import { linesOf } from '../http/streams.js';
import type { Answer, Outgoing } from '../http/transport.js';
import type { Payment, Resolution } from '../representations.js';

export interface PaymentFilter {
  /** How the key begins (hexadecimal digits), or the transaction id (`TXN` and digits). */
  readonly find?: string | undefined;
  /** Exactly this processor. */
  readonly processor?: string | undefined;
  readonly state?: Exclude<Payment['state'], 'PENDING'> | undefined;
  /** When the key was issued: a day (`'2026-11-20'`, UTC) or a moment (`'2026-11-20T13:00:00Z'`); this one included. */
  readonly from?: string | Date | undefined;
  /** This one not included. */
  readonly to?: string | Date | undefined;
  /** Of one page, at most 500. */
  readonly limit?: number | undefined;
}

/** Payments one by one, the newest first, or page by page. Nothing is asked before it is iterated, and each time it is asked anew. */
export interface PaymentList extends AsyncIterable<Payment> {
  pages(): AsyncIterable<readonly Payment[]>;
}

/** Undefined: the service has no such payment. */
export async function findPayment(requests: Requests, call: Call, key: string): Promise<Payment | undefined> {
  try {
    return await requests.sendWithin(call, ofKey(key), paymentIn);
  } catch (fault) {
    if (fault instanceof NotFoundError) return undefined;
    throw fault;
  }
}

export class PaymentRecords {
  readonly #remembered: Remembered<string, Payment>;

  constructor(
    private readonly requests: Requests,
    remembered: number,
  ) {
    this.#remembered = new Remembered(remembered);
  }

  get(key: string, options: CallOptions): Promise<Payment> {
    const known = this.#remembered.get(key);
    const request = { ...ofKey(key), ...(known && { headers: { 'if-none-match': known.tag } }) };
    return this.requests.send(options, request, (answer) => {
      if (answer.status === 304) return known?.value;
      const payment = paymentIn(answer);
      return payment && this.#remembered.set(key, answer.headers.get('etag'), payment);
    });
  }

  list(filter: PaymentFilter, options: CallOptions): PaymentList {
    const pages = () => this.#pages(filter, options);
    return {
      pages,
      async *[Symbol.asyncIterator]() {
        for await (const page of pages()) yield* page;
      },
    };
  }

  async *export(day: string | Date, processor: string | undefined, options: CallOptions): AsyncGenerator<Payment> {
    const text = day instanceof Date ? day.toISOString().slice(0, '2026-11-20'.length) : day;
    const path = `/api/payments/export${queryOf({ day: text, processor })}`;
    yield* linesOf(this.requests.open(options, { method: 'GET', path })) as AsyncGenerator<Payment>;
  }

  /** Given twice, the same resolution is kept once. */
  resolve(key: string, { outcome, reason }: Resolution, options: CallOptions): Promise<Payment> {
    const path = `${ofKey(key).path}/resolution`;
    this.#remembered.forget(key);
    return this.requests.send(options, { method: 'POST', path, body: JSON.stringify({ outcome, reason }) }, paymentIn);
  }

  async *#pages(filter: PaymentFilter, options: CallOptions): AsyncGenerator<readonly Payment[]> {
    const { find, state, processor, limit } = filter;
    const [from, to] = [momentOf(filter.from), momentOf(filter.to)];
    let cursor: string | undefined;
    do {
      const path = `/api/payments${queryOf({ find, state, processor, from, to, limit: limit?.toString(), cursor })}`;
      const page = await this.requests.send(options, { method: 'GET', path }, pageIn);
      yield page.payments;
      cursor = page.next;
    } while (cursor !== undefined);
  }
}

function ofKey(key: string): Outgoing & { method: 'GET' } {
  // An empty one would be another path.
  if (typeof key !== 'string' || key === '') throw new InvalidRequestError("'key' must be an idempotency key.");
  return { method: 'GET', path: `/api/payments/${encodeURIComponent(key)}` };
}

function paymentIn({ status, text }: Answer): Payment | undefined {
  const payment = status === 200 ? (parsed(text) as Payment | undefined) : undefined;
  return payment?.state === undefined ? undefined : Object.freeze(payment);
}

/** The next page is where the `Link` leads to (RFC 8288); of its address only the cursor counts, behind a gateway with a path. */
function pageIn({ headers, text }: Answer): { payments: readonly Payment[]; next: string | undefined } | undefined {
  const payments = parsed(text);
  if (!Array.isArray(payments)) return undefined;
  const [, target] = /<([^>]*)>\s*;\s*rel="?next"?/i.exec(headers.get('link') ?? '') ?? [];
  const next =
    target === undefined ? undefined : (new URL(target, 'http://any').searchParams.get('cursor') ?? undefined);
  return { payments, next };
}

function queryOf(parameters: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
}

const momentOf = (moment: string | Date | undefined) => (moment instanceof Date ? moment.toISOString() : moment);
