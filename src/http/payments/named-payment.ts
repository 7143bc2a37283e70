import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Access } from '../../access/access.js';
import { isClient } from '../../access/client-name.js';
import type { PaymentRecords } from '../../payments/history/payment-records.js';
import type { Payments } from '../../payments/payments.js';
import { isKeyHeaderMissing, readKeyHeader } from '../../payments/values/idempotency-key.js';
import {
  type ComputeKey,
  isReference,
  LAST_ATTEMPT,
  lostNumberIn,
  type NamedPayment,
  type Reference,
  readAttempt,
} from '../../payments/values/reference.js';
import { EXAMPLE_KEY, publicErrors } from '../errors/catalogue.js';
import type { PublicError } from '../errors/public-error.js';
import { always, sometimes } from '../openapi/headers.js';
import type { ParameterDescription, RequestHeader, RouteErrors } from '../openapi/route-description.js';
import { visibleClient } from '../requests/access-check.js';
import { querySchema } from '../requests/parameter-schemas.js';
import { refuseUnknownParameters } from '../requests/query-parameters.js';
import { clientOf } from '../requests/request-limit-hook.js';

// How a request names its payment: by a key in a header, or by a reference and an attempt in its query, from which the key is computed.

declare module 'fastify' {
  interface FastifyRequest {
    /** The payment that the request names, at the routes that need a name; undefined if the name is no key. */
    payment: NamedPayment | undefined;
  }
}

export const KEY_HEADER = 'idempotency-key';
/** Percent-encoded, because a token may name a client in any alphabet. */
const CLIENT_HEADER = 'idempay-client';

/** The query of a request that may name a reference. */
export const ReferenceQuery = querySchema('reference', 'attempt');
/** An operator names the client whose reference it is. */
export const OperatedReferenceQuery = querySchema('reference', 'attempt', 'client');

/** A cancellation may be of one attempt only. */
export const CancellationQuery = querySchema('reference', 'attempt', 'client', 'only');

/** `refund` is the name of the refund. */
export const RefundQuery = querySchema('refund', 'reference', 'client');

const REFERENCE_PARAMETERS = Object.keys(ReferenceQuery.properties);
const OPERATED_REFERENCE_PARAMETERS = Object.keys(OperatedReferenceQuery.properties);
const CANCELLATION_PARAMETERS = Object.keys(CancellationQuery.properties);
const REFUND_PARAMETERS = Object.keys(RefundQuery.properties);

/**
 * The purpose of a request: a payment is a client's own, an operator may name a client for a cancellation or a question, and a question need
 * not name an attempt. A refund is of the attempt that was paid.
 */
type NamedFor = 'payment' | 'cancellation' | 'question' | 'refund';

const KEY_BESIDE_REFERENCE =
  "A refund names its payment by the Idempotency-Key header or by 'reference', and not by both. Nothing was given back.";

const PARAMETERS: { readonly [Purpose in NamedFor]: readonly string[] } = {
  payment: REFERENCE_PARAMETERS,
  cancellation: CANCELLATION_PARAMETERS,
  question: OPERATED_REFERENCE_PARAMETERS,
  refund: REFUND_PARAMETERS,
};

/**
 * `onRequest` of a route that needs a name. Rule 1 of spec 4.1 comes before the body is read, so it wins over a fault of the body (rule P3).
 * A reference stands for the key, which every answer from here on names.
 */
export function nameBy(app: FastifyInstance, computeKey: ComputeKey, purpose: NamedFor) {
  if (!app.hasRequestDecorator('payment')) app.decorateRequest('payment', undefined);
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    try {
      request.payment = namedPayment(request, reply, computeKey, purpose);
      done();
    } catch (problem) {
      done(problem as Error);
    }
  };
}

/** Undefined for a header that holds no key. Throws for a request that names nothing, or in the wrong way. */
function namedPayment(
  request: FastifyRequest,
  reply: FastifyReply,
  computeKey: ComputeKey,
  purpose: NamedFor,
): NamedPayment | undefined {
  const header = keyHeaderOf(request);
  const asked = referenceIn(request, purpose);
  if (purpose === 'cancellation') scopeOf(request.query);
  if (asked) {
    const payment = named(asked, computeKey);
    // A refund is of the attempt that was paid, and a question without an attempt about the newest, which are not known yet.
    if (purpose === 'refund') refuseKeyBesideReference(header);
    else if (asked.attempt !== undefined || purpose !== 'question') refuseOtherKey(header, payment.key);
    if (purpose !== 'refund') reply.header(KEY_HEADER, payment.key);
    return payment;
  }
  const read = readKeyHeader(header);
  if (read.state === 'missing') throw publicErrors.missingIdempotencyKey();
  if (purpose === 'refund')
    refuseUnknownParameters(request.query as Readonly<Record<string, unknown>>, REFUND_PARAMETERS);
  const client = purpose === 'payment' ? request.caller?.client : visibleClient(request);
  return read.state === 'present' ? { key: read.key, client } : undefined;
}

/** A reference as the query names it. */
interface AskedReference {
  readonly text: string;
  readonly client: string | undefined;
  /** If none is named, a payment is of the first one, and a question about the newest. */
  readonly attempt: number | undefined;
}

export type NamedReference = NamedPayment & { readonly reference: Reference };

/**
 * The reference in the query (rule P18); undefined if it names none. Throws the 400 that says what is wrong: a reference that was meant,
 * and cannot be read, must never become a payment with another key.
 */
export function referenceIn(
  request: Pick<FastifyRequest, 'query' | 'caller'>,
  purpose: NamedFor = 'payment',
): AskedReference | undefined {
  const query = request.query as Readonly<Record<string, unknown>>;
  const { reference, attempt, client } = query;
  if (reference === undefined) {
    const alone = PARAMETERS[purpose].find((name) => name !== 'refund' && query[name] !== undefined);
    if (alone === undefined) return undefined;
    throw publicErrors.withoutReference(alone);
  }
  if (typeof reference !== 'string' || !isReference(reference)) throw referenceRefusal(reference);
  // A misspelt attempt would be the first one.
  refuseUnknownParameters(query, PARAMETERS[purpose]);
  return {
    text: reference,
    attempt: attempt === undefined ? undefined : attemptOf(attempt),
    client: askedClient(request, purpose === 'payment' ? undefined : client),
  };
}

/**
 * The scope of a cancellation: `attempt` if it ends one attempt only. Throws the 400 for every other value, also an empty one: without the
 * parameter the order would be closed.
 */
export function scopeOf(query: unknown): 'attempt' | undefined {
  const { only } = query as Readonly<Record<string, unknown>>;
  if (only === undefined || only === 'attempt') return only;
  throw publicErrors.invalidRequest("'only' must be 'attempt', sent once, or left out.");
}

export function referenceRefusal(reference: unknown): PublicError {
  const lost = typeof reference === 'string' ? lostNumberIn(reference) : undefined;
  return lost === undefined ? publicErrors.invalidReference() : publicErrors.referenceWithoutNumber(lost);
}

/** The key of a reference. A caller who may name it sees it as its client does. */
export function named(asked: AskedReference, computeKey: ComputeKey): NamedReference {
  const { text, client, attempt = 1 } = asked;
  const reference = { text, client, attempt };
  return { key: computeKey(reference), client, reference };
}

/** True if a question is about one attempt, and not about the newest. */
export function isAttemptNamed({ query }: FastifyRequest): boolean {
  return (query as Readonly<Record<string, unknown>>).attempt !== undefined;
}

/** A header that is sent with a reference must name the same payment. */
export function refuseOtherKey(header: string | undefined, key: string): void {
  if (isKeyHeaderMissing(header)) return;
  const read = readKeyHeader(header);
  if (read.state !== 'present' || read.key !== key) throw publicErrors.keyOfAnotherReference();
}

/** The key may be of an attempt that was declined: then one of the two is wrong. */
function refuseKeyBesideReference(header: string | undefined): void {
  if (!isKeyHeaderMissing(header)) throw publicErrors.invalidRequest(KEY_BESIDE_REFERENCE);
}

/** The name of the refund that a request asks for. Throws the 400 that says what is wrong. */
export function refundNameIn(query: unknown): string {
  const { refund } = query as Readonly<Record<string, unknown>>;
  if (typeof refund === 'string' && isReference(refund)) return refund;
  throw publicErrors.invalidRefund();
}

/** Throws the 400 that says what an attempt is. */
function attemptOf(value: unknown): number {
  const attempt = typeof value === 'string' ? readAttempt(value) : undefined;
  if (attempt !== undefined) return attempt;
  throw publicErrors.invalidRequest(`'attempt' must be a whole number from 1 to ${LAST_ATTEMPT}, sent once.`);
}

function clientMissing(): PublicError {
  return publicErrors.invalidRequest("'client' must say whose reference it is, such as 'key:shop'.");
}

/** A client has references of its own. An operator that pays nothing itself has none, and names a client. */
function askedClient({ caller }: Pick<FastifyRequest, 'caller'>, named: unknown): string | undefined {
  if (named === undefined) {
    if (caller && !caller.scopes.has('payments:write') && caller.scopes.has('operations')) {
      throw clientMissing();
    }
    return caller?.client;
  }
  if (typeof named !== 'string' || named === '' || !caller?.scopes.has('operations')) {
    throw publicErrors.clientForOperators();
  }
  // Before anything is computed or stored: a name that no client can have would make a payment that nobody pays.
  if (!isClient(named)) throw publicErrors.unknownClient();
  return named;
}

/** Node joins a header that was sent twice with a comma, so there is only ever one string. */
export function keyHeaderOf(request: FastifyRequest): string | undefined {
  return request.headers['idempotency-key'] as string | undefined;
}

/** The parts of a route at which an operator may name the reference of a client. */
export interface OperatedContext {
  readonly payments: Payments;
  readonly paymentRecords: PaymentRecords;
  readonly access: Access | undefined;
}

/**
 * Calls `act` once it is certain whose reference an operator means, or rejects with the refusal. Every other caller means its own, so that
 * `act` is called at once.
 */
export type WithJudgedClient = <Result>(
  request: FastifyRequest,
  reply: FastifyReply,
  reference: Reference | undefined,
  act: () => Promise<Result>,
) => Promise<Result>;

export function createWithJudgedClient(
  access: Access | undefined,
  records: Pick<PaymentRecords, 'newestOf'>,
): WithJudgedClient {
  /** A name with a mistake in it would close nothing, and be answered as if it had. */
  async function refuseUnknown(request: FastifyRequest, client: string): Promise<void> {
    if (client === request.caller?.client || access?.clients().includes(client)) return;
    if (!(await records.newestOf({ client, reader: clientOf(request) }))) throw publicErrors.unknownClient();
  }

  /** An operator that pays too may have forgotten to name the client: its own order of this number would be closed, and the other one paid. */
  async function refuseOthers(request: FastifyRequest, reference: string, client: string): Promise<void> {
    const reader = clientOf(request);
    if (await records.newestOf({ reference, client, reader })) return;
    const other = await records.newestOf({ reference, reader });
    if (other) throw publicErrors.referenceOfAnotherClient(client, other.client);
  }

  return async (request, reply, reference, act) => {
    const { caller, query } = request;
    if (reference?.client === undefined || !caller?.scopes.has('operations')) return act();
    const { text, client } = reference;
    const isNamed = (query as Readonly<Record<string, unknown>>).client !== undefined;
    await (isNamed ? refuseUnknown(request, client) : refuseOthers(request, text, client));
    reply.header(CLIENT_HEADER, encodeURI(client));
    return act();
  };
}

export const PAYMENT_KEY: RequestHeader = {
  name: 'Idempotency-Key',
  text: 'The key that `generateKey` gave out: one for each payment, the same for every repeat. In any case, with or without quotes. Sent twice it is invalid. Not needed where `reference` names the payment; then it must be the key of the reference, or be left out.',
  required: false,
  schema: { type: 'string' },
};

export const COMPUTED_KEY = sometimes(
  always('Idempotency-Key', 'The key of the `reference` and `attempt` that the request named.', {
    type: 'string',
    format: 'uuid',
  }),
);

export const CLIENT = sometimes(
  always(
    'Idempay-Client',
    'For operators: the client whose reference it was, percent-encoded.',
    { type: 'string' },
    'key:shop',
  ),
);

const reference: ParameterDescription = {
  text: 'Names what is to be paid once, such as an order: 1 to 128 of `A-Z a-z 0-9 - . _ ~ : / @`, but no name that lost its number (`order-`). The key is computed from it, the same each time, so that the same request can be sent again whenever there was no clear answer. It belongs to the client that sends it.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9._~:/@-]{1,128}$' },
};
const attempt: ParameterDescription = {
  text: 'After a decline that was answered, 2 for the next try, and so on: counted by the caller, so that nothing that repeats by itself ever charges again.',
  schema: { type: 'string', pattern: '^[1-9][0-9]?$' },
};
const client: ParameterDescription = {
  text: 'For operators: whose reference it is, such as `key:shop`, exactly as the records have it. Without it an operator that pays too means itself.',
  schema: { type: 'string', minLength: 1 },
};

export const referenceErrors: RouteErrors = [
  'invalidReference',
  'referenceWithoutNumber',
  'referenceOfWordsAlone',
  { invalidAttempt: () => attemptOf('0') },
  'attemptWithoutReference',
  { unknownParameter: () => refuseUnknownParameters({ atempt: '' }, REFERENCE_PARAMETERS) },
];
const withOperatedReference = (parameters: readonly string[]): RouteErrors => [
  ...referenceErrors,
  'keyOfAnotherReference',
  { unknownParameter: () => refuseUnknownParameters({ atempt: '' }, parameters) },
  'invalidClient',
  'unknownClient',
  'referenceOfAnotherClient',
  { clientMissing: clientMissing() },
  'clientWithoutReference',
];
export const operatedReferenceErrors = withOperatedReference(OPERATED_REFERENCE_PARAMETERS);
export const cancellationErrors: RouteErrors = [
  ...withOperatedReference(CANCELLATION_PARAMETERS),
  'onlyWithoutReference',
  { invalidScope: () => void scopeOf({ only: '' }) },
];
export const refundErrors: RouteErrors = [
  'invalidRefund',
  'invalidReference',
  'referenceWithoutNumber',
  'referenceOfWordsAlone',
  { keyBesideReference: () => refuseKeyBesideReference(EXAMPLE_KEY) },
  { unknownParameter: () => refuseUnknownParameters({ attempt: '' }, REFUND_PARAMETERS) },
  'invalidClient',
  'unknownClient',
  'referenceOfAnotherClient',
  { clientMissing: clientMissing() },
  'clientWithoutReference',
];
/** Errors of attempts whose turn it is not. */
export const turnErrors: RouteErrors = [
  'attemptBeforeUnderWay',
  'attemptBeforePending',
  'attemptBeforeAbsent',
  'attemptBeforeCompleted',
  'attemptBeforeCancelled',
  'attemptTooLate',
];

export const REFERENCE: Readonly<Record<string, ParameterDescription>> = { reference, attempt };
export const OPERATED_REFERENCE: Readonly<Record<string, ParameterDescription>> = { reference, attempt, client };
const refund: ParameterDescription = {
  text: 'The name of this refund, such as `line-2`, in the alphabet of `reference`. Each refund of a payment has its own. Repeat a refund with the same name: it is given back once. Another name is another refund.',
  required: true,
  schema: { type: 'string', pattern: '^[A-Za-z0-9._~:/@-]{1,128}$' },
  example: 'line-2',
};
export const REFUND: Readonly<Record<string, ParameterDescription>> = {
  refund,
  reference: {
    ...reference,
    text: 'Names the payment by its order: its attempt that was paid is refunded.',
  },
  client,
};
export const CANCELLATION: Readonly<Record<string, ParameterDescription>> = {
  ...OPERATED_REFERENCE,
  only: {
    text: '`attempt`: only this attempt at the reference is ended, and the next one may follow, as for a payer who takes another card. Without it the order is closed.',
    schema: { const: 'attempt' },
  },
};
