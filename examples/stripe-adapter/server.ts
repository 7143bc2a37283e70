import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import type { Charges } from './charges.ts';
import { readCharge, readEnding, readRefund } from './content.ts';
import type { Answer } from './outcomes.ts';
import type { Refunds } from './refunds.ts';

/** Idempay's keys: nothing else is ever put into a query. */
const KEY = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Stripe's names of PaymentIntents. Any other name is of an adapter that was here before, and is passed over. */
const INTENT = /^pi_\w{1,200}$/;
/** Stripe's names of refunds. */
const REFUND = /^(?:re|pyr)_\w{1,200}$/;
/** The adapter reads what a payment is about, says when an outcome takes time, ends payments, and gives back: the third contract. */
const HEADERS = { 'content-type': 'application/json', 'idempay-contract': '3' };
const REQUEST_MS = 5_000;
const LONGEST_BODY = 65_536;

const intentNamed = (id: string | null | undefined) => (id && INTENT.test(id) ? id : undefined);
const refundNamed = (id: string | null) => (id && REFUND.test(id) ? id : undefined);

/** The body; empty if it is too long, or no JSON object. */
async function bodyOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  const isShort = Number(request.headers['content-length'] ?? Number.NaN) <= LONGEST_BODY;
  const body = isShort ? await json(request).catch(() => undefined) : undefined;
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
}

/** Each reply names the reference, so that no other reply is taken for it. */
const about = (reference: string, { status, body }: Answer): Answer => ({ status, body: { ...body, reference } });

/**
 * The contract of docs/reference/processor.md over HTTP. `password` is for Basic authorization, as in PROCESSOR_URL; if undefined, the
 * adapter asks for none.
 */
export function createAdapter(
  { charges, refunds }: { readonly charges: Charges; readonly refunds: Refunds },
  password: string | undefined,
): Server {
  return createServer({ requestTimeout: REQUEST_MS }, async (request, response) => {
    const answer = await answerTo(request).catch((fault): Answer => {
      console.error(fault);
      return { status: 500, body: { error: 'a fault of the adapter' } };
    });
    if (answer.status >= 400 && answer.status !== 402 && answer.status !== 404) {
      console.error(JSON.stringify({ at: new Date().toISOString(), path: request.url, ...answer }));
    }
    response.writeHead(answer.status, HEADERS).end(JSON.stringify(answer.body));
  });

  async function answerTo(request: IncomingMessage): Promise<Answer> {
    if (!isAllowed(request.headers.authorization)) return { status: 401, body: { error: 'wrong user or password' } };
    const url = new URL(request.url ?? '', 'http://adapter');
    return url.pathname.startsWith('/refunds') ? answerToRefund(request, url) : answerToCharge(request, url);
  }

  async function answerToCharge(request: IncomingMessage, { pathname, searchParams }: URL): Promise<Answer> {
    const { method } = request;
    if (method === 'POST' && pathname === '/charges') return charge(request);
    const [, reference, ending] = /^\/charges\/([^/]+)(\/ending)?$/.exec(pathname) ?? [];
    if (method === 'GET' && reference !== undefined && !ending) {
      // Such a charge is refused, so there can be none.
      if (!KEY.test(reference)) return { status: 404, body: { error: 'not a key of Idempay' } };
      return about(reference, await charges.lookUp(reference, intentNamed(searchParams.get('id'))));
    }
    if (method === 'POST' && reference !== undefined && ending) return end(reference, request);
    const served = 'POST /charges, GET /charges/{reference} and POST /charges/{reference}/ending are served';
    return { status: 400, body: { error: served } };
  }

  async function answerToRefund(request: IncomingMessage, { pathname, searchParams }: URL): Promise<Answer> {
    const [, reference] = /^\/refunds\/([^/]+)$/.exec(pathname) ?? [];
    if (request.method === 'POST' && pathname === '/refunds') return refund(request);
    if (request.method === 'GET' && reference !== undefined) return lookUpRefund(reference, searchParams);
    return { status: 400, body: { error: 'POST /refunds and GET /refunds/{reference} are served' } };
  }

  async function charge(request: IncomingMessage): Promise<Answer> {
    const charged = readCharge(request.headers['idempotency-key'], await bodyOf(request));
    if (!charged || !KEY.test(charged.reference)) return { status: 400, body: { error: 'not a charge of Idempay' } };
    return about(charged.reference, await charges.charge(charged));
  }

  async function end(reference: string, request: IncomingMessage): Promise<Answer> {
    const ending = readEnding(reference, await bodyOf(request));
    if (!ending || !KEY.test(reference)) return { status: 400, body: { error: 'not an ending of Idempay' } };
    return about(reference, await charges.end({ ...ending, id: intentNamed(ending.id) }));
  }

  async function refund(request: IncomingMessage): Promise<Answer> {
    const refunded = readRefund(request.headers['idempotency-key'], await bodyOf(request));
    if (!refunded || ![refunded.reference, refunded.charge].every((key) => KEY.test(key))) {
      return { status: 400, body: { error: 'not a refund of Idempay' } };
    }
    const answer = await refunds.refund({ ...refunded, id: intentNamed(refunded.id) });
    return about(refunded.reference, { ...answer, body: { ...answer.body, charge: refunded.charge } });
  }

  async function lookUpRefund(reference: string, query: URLSearchParams): Promise<Answer> {
    const charge = query.get('charge') ?? '';
    // Such a refund is refused, so there can be none.
    if (![reference, charge].every((key) => KEY.test(key))) {
      return { status: 404, body: { error: 'not a key of Idempay' } };
    }
    const answer = await refunds.lookUp({ reference, charge, id: refundNamed(query.get('id')) });
    return about(reference, { ...answer, body: { ...answer.body, charge } });
  }

  function isAllowed(authorization: string | undefined): boolean {
    if (password === undefined) return true;
    const [, credentials = ''] = /^Basic (.+)$/i.exec(authorization ?? '') ?? [];
    const given = Buffer.from(credentials, 'base64')
      .toString()
      .replace(/^[^:]*:/, '');
    const digest = (text: string) => createHash('sha256').update(text).digest();
    return timingSafeEqual(digest(given), digest(password));
  }
}
