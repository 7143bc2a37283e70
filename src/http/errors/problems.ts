/** One type of RFC 9457: what programs act on, and what the page `/problems` says of it. */
export interface Problem {
  /** `several` where the status is not the same each time. */
  readonly status: number | 'several';
  /** What it means. */
  readonly title: string;
  /** What the client should do. */
  readonly action: string;
}

const SAME_AGAIN = 'Repeat the same request after Retry-After seconds.';
const CORRECT = 'Correct the request, and send it again with the same key.';
const CORRECT_REFERENCE = 'Correct the query. Nothing was begun.';
const OTHER_ATTEMPT = 'Read all attempts with GET /api/payments?reference=. Idempay-Attempt-State has the reason.';
const WITH_CREDENTIALS = 'Send a valid API key or token. The request changed nothing.';

/** Every public error, by its name in the catalogue. The names of types are made of these, and never change. */
export const PROBLEMS = {
  missingIdempotencyKey: problem(
    400,
    'The request has no Idempotency-Key.',
    'Send the key, or name the order by reference.',
  ),
  invalidIdempotencyKey: problem(
    400,
    'The key was never issued, or it has expired, paid or unpaid.',
    'Look the payment up with GET /api/payments/{key} before you take another key: a key that was paid expires as well.',
  ),
  paymentInProgress: problem(409, 'Another request with this key is being processed.', SAME_AGAIN),
  paymentNotFound: problem(
    404,
    'No completed payment is known for this key.',
    'It may be under way, declined, cancelled or lost: GET /api/payments/{key} has its state. It does not permit another key.',
  ),
  keyEndedUnpaid: problem(404, 'The key has expired unpaid, and nothing can be charged with it.', 'A new key is safe.'),
  recordNotFound: problem(
    404,
    'No record of this key is kept, and it may have been charged.',
    'Look for the key at the processor before you pay with another one.',
  ),
  paymentMismatch: problem(
    422,
    'The key belongs to a payment of another amount or currency.',
    'Repeat that payment as it was, or read what was paid.',
  ),
  paymentDeclined: problem(402, 'The payment was declined.', 'It is final. Paying again needs another key.'),
  attemptDeclined: problem(402, 'This attempt was declined.', 'Where the payer tries again, send the next attempt.'),
  invalidReference: problem(400, 'The reference is not one of the permitted form.', CORRECT_REFERENCE),
  referenceWithoutNumber: problem(400, 'The number of the order is missing in the reference.', CORRECT_REFERENCE),
  withoutReference: problem(400, 'A parameter of a reference was sent without the reference.', CORRECT_REFERENCE),
  clientForOperators: problem(400, 'Only operators name the client of a reference.', CORRECT_REFERENCE),
  unknownClient: problem(400, 'No client of this name is known.', CORRECT_REFERENCE),
  referenceOfAnotherClient: problem(
    422,
    'Another client has a payment of this reference, and you have none.',
    'Name the client whose reference is meant. Nothing was begun.',
  ),
  keyOfAnotherReference: problem(400, 'The Idempotency-Key is not that of the reference.', 'Leave the header out.'),
  referenceMismatch: problem(
    422,
    'The reference is a payment of another amount or currency.',
    'Repeat that payment as it was. Another order has another reference.',
  ),
  paymentCancelled: problem(
    410,
    'The payment was cancelled.',
    'No charge will be sent for it. If charge is none, nothing was charged either.',
  ),
  chargedAfterCancellation: problem(
    410,
    'The payment was cancelled, and charged all the same.',
    'Refund it at the processor: its row had been lost before it was cancelled.',
  ),
  attemptBeforeUnderWay: problem(409, 'The attempt before this one is still being processed.', SAME_AGAIN),
  attemptOutOfTurn: problem(422, 'The attempt before this one was not declined, or too long ago.', OTHER_ATTEMPT),
  attemptSuperseded: problem(422, 'A later attempt at this reference was made.', OTHER_ATTEMPT),
  rowsLost: problem(503, 'The database lost rows, and earlier charges may still arrive.', SAME_AGAIN),
  otherProcessorBeforeLoss: problem(
    503,
    'Rows were lost, and the payments before the loss were made at another processor.',
    SAME_AGAIN,
  ),
  cancelledTooLate: problem(422, 'The payment is completed, so it cannot be cancelled.', 'Refund it at the processor.'),
  cancelledAfterDecline: problem(
    422,
    'The payment was declined, so there is nothing to cancel.',
    'Cancel the next attempt to close the order.',
  ),
  cancelledAtProcessor: problem(
    422,
    'The processor has an outcome of a payment whose row was lost.',
    'Repeat the payment to have its outcome recorded.',
  ),
  tooManyPayments: problem(503, 'Too many payments are being processed.', SAME_AGAIN),
  paymentNotSent: problem(503, 'The processor cannot be reached; the payment will be charged.', SAME_AGAIN),
  paymentOutcomeUnknown: problem(504, 'The outcome of the payment is not known yet.', 'Repeat the same request.'),
  paymentFinal: problem(409, 'The payment is final, so it cannot be resolved.', 'Read it.'),
  resolutionTooEarly: problem(409, 'The service may still find out the outcome itself.', SAME_AGAIN),
  otherProcessor: problem(
    409,
    'The payment belongs to a processor that this service does not use.',
    'Ask at that processor, or start a service with its settings.',
  ),
  tooManyLookUps: problem(503, 'The processor is being asked for too many payments.', SAME_AGAIN),
  invalidCreationKey: problem(400, 'The Idempotency-Key of a create is not of the permitted form.', CORRECT),
  creationMismatch: problem(
    422,
    'The Idempotency-Key has created something else.',
    'Repeat that request as it was, or send another key.',
  ),
  transactionNotFound: problem(404, 'No transaction has this id.', 'It was never created, or was deleted.'),
  invalidTransactionId: problem(400, 'The path has no valid transaction id.', CORRECT),
  transactionFinal: problem(409, 'The status of the transaction is final.', 'Read the transaction.'),
  preconditionFailed: problem(
    412,
    'The resource does not meet If-Match or If-None-Match.',
    'Read it again, and repeat with its new ETag.',
  ),
  invalidBody: problem(400, 'A member of the body is missing or wrong.', CORRECT),
  unreadableBody: problem(400, 'The body is not JSON that can be read.', CORRECT),
  emptyBody: problem(400, 'The body is empty.', CORRECT),
  unsupportedMediaType: problem(415, 'The body is not JSON by its media type or coding.', CORRECT),
  bodyTooLarge: problem(413, 'The body is too large.', CORRECT),
  tooManyBodies: problem(503, 'Too many bodies are being received.', SAME_AGAIN),
  invalidRequest: problem(400, 'A parameter is missing, wrong or unknown.', CORRECT),
  invalidHost: problem(400, 'The Host header is missing or invalid.', CORRECT),
  repeatedHeader: problem(400, 'A header that may be sent once was sent twice.', CORRECT),
  invalidPath: problem(400, 'The path is not validly percent-encoded.', CORRECT),
  invalidFraming: problem(400, 'The transfer coding does not say where the body ends.', CORRECT),
  noConsole: problem(404, 'This build has no console.', 'Build it, or install the package.'),
  unknownRoute: problem(404, 'There is nothing at this path.', 'Check the path.'),
  methodNotAllowed: problem(405, 'The path does not take this method.', 'Use a method that Allow names.'),
  unknownMethod: problem(501, 'The service does not know this method.', 'Use DELETE, GET, HEAD, POST or PUT.'),
  unknownVersion: problem(505, 'The version of HTTP is not spoken here.', 'Use HTTP/1.1.'),
  unknownTransferCoding: problem(501, 'The transfer coding is not known here.', 'Use chunked, or none.'),
  uriTooLong: problem(414, 'The target of the request is too long.', CORRECT),
  expectationFailed: problem(417, 'The Expect header asks for something unknown.', 'Leave it out.'),
  keyNotFound: problem(404, 'The key-value store has no such key.', 'It was never there, or it has expired.'),
  credentialsMissing: problem(401, 'The request has no credentials.', WITH_CREDENTIALS),
  credentialsInvalid: problem(401, 'The credentials are unknown, expired, or not for this service.', WITH_CREDENTIALS),
  credentialsUnchecked: problem(503, 'The token cannot be checked at the moment.', SAME_AGAIN),
  scopeMissing: problem(
    403,
    'The credentials lack a scope.',
    'Send credentials that have it. The request changed nothing.',
  ),
  misdirected: problem(
    421,
    'The service answers to names of its own machine only.',
    'Ask by such a name, or set AUTH.',
  ),
  otherSite: problem(
    403,
    'A page of another site may not ask this service.',
    'Ask from a page of the same origin, or set AUTH.',
  ),
  storeUnavailable: problem(503, 'A store is down; this request changed nothing.', SAME_AGAIN),
  storeOutcomeUnknown: problem(
    503,
    'A store failed; whether the request took effect is not known.',
    'Do what the detail says: most requests are repeated as they were; a create without a key is looked for first.',
  ),
  tooManyLists: problem(503, 'Too many long lists are being read.', SAME_AGAIN),
  tooManyUnpaidKeys: problem(503, 'Redis is nearly full of unpaid keys.', SAME_AGAIN),
  tooManyWatchers: problem(503, 'The live view has no free place.', SAME_AGAIN),
  tooManyRequests: problem(429, 'The client has sent too many requests.', SAME_AGAIN),
  tooManyConnections: problem(503, 'Too many connections are open.', SAME_AGAIN),
  starting: problem(503, 'The service is starting.', SAME_AGAIN),
  draining: problem(503, 'This process is stopping.', 'Send the request to another process.'),
  storeOfRecordAway: problem(503, 'The store of record is down.', SAME_AGAIN),
  storeUnreachable: problem(503, 'The key-value store is down.', SAME_AGAIN),
  refused: problem('several', 'The request was refused by its form.', CORRECT),
  internal: problem(500, 'The service failed to answer.', 'Repeat the same request; its outcome is not known.'),
} satisfies Readonly<Record<string, Problem>>;

/** An entry of the catalogue of public errors. */
export type ProblemName = keyof typeof PROBLEMS;

function problem(status: Problem['status'], title: string, action: string): Problem {
  return { status, title, action };
}

/** `payment-in-progress`, as in `/problems#payment-in-progress`. */
export function problemNameOf(name: ProblemName): string {
  return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** A relative reference (RFC 9457 3.1.1), so that it holds wherever the service is served. */
export function problemTypeOf(name: ProblemName): string {
  return `/problems#${problemNameOf(name)}`;
}
