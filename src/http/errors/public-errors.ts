import { STATUS_CODES } from 'node:http';
import { LAST_ATTEMPT, type LostNumber } from '../../payments/values/reference.js';
import type { AllSnapshotsInUse, StoreUnavailable } from '../../platform/faults.js';
import type { RefusalReason } from '../requests/measures.js';
import type { ProblemName } from './problems.js';

/** Every error the service gives to a client, once: its status and its sentence (spec 2.5 and 7, rule G1). */
export class PublicError extends Error {
  override readonly name = 'PublicError';
  /** Its entry in the catalogue, which names its type for programs (rule P20). */
  problem: ProblemName = 'refused';
  constructor(
    readonly status: number,
    message: string,
    /** Headers that belong to the error, such as `Retry-After` or `Allow`. */
    readonly headers: Readonly<Record<string, string>> = {},
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** One that is counted by its reason. */
export class CountedError extends PublicError {
  constructor(
    readonly reason: RefusalReason,
    ...parts: ConstructorParameters<typeof PublicError>
  ) {
    super(...parts);
  }
}

/** The three-field body of spec 2.5. */
export interface ErrorBody {
  status: number;
  error: string;
  message: string;
}

export function errorBody(status: number, message: string): ErrorBody {
  return { status, error: reasonPhrase(status), message };
}

/** Phrases of RFC 9110 that the platform's table still has in the words of older standards. */
const RENAMED_PHRASES: Readonly<Record<number, string>> = { 413: 'Content Too Large', 422: 'Unprocessable Content' };

/** The phrase of a status as RFC 9110 15 has it today: the same in the status line and in the body (rule G1). */
export function reasonPhrase(status: number): string {
  return RENAMED_PHRASES[status] ?? STATUS_CODES[status] ?? 'Error';
}

/** Kinds of requests that have their own advice for when a store cannot serve them. */
export type Operation = keyof typeof UNAVAILABLE;

const READ = 'This cannot be read at the moment. Retry in a few seconds.';

/** What to do when a store cannot serve an operation: `unchanged` when surely nothing was written. */
const UNAVAILABLE = {
  'generate key': {
    unchanged: 'No key can be generated at the moment. Retry in a few seconds.',
    unknown: 'The store failed while a new key was being stored. Ask for another key: an unused key expires by itself.',
  },
  pay: {
    unchanged:
      'The payment cannot be processed at the moment; this request changed nothing. Retry with the same Idempotency-Key.',
    unknown:
      'The store failed while the payment was being processed, so its outcome is not known. Retry with the same Idempotency-Key: it is not charged twice.',
  },
  'pay by reference': {
    unchanged: 'The payment cannot be processed at the moment; this request changed nothing. Repeat the same request.',
    unknown:
      'The store failed while the payment was being processed, so its outcome is not known. Repeat the same request: it is not charged twice.',
  },
  'cancel payment': {
    unchanged: 'The payment cannot be cancelled at the moment; nothing was changed. Retry the same in a few seconds.',
    unknown:
      'It is not known whether the payment was cancelled. Send the same again: it is cancelled once, or paid, and never both.',
  },
  'resolve payment': {
    unchanged: 'The payment cannot be resolved at the moment; nothing was changed. Retry in a few seconds.',
    unknown:
      'The store failed while the outcome was being stored, so it may or may not be stored. Send the same outcome again: it is stored once.',
  },
  'create transaction': {
    unchanged: 'The transaction cannot be created at the moment; nothing was changed. Retry in a few seconds.',
    unknown:
      'It is not known whether the transaction was created. Look for it with GET /api/transactions?from=&to= first: a repeat may create it twice.',
  },
  'create once': {
    unchanged:
      'Nothing can be created at the moment; nothing was changed. Retry in a few seconds with the same Idempotency-Key.',
    unknown: 'It is not known whether it was created. Retry with the same Idempotency-Key: nothing is created twice.',
  },
  'create transactions': {
    unchanged: 'The transactions cannot be created at the moment; nothing was changed. Retry in a few seconds.',
    unknown:
      'It is not known whether the transactions were created: all of them were, or none. Look for them with GET /api/transactions?from=&to= first: a repeat may create them twice.',
  },
  'change status': {
    unchanged: 'The status cannot be changed at the moment; nothing was changed. Retry in a few seconds.',
    unknown: 'It is not known whether the status was changed. Read the transaction, then repeat what is still wanted.',
  },
  'delete transaction': {
    unchanged: 'The transaction cannot be deleted at the moment; nothing was changed. Retry in a few seconds.',
    unknown: 'It is not known whether the transaction was deleted. Repeat the request: 404 says that it is gone.',
  },
  'list transactions': {
    unchanged: 'The transactions cannot be listed at the moment. Retry in a few seconds.',
    unknown: 'The transactions cannot be listed at the moment. Retry in a few seconds.',
  },
  'payment status': {
    unchanged:
      'The payment cannot be looked up at the moment. Retry in a few seconds, and do not pay with another key meanwhile.',
    unknown:
      'The payment cannot be looked up at the moment. Retry in a few seconds, and do not pay with another key meanwhile.',
  },
  health: {
    unchanged: 'The key-value store cannot be reached. Retry in a few seconds.',
    unknown: 'The key-value store cannot be reached. Retry in a few seconds.',
  },
  read: { unchanged: READ, unknown: READ },
} as const;

/** A request names its payment by a key or by a reference. A caller that names a reference needs no rule for keys. */
export type NamedBy = 'key' | 'reference';

/** What the attempt before is, for programs, and what to do. */
const OUT_OF_TURN = {
  absent: ['previous-absent', 'and it was never made. Make it first, with the number before.'],
  'may be lost': [
    'previous-absent',
    'which has no record: rows were lost, and its row may be one of them. The processor has no record of this attempt either. Send the attempt with the number before; it is looked up first.',
  ],
  completed: ['previous-completed', 'and it is completed: the order is paid. Nothing was charged now.'],
  cancelled: ['previous-cancelled', 'and it was cancelled: the order is closed. Nothing was charged now.'],
  'declined too long ago': [
    'previous-too-old',
    'which it was so long ago that its record is about to be removed. Pay with another reference, or ask the payer.',
  ],
} as const;

interface NewestAttempt {
  readonly attempt: number;
  readonly state: 'PROCESSING' | 'COMPLETED' | 'DECLINED' | 'CANCELLED';
  readonly transactionId?: string | undefined;
}

/** Rows were lost, and of this attempt only the processor has a record. */
interface RecordAtProcessor {
  readonly attempt: number;
}

function whatBecameOf({ state, transactionId }: NewestAttempt): string {
  switch (state) {
    case 'COMPLETED':
      return `is completed with Transaction ID: ${transactionId}`;
    case 'DECLINED':
      return 'was declined too';
    case 'CANCELLED':
      return 'was cancelled';
    case 'PROCESSING':
      return 'is being processed';
  }
}

/** Long enough for a full disk or a restart to be noticed, short enough that a waiting payer does not give up. */
const STORE_RETRY_SECONDS = 2;

/** A body is received and answered in less. */
const BODY_RETRY_SECONDS = 2;

/** Longer than a restart of the processor and one round of recovery. */
const PROCESSOR_RETRY_SECONDS = 5;
/** Until a person has done something. */
const OPERATOR_RETRY_SECONDS = 60;

/** Most look-ups take less. */
const LOOK_UP_RETRY_SECONDS = 1;

/** On the 404 of a payment's record: what is certain of its key. */
const KEY_STATE_HEADER = 'Idempay-Key-State';

/** On each 422 about a reference or a cancellation: why, for programs. */
const ATTEMPT_STATE_HEADER = 'Idempay-Attempt-State';
export const ATTEMPT_STATES = [
  'previous-absent',
  'previous-completed',
  'previous-cancelled',
  'previous-too-old',
  'superseded',
  'mismatch',
  'completed',
  'declined',
  'outcome-at-processor',
  'other-client',
] as const;

function attemptRefused(state: (typeof ATTEMPT_STATES)[number], message: string): PublicError {
  return new PublicError(422, message, { [ATTEMPT_STATE_HEADER]: state });
}

const catalogue = {
  // Spec, table 7.
  missingIdempotencyKey: () => new PublicError(400, 'Missing Idempotency-Key header.'),
  invalidIdempotencyKey: () => new PublicError(400, 'Invalid or missing Idempotency-Key.'),
  paymentInProgress: (retryAfterSeconds: number) =>
    new PublicError(409, 'Payment is already being processed.', { 'Retry-After': String(retryAfterSeconds) }),
  paymentNotFound: () => new PublicError(404, 'No payment found for this Idempotency-Key.'),

  /** For a record that is not there. The header is for programs: only the first of the two permits another key without a person (docs/reference/api.md). */
  keyEndedUnpaid: () =>
    new PublicError(
      404,
      'No payment found for this Idempotency-Key. The key has expired unpaid: nothing was charged with it, and nothing can be.',
      { [KEY_STATE_HEADER]: 'expired-unpaid' },
    ),
  recordNotFound: () =>
    new PublicError(
      404,
      'No payment found for this Idempotency-Key, and it is not certain that nothing was charged with it. Look for the key at the processor before you pay with another one.',
      { [KEY_STATE_HEADER]: 'unknown' },
    ),

  // Payments, rules P4, P6, P11.
  paymentMismatch: () =>
    new PublicError(
      422,
      'This Idempotency-Key belongs to a payment of another amount or currency. Repeat that payment as it was, or read what was paid. A new key is for another payment only.',
    ),
  paymentDeclined: (reason: string) => new PublicError(402, `Payment declined: ${reason}`),
  /** Names the attempt, because the caller counts them: what asks again by itself must never pay again. */
  attemptDeclined: (reason: string, attempt: number) =>
    new PublicError(
      402,
      attempt < LAST_ATTEMPT
        ? `Payment declined: ${reason} (attempt ${attempt}). Where the payer wants to try again, send attempt=${attempt + 1}.`
        : `Payment declined: ${reason} (attempt ${attempt}, the last one). Pay with another reference, or another way.`,
    ),

  // References, rules P18 and P22.
  invalidReference: () =>
    new PublicError(
      400,
      "'reference' must name one order by 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : / @, sent once. A '+' is read as a blank.",
    ),
  referenceWithoutNumber: (lost: LostNumber) =>
    new PublicError(
      400,
      lost === 'absent value'
        ? "'reference' ends with 'undefined', 'null', 'NaN' or 'None': the number of the order is missing, and all such orders would share one payment. Send the order's own number."
        : "'reference' has only words or years, with a separator after each: the number of the order is missing, and all such orders would share one payment. Send the order's own number, encoded for a URL: '#' is %23.",
    ),
  withoutReference: (name: string) =>
    new PublicError(400, `'${name}' says which payment of a 'reference' is meant: send both.`),
  clientForOperators: () =>
    new PublicError(
      400,
      "'client' is for operators (scope 'operations'), once and not empty. Leave it out: a reference is your own.",
    ),
  /** Of `client=`: what no caller can be called, and what neither the file of API keys nor a payment knows. */
  unknownClient: () =>
    new PublicError(
      400,
      "'client' is not known: neither the file of API keys nor a payment has it. Send it exactly as the payment's record has it, such as 'key:shop'.",
    ),
  /** `other`: undefined for a payment from before clients were asked for. */
  referenceOfAnotherClient: (own: string, other: string | undefined) =>
    attemptRefused(
      'other-client',
      `No payment of this reference is yours (${own}), but one is of ${other ?? 'no client, from before AUTH was set'}. Say with 'client' whose reference is meant, also if it is your own.`,
    ),
  keyOfAnotherReference: () =>
    new PublicError(
      400,
      'This Idempotency-Key is not the key of that reference and attempt. Leave the header out: the reference is enough.',
    ),
  referenceMismatch: () =>
    attemptRefused(
      'mismatch',
      'This reference is a payment of another amount or currency, which is never paid by this one. Repeat that payment as it was, or read what was paid. Another order has another reference.',
    ),
  /** Not that nothing was charged: a charge whose row was lost, or of an attempt that an operator declined, may still arrive (rule P20). */
  paymentCancelled: () => new PublicError(410, 'The payment was cancelled. No charge will be sent for it.'),
  /** Its client must not take it for the answer above. */
  chargedAfterCancellation: () =>
    new PublicError(
      410,
      'The payment is cancelled, but the processor charged it. The charge has to be refunded, and nothing more is charged with this key.',
    ),
  attemptBeforeUnderWay: (attempt: number, retryAfterSeconds: number) =>
    new PublicError(
      409,
      `Attempt ${attempt - 1} is still being processed, so attempt ${attempt} may not begin. Retry it after Retry-After seconds.`,
      { 'Retry-After': String(retryAfterSeconds) },
    ),
  attemptOutOfTurn(attempt: number, previous: keyof typeof OUT_OF_TURN) {
    const [state, what] = OUT_OF_TURN[previous];
    return attemptRefused(state, `Attempt ${attempt} needs attempt ${attempt - 1} to be declined, ${what}`);
  },
  attemptSuperseded: (attempt: number, newest: NewestAttempt | RecordAtProcessor) =>
    attemptRefused(
      'superseded',
      'state' in newest
        ? `Attempt ${attempt} was declined, and attempt ${newest.attempt} ${whatBecameOf(newest)}. GET /api/payments?reference= has them all.`
        : `Rows were lost, and the processor has a record of attempt ${newest.attempt}, so attempt ${attempt} was declined before. Send attempt ${newest.attempt}: it is looked up, and the answer says what became of it.`,
    ),
  rowsLost: (retryAfterSeconds: number) =>
    new PublicError(
      503,
      'The database lost rows a moment ago, and a charge of before may still reach the processor, so nothing was begun. Retry the same after Retry-After seconds.',
      { 'Retry-After': String(retryAfterSeconds) },
    ),
  otherProcessorBeforeLoss: () =>
    new PublicError(
      503,
      'The database lost rows, and the payments before the loss were made at another processor, which alone knows what it charged, so nothing was begun. The operator has to compare them, and to set PROCESSOR_FORMER_NAMES or PROCESSOR_LOST_ROWS. Retry the same after Retry-After seconds.',
      { 'Retry-After': String(OPERATOR_RETRY_SECONDS) },
    ),
  cancelledTooLate: (transactionId: string) =>
    attemptRefused(
      'completed',
      `The payment is completed with Transaction ID: ${transactionId}. It can be refunded, and not cancelled.`,
    ),
  cancelledAfterDecline: (attempt: number | undefined) =>
    attemptRefused(
      'declined',
      attempt === undefined
        ? 'The payment was declined, so there is nothing to cancel. If an operator declined it, and not the processor, its charge may still arrive.'
        : `Attempt ${attempt} was declined. To close the order, cancel attempt=${attempt + 1}. If an operator declined it, and not the processor, its charge may still arrive.`,
    ),
  cancelledAtProcessor: () =>
    attemptRefused(
      'outcome-at-processor',
      'The processor has an outcome of this payment, whose row was lost. Repeat the payment to have it recorded; nothing is charged twice.',
    ),
  tooManyPayments: (retryAfterSeconds: number, by: NamedBy) =>
    new PublicError(
      503,
      by === 'key'
        ? 'Too many payments are being processed at the moment, and nothing was begun for this one. Retry it after Retry-After seconds with the same Idempotency-Key.'
        : 'Too many payments are being processed at the moment, and nothing was begun for this one. Repeat the same request after Retry-After seconds.',
      { 'Retry-After': String(retryAfterSeconds) },
    ),
  paymentNotSent: (by: NamedBy) =>
    new PublicError(
      503,
      by === 'key'
        ? 'The payment processor cannot be reached, so nothing was charged yet. The payment is under way and will be charged: repeat it with the same Idempotency-Key only.'
        : 'The payment processor cannot be reached, so nothing was charged yet. The payment is under way and will be charged: repeat the same request only.',
      { 'Retry-After': String(PROCESSOR_RETRY_SECONDS) },
    ),
  paymentOutcomeUnknown: (by: NamedBy) =>
    new PublicError(
      504,
      by === 'key'
        ? 'The outcome of the payment is not known yet: retry with the same Idempotency-Key.'
        : 'The outcome of the payment is not known yet: repeat the same request.',
    ),

  // What operators ask of payments.
  paymentFinal: (state: string) =>
    new PublicError(409, `The payment is ${state}, which is final: it cannot be resolved.`),
  resolutionTooEarly: (retryAfterSeconds: number) =>
    new PublicError(
      409,
      'The service may still find out the outcome of this payment itself. Resolve it when Retry-After has passed.',
      { 'Retry-After': String(retryAfterSeconds) },
    ),
  otherProcessor: (processor: string) =>
    new PublicError(
      409,
      `The payment was claimed with the processor ${processor}, which this service does not use: ask there, or start a service with its PROCESSOR_URL and PROCESSOR_ACCOUNT.`,
    ),
  tooManyLookUps: () =>
    new PublicError(
      503,
      'The processor is being asked for too many payments at the moment, and was not asked for this one. Retry after Retry-After seconds.',
      { 'Retry-After': String(LOOK_UP_RETRY_SECONDS) },
    ),

  // Transactions, rules T4, T5, T7, T9, T10.
  invalidCreationKey: () =>
    new PublicError(
      400,
      'Idempotency-Key must be 1 to 64 visible ASCII characters without spaces, sent once: for example a UUID. Correct it, or leave it out.',
    ),
  creationMismatch: () =>
    new PublicError(
      422,
      'This Idempotency-Key has created something else. Repeat that request as it was, or send another key.',
    ),
  transactionNotFound: (id: string) => new PublicError(404, `Transaction not found for id: ${id}`),
  invalidTransactionId: () =>
    new PublicError(400, 'The transaction id in the path must be a positive whole number without leading zeros.'),
  transactionFinal: (status: string) =>
    new PublicError(409, `The transaction is ${status}, which is final: its status cannot be changed.`),

  /** `what`: the resource whose tag the request names. */
  preconditionFailed: (what: 'transaction' | 'list' | 'payment' | 'page') =>
    new PublicError(
      412,
      `The ${what} does not meet If-Match or If-None-Match of this request: read it again and repeat with its new ETag.`,
    ),

  // Bodies and requests as such, rules G1, P3.
  invalidBody: (problem: string) => new PublicError(400, problem),
  unreadableBody: unreadable,
  emptyBody: () => unreadable('it is empty. Send a JSON object.'),
  unsupportedMediaType: () =>
    new PublicError(415, 'Send the body as JSON in UTF-8, uncompressed, with Content-Type: application/json.'),
  bodyTooLarge: (limitBytes: number) =>
    new PublicError(413, `The request body must not exceed ${limitBytes} bytes, with all its members.`),
  tooManyBodies: () =>
    new CountedError(
      'bodies',
      503,
      'Too many request bodies are being received at the moment, and nothing was begun for this one. Retry it after Retry-After seconds.',
      { 'Retry-After': String(BODY_RETRY_SECONDS) },
    ),
  invalidRequest: (problem: string) => new PublicError(400, problem),
  invalidHost: () => new PublicError(400, 'Send one Host header with a valid value.'),
  repeatedHeader: () => new PublicError(400, 'Send one Content-Type, and one Authorization.'),
  invalidFraming: (problem: string) => new PublicError(400, problem),
  invalidPath: () => new PublicError(400, 'The path is not validly percent-encoded.'),
  noConsole: () =>
    new PublicError(
      404,
      'This build has no console. Build it with `npm run build`, or install the package, which has it.',
    ),
  unknownRoute: () => new PublicError(404, 'There is nothing at this path. Check the path against the documentation.'),
  methodNotAllowed: (allow: string) =>
    new PublicError(405, `This path does not take that method. Use ${allow}.`, { Allow: allow }),
  unknownMethod: () => new PublicError(501, 'This method is not known here. Use DELETE, GET, HEAD, POST or PUT.'),
  unknownVersion: () => new PublicError(505, 'Send the request as HTTP/1.1.'),
  unknownTransferCoding: () => new PublicError(501, 'Send the body in no transfer coding other than chunked.'),
  uriTooLong: (limitCharacters: number) =>
    new PublicError(414, `The request target must not exceed ${limitCharacters} characters.`),
  expectationFailed: () => new PublicError(417, 'Send no Expect header, or Expect: 100-continue.'),
  keyNotFound: (key: string) => new PublicError(404, `Key '${key}' not found.`),

  // Access, rules A1 to A4; the challenges are those of RFC 6750 3.
  credentialsMissing: () =>
    new CountedError('credentials', 401, 'Send an API key or a token: Authorization: Bearer <credential>.', {
      'WWW-Authenticate': 'Bearer',
    }),
  credentialsInvalid: () =>
    new CountedError(
      'credentials',
      401,
      'The API key or token is unknown, expired, or not for this service. Send a valid one.',
      {
        'WWW-Authenticate': 'Bearer error="invalid_token"',
      },
    ),
  credentialsUnchecked: () =>
    new CountedError(
      'credentials_unchecked',
      503,
      'The token cannot be checked at the moment, and nothing was begun. Retry in a few seconds.',
      {
        'Retry-After': String(STORE_RETRY_SECONDS),
      },
    ),
  scopeMissing: (scopes: readonly string[]) =>
    new CountedError('scope', 403, `Your API key or token lacks the scope ${scopes.join(' or ')}.`, {
      'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scopes[0]}"`,
    }),
  misdirected: () =>
    new PublicError(
      421,
      'Without AUTH the service answers to the names of its own machine only, such as localhost. Ask for it by one of them, or set AUTH.',
    ),

  otherSite: () =>
    new PublicError(
      403,
      'Without AUTH a page of another site may not ask this service. Ask from a program, from a page of the same origin, or set AUTH.',
    ),

  // The service itself.
  /** Surely nothing was changed. */
  storeUnavailable: (cause: StoreUnavailable, operation: Operation) =>
    new PublicError(503, UNAVAILABLE[operation].unchanged, { 'Retry-After': String(STORE_RETRY_SECONDS) }, cause),
  storeOutcomeUnknown(cause: StoreUnavailable, operation: Operation) {
    // Without Retry-After, so that no client automatically repeats a create that may have happened.
    const mayDouble = /^create transactions?$/.test(operation);
    const headers: Record<string, string> = mayDouble ? {} : { 'Retry-After': String(STORE_RETRY_SECONDS) };
    return new PublicError(503, UNAVAILABLE[operation].unknown, headers, cause);
  },
  tooManyLists: (cause?: AllSnapshotsInUse) =>
    new PublicError(
      503,
      "Too many long lists are being read at the moment. Retry in a few seconds, or ask for a shorter list with 'from' and 'to'.",
      { 'Retry-After': String(STORE_RETRY_SECONDS) },
      cause,
    ),
  tooManyUnpaidKeys: () =>
    new CountedError(
      'unpaid_keys',
      503,
      'Redis is nearly full of keys that were not paid with, and nothing was begun for this one. Pay with a reference, or retry after Retry-After seconds.',
      { 'Retry-After': String(STORE_RETRY_SECONDS) },
    ),
  tooManyWatchers: () =>
    new PublicError(
      503,
      'The live view of this process has no free place, or the process is stopping. Close another live view, or retry in a few seconds.',
      { 'Retry-After': String(STORE_RETRY_SECONDS) },
    ),
  tooManyRequests: (perMinute: number, retryAfterSeconds: number) =>
    new CountedError(
      'rate_limit',
      429,
      `At most ${perMinute} requests a minute are served to one client, and nothing was begun for this one. Retry it after Retry-After seconds.`,
      { 'Retry-After': String(retryAfterSeconds) },
    ),
  tooManyConnections: () =>
    new PublicError(
      503,
      'Too many connections are open at the moment, and nothing was begun for this request. Retry in a few seconds.',
      { 'Retry-After': String(STORE_RETRY_SECONDS) },
    ),
  starting: () =>
    new PublicError(503, 'The service is starting, and nothing was begun for this request. Retry in a few seconds.', {
      'Retry-After': String(STORE_RETRY_SECONDS),
    }),
  draining: () =>
    new PublicError(503, 'This process is stopping: send new requests to another one.', {
      'Retry-After': String(STORE_RETRY_SECONDS),
    }),
  storeOfRecordAway: () =>
    new PublicError(503, 'The store of record cannot be reached, or takes no writes. Retry in a few seconds.', {
      'Retry-After': String(STORE_RETRY_SECONDS),
    }),
  storeUnreachable: () =>
    new PublicError(503, UNAVAILABLE.health.unchanged, { 'Retry-After': String(STORE_RETRY_SECONDS) }),
  /** What the framework refuses in its own words. */
  refused: (status: number, message: string) => new PublicError(status, message),
  internal: (cause: unknown) => new PublicError(500, 'The service failed to answer this request.', {}, cause),
} satisfies Readonly<Record<ProblemName, (...parts: never) => PublicError>>;

function unreadable(problem: string): PublicError {
  return new PublicError(400, `The request body cannot be read: ${problem}`);
}

/** Every error knows the entry that made it. */
export const publicErrors: typeof catalogue = named(catalogue);

function named<Entries extends Readonly<Record<string, (...parts: never) => PublicError>>>(entries: Entries): Entries {
  const withNames = Object.entries(entries).map(([name, make]) => [
    name,
    (...parts: never) => Object.assign(make(...parts), { problem: name }),
  ]);
  return Object.fromEntries(withNames) as Entries;
}

/** A read that failed changed nothing, whatever became of it. */
export function storeRefusal(cause: StoreUnavailable, operation: Operation = 'read'): PublicError {
  const { unchanged, unknown } = UNAVAILABLE[operation];
  const isUnknown = cause.effect === 'unknown' && unknown !== unchanged;
  return isUnknown
    ? publicErrors.storeOutcomeUnknown(cause, operation)
    : publicErrors.storeUnavailable(cause, operation);
}
