import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';

/** Conditions that a request to Stripe may meet. Rates are parts from 0 to 1. */
export interface StripeConditions {
  /** Carried out, and then the connection is cut. */
  lostReplyRate: number;
  /** Refused by the rate limiter, which stands before the idempotency keys. */
  rateLimitRate: number;
  /** Carried out, answered 500, and the 500 is kept with the key. */
  chargedAndFailedRate: number;
  /** Nothing is carried out, answered 500, and the 500 is kept with the key. */
  failedRate: number;
  /** Answered to each charge in place of being carried out; nothing is kept with the key. */
  refusal: { readonly status: number; readonly error: StripeError } | undefined;
  /** Before a charge is carried out. */
  latencyMs: number;
  /** The search sees a PaymentIntent this long after it was created. */
  searchLagMs: number;
}

export const USUAL_CONDITIONS: StripeConditions = {
  lostReplyRate: 0,
  rateLimitRate: 0,
  chargedAndFailedRate: 0,
  failedRate: 0,
  refusal: undefined,
  latencyMs: 0,
  searchLagMs: 1_000,
};

export interface StripeIntent {
  readonly id: string;
  readonly object: 'payment_intent';
  readonly amount: number;
  readonly currency: string;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly status: 'succeeded' | 'requires_payment_method';
  readonly metadata: Readonly<Record<string, string>>;
  readonly description: string | null;
  readonly payment_method: string | null;
  readonly last_payment_error: StripeError | null;
}

interface StripeError {
  readonly type: string;
  readonly code?: string;
  readonly decline_code?: string;
  readonly message: string;
  readonly param?: string;
}

interface Kept {
  readonly parameters: string;
  /** Undefined while the first request is at work. */
  reply?: Reply;
}

type Reply = { readonly status: number; readonly body: unknown };

const SECRET_KEY = 'sk_test_stand_in';
const LEAST_AMOUNT = 50;
const MOST_AMOUNT = 99_999_999;
/** Stripe has no code for the refusal of another one. */
const CURRENCIES = 'usd eur jpy xof kwd isk ugx mga'.split(' ');
const DECLINED_CARD = 'pm_card_chargeDeclined';
/** Stripe has no such cards; the stand-in has them to show what a slow or a lost reply does. */
const SLOW_CARD = 'pm_slow';
const LOST_REPLY_CARD = 'pm_lostReply';
const CONDITIONS_OF_CARD: Readonly<Record<string, Partial<StripeConditions>>> = {
  [SLOW_CARD]: { latencyMs: 4_000 },
  [LOST_REPLY_CARD]: { lostReplyRate: 1 },
};
/** https://docs.stripe.com/api/metadata */
const LONGEST_METADATA_NAME = 40;
const LONGEST_METADATA_VALUE = 500;
const REQUIRED = ['amount', 'currency'];

/** Cards to try, and what becomes of a payment with them. The first two are also test cards of Stripe itself. */
export const STRIPE_TEST_CARDS = { pm_card_visa: 'works', [DECLINED_CARD]: 'is declined' };
export const STAND_IN_CARDS = {
  ...STRIPE_TEST_CARDS,
  [SLOW_CARD]: 'works, after four seconds',
  [LOST_REPLY_CARD]: 'works, and the reply is lost',
};

export type StripeStandIn = Awaited<ReturnType<typeof startStripeStandIn>>;

/**
 * Stands in for the parts of Stripe's API that the adapter uses, as Stripe documents them. The first answer is kept with its
 * `Idempotency-Key` once execution began, also a 500; a key that is at work is 409, one with other parameters 400; lists are up to date,
 * and the search lags behind. `random` decides what a request meets.
 */
export async function startStripeStandIn(random: () => number = Math.random) {
  const intents: (StripeIntent & { readonly createdAtMs: number })[] = [];
  const keys = new Map<string, Kept>();
  let conditions = USUAL_CONDITIONS;
  const requests: { method: string; path: string }[] = [];

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://stripe');
    requests.push({ method: request.method ?? '', path: url.pathname });
    // Stripe has no such page. It shows people what was charged.
    if (url.pathname === '/charges') return send(response, { status: 200, body: charges() });
    if (request.headers.authorization !== `Bearer ${SECRET_KEY}`) {
      return send(response, refusal(401, { type: 'invalid_request_error', message: 'Invalid API Key provided' }));
    }
    if (random() < conditions.rateLimitRate) {
      return send(
        response,
        refusal(429, { type: 'invalid_request_error', code: 'rate_limit', message: 'Too many requests' }),
      );
    }
    if (request.method === 'POST' && url.pathname === '/v1/payment_intents') return create(request, response);
    if (request.method === 'GET') return send(response, read(url));
    send(response, refusal(404, { type: 'invalid_request_error', message: 'Unrecognized request URL' }));
  });

  function charges() {
    return intents.filter(({ status }) => status === 'succeeded');
  }

  async function create(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request).catch(() => undefined);
    // The connection was cut before the whole request arrived, so nothing is carried out.
    if (body === undefined) return;
    const parameters = new URLSearchParams(body);
    const missing = REQUIRED.find((name) => !parameters.has(name));
    if (missing !== undefined) {
      const message = `Missing required param: ${missing}.`;
      return send(
        response,
        refusal(400, { type: 'invalid_request_error', code: 'parameter_missing', param: missing, message }),
      );
    }
    if (conditions.refusal) return send(response, refusal(conditions.refusal.status, conditions.refusal.error));
    const key = request.headers['idempotency-key'] as string | undefined;
    const kept = key === undefined ? undefined : keys.get(key);
    if (kept) return send(response, repeated(kept, body));
    const entry: Kept = { parameters: body };
    if (key !== undefined) keys.set(key, entry);
    const { latencyMs, lostReplyRate } = {
      ...conditions,
      ...CONDITIONS_OF_CARD[parameters.get('payment_method') ?? ''],
    };
    await pause(latencyMs);
    entry.reply = execute(parameters);
    if (random() < lostReplyRate) return void response.destroy();
    send(response, entry.reply);
  }

  function execute(parameters: URLSearchParams): Reply {
    const fault = refusal(500, { type: 'api_error', message: 'An unknown error occurred' });
    if (random() < conditions.failedRate) return fault;
    const reply = confirm(parameters);
    return random() < conditions.chargedAndFailedRate ? fault : reply;
  }

  function confirm(parameters: URLSearchParams): Reply {
    const amount = Number(parameters.get('amount'));
    const currency = parameters.get('currency') ?? '';
    const refused = refusalOf(amount, currency) ?? refusalOfMetadata(parameters);
    if (refused) return refused;
    const isDeclined = parameters.get('payment_method') === DECLINED_CARD;
    const error: StripeError = {
      type: 'card_error',
      code: 'card_declined',
      decline_code: 'generic_decline',
      message: 'Your card was declined.',
    };
    const createdAtMs = Date.now();
    const intent: StripeIntent = {
      id: `pi_${intents.length + 1}`,
      object: 'payment_intent',
      amount,
      currency,
      created: Math.floor(createdAtMs / 1000),
      status: isDeclined ? 'requires_payment_method' : 'succeeded',
      metadata: Object.fromEntries(metadataIn(parameters)),
      description: parameters.get('description'),
      payment_method: isDeclined ? null : parameters.get('payment_method'),
      last_payment_error: isDeclined ? error : null,
    };
    intents.push({ ...intent, createdAtMs });
    return isDeclined
      ? { status: 402, body: { error: { ...error, payment_intent: intent } } }
      : { status: 200, body: intent };
  }

  function read({ pathname, searchParams }: URL): Reply {
    const limit = Number(searchParams.get('limit') ?? 10);
    const newest = intents.toReversed();
    if (pathname === '/v1/payment_intents/search') {
      const [, name, value] = /^metadata\['([^']+)'\]:'([^']+)'$/.exec(searchParams.get('query') ?? '') ?? [];
      const seen = newest.filter(({ createdAtMs }) => createdAtMs + conditions.searchLagMs <= Date.now());
      return page(
        'search_result',
        seen.filter(({ metadata }) => metadata[name ?? ''] === value),
        limit,
      );
    }
    if (pathname === '/v1/payment_intents') {
      const since = Number(searchParams.get('created[gte]') ?? 0);
      const after = searchParams.get('starting_after');
      const from = after === null ? 0 : newest.findIndex(({ id }) => id === after) + 1;
      return page(
        'list',
        newest.slice(from).filter(({ created }) => created >= since),
        limit,
      );
    }
    const intent = intents.find(({ id }) => pathname === `/v1/payment_intents/${id}`);
    return intent
      ? { status: 200, body: intent }
      : refusal(404, { type: 'invalid_request_error', code: 'resource_missing', message: 'No such payment_intent' });
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    secretKey: SECRET_KEY,
    requests,
    meet(changed: Partial<StripeConditions>): void {
      conditions = { ...USUAL_CONDITIONS, ...changed };
    },
    /** The charges, in order: the evidence. */
    charges,
    intentsOf: (reference: string) => intents.filter(({ metadata }) => Object.values(metadata).includes(reference)),
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function repeated(kept: Kept, parameters: string): Reply {
  if (kept.parameters !== parameters) {
    const message = 'Keys for idempotent requests can only be used with the same parameters they were first used with.';
    return refusal(400, { type: 'idempotency_error', message });
  }
  if (kept.reply) return kept.reply;
  const message = 'There is currently another in-progress request using this Idempotency Key.';
  return refusal(409, { type: 'idempotency_error', code: 'idempotency_key_in_use', message });
}

const refusal = (status: number, error: StripeError): Reply => ({ status, body: { error } });

function page(object: string, found: readonly unknown[], limit: number): Reply {
  return { status: 200, body: { object, data: found.slice(0, limit), has_more: found.length > limit } };
}

function metadataIn(parameters: URLSearchParams): (readonly [string, string])[] {
  return [...parameters].flatMap(([name, value]) => {
    const [, member] = /^metadata\[(.*)\]$/s.exec(name) ?? [];
    return member === undefined ? [] : [[member, value] as const];
  });
}

function refusalOfMetadata(parameters: URLSearchParams): Reply | undefined {
  const isTaken = metadataIn(parameters).every(
    ([name, value]) =>
      /^[^[\]]+$/.test(name) &&
      [...name].length <= LONGEST_METADATA_NAME &&
      [...value].length <= LONGEST_METADATA_VALUE,
  );
  const message = 'Metadata keys must be 1 to 40 characters without square brackets, and values up to 500 characters.';
  return isTaken ? undefined : refusal(400, { type: 'invalid_request_error', param: 'metadata', message });
}

function send(response: ServerResponse, { status, body }: Reply): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** A refusal of the content, which every attempt meets. */
function refusalOf(amount: number, currency: string): Reply | undefined {
  if (!Number.isSafeInteger(amount) || amount < LEAST_AMOUNT) {
    const message = 'Amount must be at least 50 cents';
    return refusal(400, { type: 'invalid_request_error', code: 'amount_too_small', param: 'amount', message });
  }
  if (amount > MOST_AMOUNT) {
    const message = 'Amount must be no more than $999,999.99';
    return refusal(400, { type: 'invalid_request_error', code: 'amount_too_large', param: 'amount', message });
  }
  if (!CURRENCIES.includes(currency)) {
    const message = `Invalid currency: ${currency}. Stripe currently supports these currencies: ${CURRENCIES.join(', ')}`;
    return refusal(400, { type: 'invalid_request_error', param: 'currency', message });
  }
  return undefined;
}
