import { randomBytes } from 'node:crypto';
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
  /** The answer to each charge and cancellation, which is then not carried out; nothing is kept with the key. */
  refusal: { readonly status: number; readonly error: StripeError } | undefined;
  /** The time before a POST is carried out. */
  latencyMs: number;
  /** The time that a page of a list takes. */
  listLatencyMs: number;
  /** The search sees a PaymentIntent this long after it was created. */
  searchLagMs: number;
  /** The time for which a payment is in `processing`. */
  processingMs: number;
  /** The state of a new refund. */
  refundStatus: RefundStatus;
}

export const USUAL_CONDITIONS: StripeConditions = {
  lostReplyRate: 0,
  rateLimitRate: 0,
  chargedAndFailedRate: 0,
  failedRate: 0,
  refusal: undefined,
  latencyMs: 0,
  listLatencyMs: 0,
  searchLagMs: 1_000,
  processingMs: 10_000,
  refundStatus: 'succeeded',
};

type Reply = { readonly status: number; readonly body: unknown };

interface StripeError {
  readonly type: string;
  readonly code?: string;
  readonly decline_code?: string;
  readonly message: string;
  readonly param?: string;
  readonly payment_intent?: StripeIntent;
}

type Status = 'requires_payment_method' | 'requires_action' | 'processing' | 'succeeded' | 'canceled';

/** Each change makes another one, so a reply that was kept stays as it was. */
export interface StripeIntent {
  readonly id: string;
  readonly object: 'payment_intent';
  readonly amount: number;
  readonly currency: string;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly status: Status;
  readonly client_secret: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly description: string | null;
  readonly payment_method: string | null;
  readonly next_action: NextAction | null;
  readonly last_payment_error: StripeError | null;
  readonly cancellation_reason: string | null;
}

type RefundStatus = 'pending' | 'requires_action' | 'succeeded' | 'failed' | 'canceled';

export interface StripeRefund {
  readonly id: string;
  readonly object: 'refund';
  readonly amount: number;
  readonly currency: string;
  /** Seconds since the epoch. */
  readonly created: number;
  readonly payment_intent: string;
  readonly status: RefundStatus;
  readonly failure_reason: string | null;
  readonly metadata: Readonly<Record<string, string>>;
}

type NextAction =
  | {
      readonly type: 'redirect_to_url';
      readonly redirect_to_url: { readonly url: string; readonly return_url: string };
    }
  | { readonly type: 'use_stripe_sdk'; readonly use_stripe_sdk: { readonly stripe_js: string } };

/** A PaymentIntent, and its members that Stripe does not show. */
interface Held {
  readonly intent: StripeIntent;
  readonly createdAtMs: number;
  /** The end of `processing`. */
  readonly processedAtMs: number;
  /** The return address, which is kept from confirmation to confirmation. */
  readonly returnUrl: string | null;
}

const refusal = (status: number, error: StripeError): Reply => ({ status, body: { error } });

const LEAST_AMOUNT = 50;
const MOST_AMOUNT = 99_999_999;
/** Stripe has no code for the refusal of another one. */
const CURRENCIES = 'usd eur jpy xof kwd isk ugx mga'.split(' ');
const DECLINED_CARD = 'pm_card_chargeDeclined';
/** The holders of these cards confirm each payment at the bank. The charge of the second card is declined even then. */
const CONFIRMED_CARD = 'pm_card_threeDSecure2Required';
const CONFIRMED_DECLINED_CARD = 'pm_card_threeDSecureRequiredChargeDeclined';
/** Stripe has no such card: cards are seldom seen in `processing` there. */
const PROCESSING_CARD = 'pm_processing';
/** https://docs.stripe.com/api/metadata */
const LONGEST_METADATA_NAME = 40;
const LONGEST_METADATA_VALUE = 500;
const CANCELABLE: readonly Status[] = ['requires_payment_method', 'requires_action'];

const CARD_DECLINED: StripeError = {
  type: 'card_error',
  code: 'card_declined',
  decline_code: 'generic_decline',
  message: 'Your card was declined.',
};
const NOT_AUTHENTICATED: StripeError = {
  type: 'invalid_request_error',
  code: 'payment_intent_authentication_failure',
  message: 'We are unable to authenticate your payment method. Please choose a different payment method and try again.',
};
const AUTHENTICATION_REQUIRED: StripeError = {
  type: 'card_error',
  code: 'authentication_required',
  decline_code: 'authentication_required',
  message: 'Your card was declined. This transaction requires authentication.',
};
const UNKNOWN: StripeError = {
  type: 'invalid_request_error',
  code: 'resource_missing',
  message: 'No such payment_intent',
};

interface Kept {
  readonly path: string;
  readonly parameters: string;
  /** Undefined while the first request is at work. */
  reply?: Reply;
}

const SECRET_KEY = 'sk_test_stand_in';
/** The key of the payer's page, which may confirm a payment whose client secret it has. */
const PUBLISHABLE_KEY = 'pk_test_stand_in';
/** Stripe has no such cards; the stand-in has them to show what a slow or a lost reply does. */
const SLOW_CARD = 'pm_slow';
const LOST_REPLY_CARD = 'pm_lostReply';
const CONDITIONS_OF_CARD: Readonly<Record<string, Partial<StripeConditions>>> = {
  [SLOW_CARD]: { latencyMs: 4_000 },
  [LOST_REPLY_CARD]: { lostReplyRate: 1 },
};
const REQUIRED = ['amount', 'currency'];
const INTENTS = '/v1/payment_intents';
const REFUNDS = '/v1/refunds';

/** Cards to try, and what becomes of a payment with them. These are also test cards of Stripe itself. */
export const STRIPE_TEST_CARDS = {
  pm_card_visa: 'works',
  [DECLINED_CARD]: 'is declined',
  [CONFIRMED_CARD]: 'asks its holder to confirm at the bank',
  [CONFIRMED_DECLINED_CARD]: 'asks its holder to confirm, and is declined then',
};
export const STAND_IN_CARDS = {
  ...STRIPE_TEST_CARDS,
  [SLOW_CARD]: 'works, after four seconds',
  [LOST_REPLY_CARD]: 'works, and the reply is lost',
  [PROCESSING_CARD]: 'works, and Stripe knows it ten seconds later',
};

/**
 * Stands in for the parts of Stripe's API that the adapter uses, as Stripe documents them. The first answer is kept with its
 * `Idempotency-Key` once execution began, also a 500; a key that is at work is 409, one with other parameters or another path 400; lists
 * are up to date, and the search lags behind. It also plays the page of a bank. `random` decides what a request meets.
 */
export async function startStripeStandIn(random: () => number = Math.random) {
  const keys = new Map<string, Kept>();
  let conditions = USUAL_CONDITIONS;
  const requests: { method: string; path: string }[] = [];
  let url = '';
  const intents = createIntents({
    bankPageOf: (intent) => `${url}${bankPath(intent)}`,
    processingMs: () => conditions.processingMs,
  });
  const refunds = createRefunds(intents, () => conditions.refundStatus);

  const server = createServer(async (request, response) => {
    const asked = new URL(request.url ?? '/', 'http://stripe');
    requests.push({ method: request.method ?? '', path: asked.pathname });
    // Stripe has no such page. It shows people what was charged.
    if (asked.pathname === '/charges') return send(response, { status: 200, body: charges() });
    if (await answerAtBank(intents, request, response)) return;
    const isShop = request.headers.authorization === `Bearer ${SECRET_KEY}`;
    if (!isShop && request.headers.authorization !== `Bearer ${PUBLISHABLE_KEY}`) {
      return send(response, refusal(401, { type: 'invalid_request_error', message: 'Invalid API Key provided' }));
    }
    if (random() < conditions.rateLimitRate) {
      return send(
        response,
        refusal(429, { type: 'invalid_request_error', code: 'rate_limit', message: 'Too many requests' }),
      );
    }
    if (request.method === 'POST') return post(asked.pathname, isShop, request, response);
    send(response, isShop ? await readInTime(asked) : FORBIDDEN);
  });

  function charges() {
    return intents
      .newest()
      .filter(({ status }) => status === 'succeeded')
      .toReversed();
  }

  async function post(path: string, isShop: boolean, request: IncomingMessage, response: ServerResponse) {
    const body = await text(request).catch(() => undefined);
    // The connection was cut before the whole request arrived, so nothing is carried out.
    if (body === undefined) return;
    const parameters = new URLSearchParams(body);
    const refused = refusalBefore(path, isShop, parameters);
    if (refused) return send(response, refused);
    const key = request.headers['idempotency-key'] as string | undefined;
    const kept = key === undefined ? undefined : keys.get(key);
    if (kept) return send(response, repeated(kept, path, body));
    const entry: Kept = { path, parameters: body };
    if (key !== undefined) keys.set(key, entry);
    const { latencyMs, lostReplyRate } = {
      ...conditions,
      ...CONDITIONS_OF_CARD[parameters.get('payment_method') ?? ''],
    };
    await pause(latencyMs);
    entry.reply = execute(path, parameters);
    if (random() < lostReplyRate) return void response.destroy();
    send(response, entry.reply);
  }

  /** Stripe keeps none of these answers, because nothing began. */
  function refusalBefore(path: string, isShop: boolean, parameters: URLSearchParams): Reply | undefined {
    if (!isShop) return isPayers(path, parameters) ? undefined : FORBIDDEN;
    const isCreation = path === INTENTS;
    if (!isCreation && path !== REFUNDS && !PART.test(path)) {
      return refusal(404, { type: 'invalid_request_error', message: 'Unrecognized request URL' });
    }
    const missing = isCreation ? REQUIRED.find((name) => !parameters.has(name)) : undefined;
    if (missing !== undefined) {
      const message = `Missing required param: ${missing}.`;
      return refusal(400, { type: 'invalid_request_error', code: 'parameter_missing', param: missing, message });
    }
    return conditions.refusal && refusal(conditions.refusal.status, conditions.refusal.error);
  }

  function isPayers(path: string, parameters: URLSearchParams): boolean {
    const [, id = '', verb] = PART.exec(path) ?? [];
    return verb === 'confirm' && intents.find(id)?.client_secret === parameters.get('client_secret');
  }

  function execute(path: string, parameters: URLSearchParams): Reply {
    const fault = refusal(500, { type: 'api_error', message: 'An unknown error occurred' });
    if (random() < conditions.failedRate) return fault;
    const reply = carriedOut(path, parameters);
    return random() < conditions.chargedAndFailedRate ? fault : reply;
  }

  function carriedOut(path: string, parameters: URLSearchParams): Reply {
    if (path === REFUNDS) return refunds.create(parameters);
    const [, id = '', verb] = PART.exec(path) ?? [];
    if (verb === 'cancel') return intents.cancel(id, parameters);
    return verb === 'confirm' ? intents.confirm(id, parameters) : intents.create(parameters);
  }

  async function readInTime(asked: URL): Promise<Reply> {
    if (asked.pathname === INTENTS) await pause(conditions.listLatencyMs);
    return read(asked);
  }

  function read({ pathname, searchParams }: URL): Reply {
    const limit = Number(searchParams.get('limit') ?? 10);
    if (pathname.startsWith(REFUNDS)) return readRefunds(pathname, searchParams, limit);
    if (pathname === `${INTENTS}/search`) {
      const [, name, value] = /^metadata\['([^']+)'\]:'([^']+)'$/.exec(searchParams.get('query') ?? '') ?? [];
      const seen = intents.newest(Date.now() - conditions.searchLagMs);
      return page(
        'search_result',
        seen.filter(({ metadata }) => metadata[name ?? ''] === value),
        limit,
      );
    }
    if (pathname === INTENTS) {
      const since = Number(searchParams.get('created[gte]') ?? 0);
      const after = searchParams.get('starting_after');
      const newest = intents.newest();
      const from = after === null ? 0 : newest.findIndex(({ id }) => id === after) + 1;
      return page(
        'list',
        newest.slice(from).filter(({ created }) => created >= since),
        limit,
      );
    }
    const intent = intents.find(pathname.slice(INTENTS.length + 1));
    return intent
      ? { status: 200, body: intent }
      : refusal(404, { type: 'invalid_request_error', code: 'resource_missing', message: 'No such payment_intent' });
  }

  function readRefunds(pathname: string, searchParams: URLSearchParams, limit: number): Reply {
    if (pathname === REFUNDS) {
      const newest = refunds.newestOf(searchParams.get('payment_intent') ?? '');
      const after = searchParams.get('starting_after');
      return page('list', newest.slice(after === null ? 0 : newest.findIndex(({ id }) => id === after) + 1), limit);
    }
    const refund = refunds.find(pathname.slice(REFUNDS.length + 1));
    return refund ? { status: 200, body: refund } : refusal(404, { ...UNKNOWN, message: 'No such refund' });
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    secretKey: SECRET_KEY,
    publishableKey: PUBLISHABLE_KEY,
    requests,
    meet(changed: Partial<StripeConditions>): void {
      conditions = { ...USUAL_CONDITIONS, ...changed };
    },
    /** The charges, in order: the evidence. */
    charges,
    /** The refunds, in order. */
    refunds: refunds.all,
    /** The bank has decided about a refund. */
    decideRefund: refunds.decide,
    /** As Stripe does after 24 hours. */
    forgetKeys: () => keys.clear(),
    intentsOf: (reference: string) =>
      intents
        .newest()
        .filter(({ metadata }) => Object.values(metadata).includes(reference))
        .toReversed(),
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const PART = /^\/v1\/payment_intents\/(pi_\w+)\/(cancel|confirm)$/;
const FORBIDDEN = refusal(403, {
  type: 'invalid_request_error',
  message: 'This API call cannot be made with a publishable API key.',
});

function repeated(kept: Kept, path: string, parameters: string): Reply {
  if (kept.path !== path) {
    const message = 'Keys for idempotent requests can only be used for the same endpoint they were first used for.';
    return refusal(400, { type: 'idempotency_error', message });
  }
  if (kept.parameters !== parameters) {
    const message = 'Keys for idempotent requests can only be used with the same parameters they were first used with.';
    return refusal(400, { type: 'idempotency_error', message });
  }
  if (kept.reply) return kept.reply;
  const message = 'There is currently another in-progress request using this Idempotency Key.';
  return refusal(409, { type: 'idempotency_error', code: 'idempotency_key_in_use', message });
}

function page(object: string, found: readonly unknown[], limit: number): Reply {
  return { status: 200, body: { object, data: found.slice(0, limit), has_more: found.length > limit } };
}

function send(response: ServerResponse, { status, body }: Reply): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

interface Settings {
  /** The address of the bank's page of a PaymentIntent. */
  bankPageOf(intent: StripeIntent): string;
  processingMs(): number;
}

type StripeIntents = ReturnType<typeof createIntents>;

/** PaymentIntents and their states, as Stripe documents them. */
function createIntents({ bankPageOf, processingMs }: Settings) {
  const all = new Map<string, Held>();

  return { create, confirm, cancel, atBank, isAtBank, returnUrlOf, find, newest };

  function create(parameters: URLSearchParams): Reply {
    const amount = Number(parameters.get('amount'));
    const currency = parameters.get('currency') ?? '';
    const refused = refusalOf(amount, currency) ?? refusalOfMetadata(parameters);
    if (refused) return refused;
    const createdAtMs = Date.now();
    const id = `pi_${all.size + 1}`;
    const intent: StripeIntent = {
      id,
      object: 'payment_intent',
      amount,
      currency,
      created: Math.floor(createdAtMs / 1000),
      status: 'requires_payment_method',
      client_secret: `${id}_secret_${randomBytes(12).toString('hex')}`,
      metadata: Object.fromEntries(metadataIn(parameters)),
      description: parameters.get('description'),
      payment_method: null,
      next_action: null,
      last_payment_error: null,
      cancellation_reason: null,
    };
    all.set(id, { intent, createdAtMs, processedAtMs: 0, returnUrl: null });
    return parameters.get('confirm') === 'true' ? confirm(id, parameters) : { status: 200, body: intent };
  }

  /** Confirms a payment, also for the payer, who has the client secret. After a confirmation that failed, another one may follow. */
  function confirm(id: string, parameters: URLSearchParams): Reply {
    const intent = find(id);
    if (!intent) return refusal(404, UNKNOWN);
    if (!CANCELABLE.includes(intent.status)) return unexpected(intent, 'confirm');
    const card = parameters.get('payment_method') ?? intent.payment_method;
    const returnUrl = parameters.get('return_url') ?? all.get(id)?.returnUrl ?? null;
    change(id, {}, { returnUrl });
    if (card === DECLINED_CARD) return failed(id, CARD_DECLINED);
    const isConfirmed = card === CONFIRMED_CARD || card === CONFIRMED_DECLINED_CARD;
    if (!isConfirmed) return { status: 200, body: paid(id, card) };
    if (parameters.get('error_on_requires_action') === 'true') return failed(id, AUTHENTICATION_REQUIRED);
    const isByScript = parameters.get('use_stripe_sdk') === 'true';
    const next_action = nextAction(bankPageOf(intent), isByScript ? null : returnUrl);
    return { status: 200, body: change(id, { status: 'requires_action', payment_method: card, next_action }) };
  }

  function paid(id: string, card: string | null): StripeIntent {
    const about = { payment_method: card, next_action: null, last_payment_error: null };
    if (card !== PROCESSING_CARD) return change(id, { ...about, status: 'succeeded' });
    return change(id, { ...about, status: 'processing' }, { processedAtMs: Date.now() + processingMs() });
  }

  /** The payment method is taken off again. */
  function failed(id: string, error: StripeError): Reply {
    const intent = change(id, {
      status: 'requires_payment_method',
      payment_method: null,
      next_action: null,
      last_payment_error: error,
    });
    return refusal(402, { ...error, payment_intent: intent });
  }

  /** The holder answers at the bank. After a refusal the page is asked once more, as a page with the client secret could. */
  function atBank(id: string, isConfirmed: boolean): StripeIntent | undefined {
    const intent = find(id);
    if (!intent || !isAtBank(id)) return intent;
    if (!isConfirmed) failed(id, NOT_AUTHENTICATED);
    else if (intent.payment_method === CONFIRMED_DECLINED_CARD) failed(id, CARD_DECLINED);
    else paid(id, intent.payment_method ?? CONFIRMED_CARD);
    return find(id);
  }

  function isAtBank(id: string): boolean {
    const intent = find(id);
    const isRefused = intent?.status === 'requires_payment_method' && intent.last_payment_error !== null;
    return intent?.status === 'requires_action' || (isRefused && all.get(id)?.returnUrl !== null);
  }

  function returnUrlOf(id: string): string | null {
    return all.get(id)?.returnUrl ?? null;
  }

  function cancel(id: string, parameters: URLSearchParams): Reply {
    const intent = find(id);
    if (!intent) return refusal(404, UNKNOWN);
    if (!CANCELABLE.includes(intent.status)) return unexpected(intent, 'cancel');
    const cancellation_reason = parameters.get('cancellation_reason');
    return { status: 200, body: change(id, { status: 'canceled', next_action: null, cancellation_reason }) };
  }

  function change(id: string, changed: Partial<StripeIntent>, more: Partial<Held> = {}): StripeIntent {
    const held = all.get(id) as Held;
    const intent = { ...held.intent, ...changed };
    all.set(id, { ...held, ...more, intent });
    return intent;
  }

  function find(id: string): StripeIntent | undefined {
    const held = all.get(id);
    const isProcessed = held?.intent.status === 'processing' && held.processedAtMs <= Date.now();
    return isProcessed ? change(id, { status: 'succeeded' }) : held?.intent;
  }

  /** The PaymentIntents that were created before this moment, the newest first. */
  function newest(createdBeforeMs = Number.POSITIVE_INFINITY): StripeIntent[] {
    const seen = [...all.values()].filter(({ createdAtMs }) => createdAtMs <= createdBeforeMs);
    return seen.map(({ intent }) => find(intent.id) as StripeIntent).toReversed();
  }
}

/** Refunds of PaymentIntents, as Stripe documents them. */
function createRefunds(intents: StripeIntents, statusOfNew: () => RefundStatus) {
  const all = new Map<string, StripeRefund>();
  const newestOf = (intent: string) =>
    [...all.values()].filter(({ payment_intent }) => payment_intent === intent).toReversed();

  function create(parameters: URLSearchParams): Reply {
    const intent = intents.find(parameters.get('payment_intent') ?? '');
    if (!intent) return refusal(404, UNKNOWN);
    const type = 'invalid_request_error';
    if (intent.status !== 'succeeded') {
      return refusal(400, {
        type,
        message: `This PaymentIntent (${intent.id}) does not have a successful charge to refund.`,
      });
    }
    const given = newestOf(intent.id).filter(({ status }) => status !== 'failed' && status !== 'canceled');
    const left = intent.amount - given.reduce((sum, { amount }) => sum + amount, 0);
    if (left === 0) {
      return refusal(400, { type, code: 'charge_already_refunded', message: 'Charge has already been refunded.' });
    }
    const amount = Number(parameters.get('amount') ?? left);
    if (amount > left) {
      const message = `Refund amount (${amount}) is greater than unrefunded amount on charge (${left})`;
      return refusal(400, { type, param: 'amount', message });
    }
    const refused = refusalOfMetadata(parameters);
    if (refused) return refused;
    const refund: StripeRefund = {
      id: `re_${all.size + 1}`,
      object: 'refund',
      amount,
      currency: intent.currency,
      created: Math.floor(Date.now() / 1000),
      payment_intent: intent.id,
      status: statusOfNew(),
      failure_reason: null,
      metadata: Object.fromEntries(metadataIn(parameters)),
    };
    all.set(refund.id, refund);
    return { status: 200, body: refund };
  }

  return {
    create,
    find: (id: string) => all.get(id),
    newestOf,
    all: () => [...all.values()],
    decide(id: string, status: RefundStatus, failure_reason: string | null = null): void {
      all.set(id, { ...(all.get(id) as StripeRefund), status, failure_reason });
    },
  };
}

/** Without a return address Stripe's script shows the bank's page, and the page that loaded it goes on. */
function nextAction(url: string, returnUrl: string | null): NextAction {
  return returnUrl === null
    ? { type: 'use_stripe_sdk', use_stripe_sdk: { stripe_js: url } }
    : { type: 'redirect_to_url', redirect_to_url: { url, return_url: returnUrl } };
}

function unexpected(intent: StripeIntent, what: 'confirm' | 'cancel'): Reply {
  const cancelable = 'requires_payment_method, requires_capture, requires_confirmation, requires_action, processing';
  const message =
    what === 'cancel'
      ? `You cannot cancel this PaymentIntent because it has a status of ${intent.status}. Only a PaymentIntent with one of the following statuses may be canceled: ${cancelable}.`
      : `You cannot confirm this PaymentIntent because it has a status of ${intent.status}.`;
  const code = 'payment_intent_unexpected_state';
  return refusal(400, { type: 'invalid_request_error', code, message, payment_intent: intent });
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

const PATH = /^\/bank\/(pi_\w+)$/;

const bankPath = ({ id, client_secret }: StripeIntent) => `/bank/${id}?client_secret=${client_secret}`;

/**
 * Plays the page on which a bank asks the holder of a card. GET shows it; POST with `answer=confirm` or `answer=refuse` sends the browser
 * back to the shop, with the members that Stripe adds to the return address. False if the path is not the bank's.
 */
async function answerAtBank(
  intents: StripeIntents,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<boolean> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://bank');
  const [, id] = PATH.exec(pathname) ?? [];
  if (id === undefined) return false;
  const intent = intents.find(id);
  if (!intent || intent.client_secret !== searchParams.get('client_secret')) {
    show(response, 404, '<p>The bank does not know this payment.</p>');
    return true;
  }
  const returnUrl = intents.returnUrlOf(id);
  if (!intents.isAtBank(id)) {
    const back =
      returnUrl === null ? '' : `<p><a href="${escaped(backTo(returnUrl, intent))}">Back to the shop</a></p>`;
    show(response, 410, `<p>This payment is over.</p>${back}`);
  } else if (request.method === 'POST') {
    const answer = new URLSearchParams(await text(request)).get('answer');
    const after = intents.atBank(id, answer === 'confirm') ?? intent;
    if (returnUrl === null) show(response, 200, '<p>You may close this page.</p>');
    else response.writeHead(303, { location: backTo(returnUrl, after) }).end();
  } else {
    show(response, 200, FORM(intent));
  }
  return true;
}

function backTo(returnUrl: string, { id, client_secret, status }: StripeIntent): string {
  const url = new URL(returnUrl);
  url.searchParams.set('payment_intent', id);
  url.searchParams.set('payment_intent_client_secret', client_secret);
  url.searchParams.set('redirect_status', status === 'succeeded' ? 'succeeded' : 'failed');
  return url.href;
}

const FORM = ({ amount, currency }: StripeIntent) => `<p>A shop asks for ${amount} of the smallest unit of
${currency.toUpperCase()}. Do you confirm this payment?</p>
<form method="post"><button name="answer" value="confirm">Confirm</button>
<button name="answer" value="refuse">Refuse</button></form>`;

function show(response: ServerResponse, status: number, content: string): void {
  response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' });
  response.end(`<!doctype html><html lang="en"><meta charset="utf-8"><title>A bank that is played</title>
<h1>Your bank</h1>${content}<p>No money moves: this page belongs to the stand-in for Stripe.</p></html>`);
}

const escaped = (value: string) =>
  value.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
