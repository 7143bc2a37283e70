import { LAST_ATTEMPT, type LostNumber } from '../../payments/values/reference.js';
import type { AllSnapshotsInUse, StoreUnavailable } from '../../platform/faults.js';
import { FIRST_TRANSACTION_ID } from '../../transactions/transaction.js';
import { type Problem, PublicError, type Said } from './public-error.js';

/** In every example that has one. */
export const EXAMPLE_KEY = '019abcde-1c1a-7f3e-8b5a-2f6c1d9e4b70';
export const EXAMPLE_PAYMENT_ID = 'TXN1763640000000000000001';
export const EXAMPLE_REFUND_ID = 'TXN1763726400000000000001';
export const EXAMPLE_REFUND_KEY = 'f3a7c1d0-52b4-8e19-9c6d-0f4b8e2a7d15';

/** Kinds of requests that have their own advice for when a store cannot serve them. */
export type Operation = keyof typeof UNAVAILABLE;

const READ = 'This cannot be read at the moment. Retry in a few seconds.';

/** The advice when a store cannot serve an operation: `unchanged` when surely nothing was written. */
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
  refund: {
    unchanged:
      'Nothing can be given back at the moment; nothing was changed. Repeat the same request, with the same name.',
    unknown:
      'The store failed while the refund was being made, so its outcome is not known. Repeat the same request, with the same name: nothing is given back twice.',
  },
  'resolve payment': {
    unchanged: 'The payment cannot be resolved at the moment; nothing was changed. Retry in a few seconds.',
    unknown:
      'The store failed while the outcome was being stored, so it may or may not be stored. Send the same outcome again: it is stored once.',
  },
  'change webhook': {
    unchanged: 'The webhook cannot be changed at the moment; nothing was changed. Retry in a few seconds.',
    unknown: 'It is not known whether the webhook was changed. Send the same again.',
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

/** The state of the attempt before, for programs, and the advice. */
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
    'which it was, but so long ago that its record is about to be removed. Pay with another reference, or ask the payer.',
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
/** The payer of the attempt before has this time before a client asks again. */
const PENDING_RETRY_SECONDS = 5;
/** The payment is asked about, or given up, in about this time. */
const REFUND_RETRY_SECONDS = 5;
/** Until a person has done something. */
const OPERATOR_RETRY_SECONDS = 60;

/** Most look-ups take less. */
const LOOK_UP_RETRY_SECONDS = 1;

/** On the 404 of a payment's record: what is certain of its key. */
const KEY_STATE_HEADER = 'Idempay-Key-State';

/** On the 410s of the feed of settlements: the time to begin again from. */
const SETTLEMENTS_FROM_HEADER = 'Idempay-Settlements-From';

/** The reason, for programs, on each 422 and on some 409 about a reference or a cancellation. */
const ATTEMPT_STATE_HEADER = 'Idempay-Attempt-State';
export const ATTEMPT_STATES = [
  'previous-absent',
  'previous-pending',
  'previous-completed',
  'previous-cancelled',
  'previous-too-old',
  'superseded',
  'mismatch',
  'completed',
  'declined',
  'not-begun',
  'cannot-be-ended',
  'outcome-at-processor',
  'other-client',
] as const;

type Message = string | Said;

interface Entry<Parts extends readonly unknown[], Example extends string> extends Omit<Problem, 'name'> {
  readonly message: Message | ((...parts: Parts) => Message);
  /** Parts of messages, by the names of their examples in the description. If omitted, the one example has the name of the entry. */
  readonly examples?: Readonly<Record<Example, Parts>>;
}

const SAME_AGAIN = 'Repeat the same request after Retry-After seconds.';
const CORRECT = 'Correct the request, and send it again with the same key.';
const CORRECT_REFERENCE = 'Correct the query. Nothing was begun.';
const OTHER_ATTEMPT = 'Read all attempts with GET /api/payments?reference=. Idempay-Attempt-State has the reason.';
const WITH_CREDENTIALS = 'Send a valid API key or token. The request changed nothing.';

/**
 * Every error that a client gets, once (spec 2.5 and 7, rules G1 and P20): `publicErrors.paymentInProgress(1)` makes it, and a route names
 * its examples. The name of an entry is the type that programs act on, so it never changes.
 */
const CATALOGUE = {
  // Spec, table 7.
  missingIdempotencyKey: entry({
    status: 400,
    title: 'The request has no Idempotency-Key.',
    action: 'Send the key, or name the order by reference.',
    message: 'Missing Idempotency-Key header.',
  }),
  invalidIdempotencyKey: entry({
    status: 400,
    title: 'The key was never issued, or it has expired, paid or unpaid.',
    action:
      'Look the payment up with GET /api/payments/{key} before you take another key: a key that was paid expires as well.',
    message: 'Invalid or missing Idempotency-Key.',
  }),
  paymentInProgress: entry({
    status: 409,
    title: 'Another request with this key is being processed.',
    action: SAME_AGAIN,
    message: (retryAfterSeconds: number) => after(retryAfterSeconds, 'Payment is already being processed.'),
    examples: { paymentInProgress: [1] },
  }),
  paymentNotFound: entry({
    status: 404,
    title: 'No completed payment is known for this key.',
    action:
      'It may be under way, declined, cancelled or lost: GET /api/payments/{key} has its state. It does not permit another key.',
    message: 'No payment found for this Idempotency-Key.',
  }),

  /** For a record that is not there. The header is for programs: only the first of the two permits another key without a person (docs/reference/api.md). */
  keyEndedUnpaid: entry({
    status: 404,
    title: 'The key has expired unpaid, and nothing can be charged with it.',
    action: 'A new key is safe.',
    message: {
      text: 'No payment found for this Idempotency-Key. The key has expired unpaid: nothing was charged with it, and nothing can be.',
      headers: { [KEY_STATE_HEADER]: 'expired-unpaid' },
    },
  }),
  recordNotFound: entry({
    status: 404,
    title: 'No record of this key is kept, and it may have been charged.',
    action: 'Look for the key at the processor before you pay with another one.',
    message: {
      text: 'No payment found for this Idempotency-Key, and it is not certain that nothing was charged with it. Look for the key at the processor before you pay with another one.',
      headers: { [KEY_STATE_HEADER]: 'unknown' },
    },
  }),

  // Payments, rules P4, P6, P11.
  paymentMismatch: entry({
    status: 422,
    title: 'The key belongs to a payment of another amount or currency.',
    action: 'Repeat that payment as it was, or read what was paid.',
    message:
      'This Idempotency-Key belongs to a payment of another amount or currency. Repeat that payment as it was, or read what was paid. A new key is for another payment only.',
  }),
  paymentDeclined: entry({
    status: 402,
    title: 'The payment was declined.',
    action: 'It is final. Paying again needs another key.',
    message: (reason: string) => `Payment declined: ${reason}`,
    examples: { paymentDeclined: ['insufficient funds'] },
  }),
  /** Names the attempt, because the caller counts them: a program that asks again by itself must never pay again. */
  attemptDeclined: entry({
    status: 402,
    title: 'This attempt was declined.',
    action: 'If the payer tries again, send the next attempt.',
    message: (reason: string, attempt: number) =>
      attempt < LAST_ATTEMPT
        ? `Payment declined: ${reason} (attempt ${attempt}). If the payer wants to try again, send attempt=${attempt + 1}.`
        : `Payment declined: ${reason} (attempt ${attempt}, the last one). Pay with another reference, or another way.`,
    examples: { attemptDeclined: ['insufficient funds', 1] },
  }),

  // References, rules P18 and P22.
  invalidReference: entry({
    status: 400,
    title: 'The reference is not one of the permitted form.',
    action: CORRECT_REFERENCE,
    message:
      "'reference' must name one order by 1 to 128 of the characters A-Z a-z 0-9 - . _ ~ : / @, sent once. A '+' is read as a blank.",
  }),
  referenceWithoutNumber: entry({
    status: 400,
    title: 'The number of the order is missing in the reference.',
    action: CORRECT_REFERENCE,
    message: (lost: LostNumber) =>
      lost === 'absent value'
        ? "'reference' ends with 'undefined', 'null', 'NaN', 'None', 'false', 'nil' or the UUID of zeros: the number of the order is missing, and all such orders would share one payment. Send the order's own number."
        : "'reference' has only words or years, with a separator after each: the number of the order is missing, and all such orders would share one payment. Send the order's own number, encoded for a URL: '#' is %23.",
    examples: { referenceWithoutNumber: ['absent value'], referenceOfWordsAlone: ['words alone'] },
  }),
  withoutReference: entry({
    status: 400,
    title: 'A parameter of a reference was sent without the reference.',
    action: CORRECT_REFERENCE,
    message: (name: string) =>
      name === 'only'
        ? "'only' ends one attempt at a 'reference', so that another one may follow: send both."
        : `'${name}' says which payment of a 'reference' is meant: send both.`,
    examples: {
      attemptWithoutReference: ['attempt'],
      clientWithoutReference: ['client'],
      onlyWithoutReference: ['only'],
    },
  }),
  clientForOperators: entry({
    status: 400,
    title: 'Only operators name the client of a reference.',
    action: CORRECT_REFERENCE,
    message:
      "'client' is for operators (scope 'operations'), once and not empty. Leave it out: a reference is your own.",
    examples: { invalidClient: [] },
  }),
  /** A `client=` that no caller can have, or that neither the file of API keys nor a payment knows. */
  unknownClient: entry({
    status: 400,
    title: 'No client of this name is known.',
    action: CORRECT_REFERENCE,
    message:
      "'client' is not known: neither the file of API keys nor a payment has it. Send it exactly as the payment's record has it, such as 'key:shop'.",
  }),
  /** `other`: undefined for a payment from before clients were asked for. */
  referenceOfAnotherClient: entry({
    status: 422,
    title: 'Another client has a payment of this reference, and you have none.',
    action: 'Name the client whose reference is meant. Nothing was begun.',
    message: (own: string, other: string | undefined) =>
      attemptRefused(
        'other-client',
        `No payment of this reference is yours (${own}), but one is of ${other ?? 'no client, from before AUTH was set'}. Say with 'client' whose reference is meant, also if it is your own.`,
      ),
    examples: { referenceOfAnotherClient: ['key:operator', 'key:shop'] },
  }),
  keyOfAnotherReference: entry({
    status: 400,
    title: 'The Idempotency-Key is not that of the reference.',
    action: 'Leave the header out.',
    message:
      'This Idempotency-Key is not the key of that reference and attempt. Leave the header out: the reference is enough.',
  }),
  referenceMismatch: entry({
    status: 422,
    title: 'The reference is a payment of another amount or currency.',
    action: 'Repeat that payment as it was. Another order has another reference.',
    message: attemptRefused(
      'mismatch',
      'This reference is a payment of another amount or currency, which is never paid by this one. Repeat that payment as it was, or read what was paid. Another order has another reference.',
    ),
  }),
  /** Not that nothing was charged: a charge whose row was lost, or of an attempt that an operator declined, may still arrive (rule P20). */
  paymentCancelled: entry({
    status: 410,
    title: 'The payment was cancelled.',
    action: 'No charge will be sent for it. If charge is none, nothing was charged either.',
    message: 'The payment was cancelled. No charge will be sent for it.',
  }),
  /** Its client must not take it for the answer above. */
  chargedAfterCancellation: entry({
    status: 410,
    title: 'The payment was cancelled, and charged all the same.',
    action: 'Refund it at the processor: its row had been lost before it was cancelled.',
    message:
      'The payment is cancelled, but the processor charged it. The charge has to be refunded, and nothing more is charged with this key.',
  }),
  attemptBeforeUnderWay: entry({
    status: 409,
    title: 'The attempt before this one is still being processed.',
    action: SAME_AGAIN,
    message: (attempt: number, retryAfterSeconds: number) =>
      after(
        retryAfterSeconds,
        `Attempt ${attempt - 1} is still being processed, so attempt ${attempt} may not begin. Retry it after Retry-After seconds.`,
      ),
    examples: { attemptBeforeUnderWay: [2, 1] },
  }),
  /** The attempt before may wait for days, so a program must not simply repeat the request. */
  attemptBeforePending: entry({
    status: 409,
    title: 'The attempt before this one is pending: its payer may still confirm it.',
    action: 'Ask for that attempt, or end it: POST /api/payment-cancellation with only=attempt.',
    message: (attempt: number) =>
      attemptRefused(
        'previous-pending',
        `Attempt ${attempt - 1} is pending, and its payer may still confirm it, so attempt ${attempt} may not begin. End attempt ${attempt - 1} with only=attempt, or wait for its outcome.`,
        PENDING_RETRY_SECONDS,
      ),
    examples: { attemptBeforePending: [2] },
  }),
  attemptOutOfTurn: entry({
    status: 422,
    title: 'The attempt before this one was not declined, or was declined too long ago.',
    action: OTHER_ATTEMPT,
    message(attempt: number, previous: keyof typeof OUT_OF_TURN) {
      const [state, what] = OUT_OF_TURN[previous];
      return attemptRefused(state, `Attempt ${attempt} needs attempt ${attempt - 1} to be declined, ${what}`);
    },
    examples: {
      attemptBeforeAbsent: [2, 'absent'],
      attemptBeforeCompleted: [2, 'completed'],
      attemptBeforeCancelled: [2, 'cancelled'],
      attemptTooLate: [2, 'declined too long ago'],
      attemptMayBeLost: [2, 'may be lost'],
    },
  }),
  attemptSuperseded: entry({
    status: 422,
    title: 'A later attempt at this reference was made.',
    action: OTHER_ATTEMPT,
    message: (attempt: number, newest: NewestAttempt | RecordAtProcessor) =>
      attemptRefused(
        'superseded',
        'state' in newest
          ? `Attempt ${attempt} was declined, and attempt ${newest.attempt} ${whatBecameOf(newest)}. GET /api/payments?reference= has them all.`
          : `Rows were lost, and the processor has a record of attempt ${newest.attempt}, so attempt ${attempt} was declined before. Send attempt ${newest.attempt}: it is looked up, and the answer says what became of it.`,
      ),
    examples: {
      attemptSuperseded: [1, { attempt: 2, state: 'COMPLETED', transactionId: EXAMPLE_PAYMENT_ID }],
      attemptSupersededAtProcessor: [1, { attempt: 2 }],
    },
  }),
  rowsLost: entry({
    status: 503,
    title: 'The database lost rows, and earlier charges may still arrive.',
    action: SAME_AGAIN,
    message: (retryAfterSeconds: number) =>
      after(
        retryAfterSeconds,
        'The database lost rows a moment ago, and a charge that was sent before may still reach the processor, so nothing was begun. Retry the same after Retry-After seconds.',
      ),
    examples: { rowsLost: [40] },
  }),
  otherProcessorBeforeLoss: entry({
    status: 503,
    title: 'Rows were lost, and the payments before the loss were made at another processor.',
    action: SAME_AGAIN,
    message: after(
      OPERATOR_RETRY_SECONDS,
      'The database lost rows, and the payments before the loss were made at another processor, which alone knows what it charged, so nothing was begun. The operator has to compare them, and to set PROCESSOR_FORMER_NAMES or PROCESSOR_LOST_ROWS. Retry the same after Retry-After seconds.',
    ),
  }),
  cancelledTooLate: entry({
    status: 422,
    title: 'The payment is completed, so it cannot be cancelled.',
    action: 'Refund it at the processor.',
    message: (transactionId: string) =>
      attemptRefused(
        'completed',
        `The payment is completed with Transaction ID: ${transactionId}. It can be refunded, and not cancelled.`,
      ),
    examples: { completedBefore: [EXAMPLE_PAYMENT_ID] },
  }),
  cancelledAfterDecline: entry({
    status: 422,
    title: 'The payment was declined, so there is nothing to cancel.',
    action: 'Cancel the next attempt to close the order.',
    message: (attempt: number | undefined) =>
      attemptRefused(
        'declined',
        attempt === undefined
          ? 'The payment was declined, so there is nothing to cancel. If an operator declined it, and not the processor, its charge may still arrive.'
          : `Attempt ${attempt} was declined. To close the order, cancel attempt=${attempt + 1}. If an operator declined it, and not the processor, its charge may still arrive.`,
      ),
    examples: { declinedBefore: [undefined], attemptDeclinedBefore: [1] },
  }),
  cancelledAtProcessor: entry({
    status: 422,
    title: 'The processor has an outcome of a payment whose row was lost.',
    action: 'Repeat the payment to have its outcome recorded.',
    message: attemptRefused(
      'outcome-at-processor',
      'The processor has an outcome of this payment, whose row was lost. Repeat the payment to have it recorded; nothing is charged twice.',
    ),
    examples: { chargedBefore: [] },
  }),
  cannotBeEnded: entry({
    status: 409,
    title: 'The payment cannot be ended at the processor.',
    action: 'Wait for its outcome, or try again later.',
    message: attemptRefused(
      'cannot-be-ended',
      'The payment cannot be ended at the processor now, so it is under way as before, and its outcome will come. Try again after Retry-After seconds.',
      OPERATOR_RETRY_SECONDS,
    ),
  }),
  nothingToEnd: entry({
    status: 422,
    title: 'The attempt was never begun, so there is nothing to end.',
    action: 'Pay it, or cancel it without only=attempt to close the order.',
    message: (attempt: number) =>
      attemptRefused(
        'not-begun',
        `Attempt ${attempt} was never begun, so there is nothing to end. To close the order, leave out only=attempt.`,
      ),
    examples: { nothingToEnd: [2] },
  }),
  tooManyPayments: entry({
    status: 503,
    title: 'Too many payments are being processed.',
    action: SAME_AGAIN,
    message: (retryAfterSeconds: number, by: NamedBy) =>
      after(
        retryAfterSeconds,
        by === 'key'
          ? 'Too many payments are being processed at the moment, and nothing was begun for this one. Retry it after Retry-After seconds with the same Idempotency-Key.'
          : 'Too many payments are being processed at the moment, and nothing was begun for this one. Repeat the same request after Retry-After seconds.',
      ),
    examples: { tooManyPayments: [1, 'key'] },
  }),
  paymentNotSent: entry({
    status: 503,
    title: 'The processor cannot be reached; the payment will be charged.',
    action: SAME_AGAIN,
    message: (by: NamedBy) =>
      after(
        PROCESSOR_RETRY_SECONDS,
        by === 'key'
          ? 'The payment processor cannot be reached, so nothing was charged yet. The payment is under way and will be charged: repeat it with the same Idempotency-Key only.'
          : 'The payment processor cannot be reached, so nothing was charged yet. The payment is under way and will be charged: repeat the same request only.',
      ),
    examples: { paymentNotSent: ['key'] },
  }),
  /** The answer is only for callers that understand pending payments. */
  pendingUnanswered: entry({
    status: 503,
    title: 'The payment is pending, and the processor did not say what its payer can do.',
    action: SAME_AGAIN,
    message: (by: NamedBy) =>
      after(
        PROCESSOR_RETRY_SECONDS,
        by === 'key'
          ? 'The payment is pending, and the processor does not answer at the moment. It may still be charged: repeat it with the same Idempotency-Key only.'
          : 'The payment is pending, and the processor does not answer at the moment. It may still be charged: repeat the same request only.',
      ),
    examples: { pendingUnanswered: ['key'] },
  }),
  paymentOutcomeUnknown: entry({
    status: 504,
    title: 'The outcome of the payment is not known yet.',
    action: 'Repeat the same request.',
    message: (by: NamedBy) =>
      by === 'key'
        ? 'The outcome of the payment is not known yet: retry with the same Idempotency-Key.'
        : 'The outcome of the payment is not known yet: repeat the same request.',
    examples: { paymentOutcomeUnknown: ['key'] },
  }),

  // Refunds, rule P26. No text advises to pay, or to take another name: another name is another refund.
  invalidRefund: entry({
    status: 400,
    title: 'The request names no refund, or the name does not have the permitted form.',
    action: 'Name the refund by `refund` in the query. Nothing was given back.',
    message:
      "'refund' must name this refund of the payment: 1 to 128 of A-Z a-z 0-9 - . _ ~ : / @, sent once, and with the number that tells it from others, such as order-17-line-2. Repeat a refund with the same name.",
  }),
  refundOfNoPayment: entry({
    status: 404,
    title: 'No payment is known that could be refunded.',
    action: 'Correct the key or the reference. If rows were lost, refund it at the processor.',
    message: (mayBeLost: boolean) =>
      mayBeLost
        ? 'No payment found. Rows were lost, and its row may be one of them: look for it at the processor, and refund it there.'
        : 'No payment found that could be refunded. Nothing was given back.',
    examples: { refundOfNoPayment: [false], refundOfLostPayment: [true] },
  }),
  refundOfUnpaid: entry({
    status: 422,
    title: 'The payment charged nothing, so nothing can be given back.',
    action: 'Read the payment.',
    message: (state: string) => `The payment is ${state}, so there is nothing to give back.`,
    examples: { refundOfUnpaid: ['DECLINED'] },
  }),
  refundTooEarly: entry({
    status: 409,
    title: 'The payment is not completed yet.',
    action: SAME_AGAIN,
    message: after(
      REFUND_RETRY_SECONDS,
      'The payment is not completed yet, so nothing can be given back. Repeat the same request after Retry-After seconds, or end the payment.',
    ),
  }),
  refundOfOtherCurrency: entry({
    status: 422,
    title: 'A refund is made in the currency of its payment.',
    action: 'Send the amount in that currency.',
    message: (currency: string) =>
      `The payment was made in ${currency}, and is refunded in ${currency} only. Nothing was given back.`,
    examples: { refundOfOtherCurrency: ['EUR'] },
  }),
  refundTooLarge: entry({
    status: 422,
    title: 'The payment has less left than is to be given back.',
    action: 'Send at most what is left. The refunds of the payment are listed.',
    message: (left: string, currency: string) =>
      `The payment has ${left} ${currency} left to give back, which is less than this refund asks for. Nothing was given back.`,
    examples: { refundTooLarge: ['12.50', 'USD'] },
  }),
  refundMismatch: entry({
    status: 422,
    title: 'A refund of this name has another amount.',
    action: 'Repeat it as it was. Another refund needs another name.',
    message:
      'The payment has a refund of this name, with another amount. Repeat it as it was. A new name is for another refund only.',
  }),
  refundDeclined: entry({
    status: 402,
    title: 'The refund was declined.',
    action: 'It is final. Ask the processor, or give the money back in another way.',
    message: (reason: string) => `Refund declined: ${reason}`,
    examples: { refundDeclined: ['the charge is disputed'] },
  }),
  refundInProgress: entry({
    status: 409,
    title: 'The refund is under way.',
    action: SAME_AGAIN,
    message: (retryAfterSeconds: number) => after(retryAfterSeconds, 'The refund is already being processed.'),
    examples: { refundInProgress: [1] },
  }),
  refundTooLate: entry({
    status: 409,
    title: 'The record of the payment is about to be removed.',
    action: 'Refund it at the processor.',
    message:
      'The record of the payment is about to be removed, so it cannot be refunded here any more. Nothing was given back. Refund it at the processor.',
  }),
  refundOfOtherProcessor: entry({
    status: 409,
    title: 'The payment was charged by a processor that this service does not use.',
    action: 'Refund it at that processor, or start a service with its settings.',
    message: (processor: string) =>
      `The payment was charged by the processor ${processor}, which this service does not use: refund it there, or start a service with its settings. Nothing was given back.`,
    examples: { refundOfOtherProcessor: ['acme'] },
  }),
  refundsNotSupported: entry({
    status: 501,
    title: 'The adapter of the processor does not know refunds.',
    action: 'Refund the payment at the processor, or use an adapter of contract 3.',
    message:
      'The adapter of the processor does not know refunds (contract 3), so nothing was given back, and nothing was written. Refund the payment at the processor.',
  }),
  refundsUnchecked: entry({
    status: 503,
    title: 'The processor does not say if it knows refunds.',
    action: SAME_AGAIN,
    message: after(
      PROCESSOR_RETRY_SECONDS,
      'The processor does not answer at the moment, so nothing was given back, and nothing was written. Repeat the same request after Retry-After seconds.',
    ),
  }),
  tooManyRefunds: entry({
    status: 503,
    title: 'Too many refunds are being made.',
    action: SAME_AGAIN,
    message: (retryAfterSeconds: number) =>
      after(
        retryAfterSeconds,
        'Too many refunds are being made at the moment, and nothing was begun for this one. Repeat the same request after Retry-After seconds.',
      ),
    examples: { tooManyRefunds: [1] },
  }),
  refundNotSent: entry({
    status: 503,
    title: 'The processor cannot be reached; the money will be given back.',
    action: 'Repeat the same request, with the same name.',
    message: after(
      PROCESSOR_RETRY_SECONDS,
      'The payment processor cannot be reached, so nothing was given back yet. The refund is under way and will be made: repeat the same request only, with the same name.',
    ),
  }),
  refundOutcomeUnknown: entry({
    status: 504,
    title: 'The outcome of the refund is not known yet.',
    action: 'Repeat the same request, with the same name.',
    message:
      'The outcome of the refund is not known yet: repeat the same request, with the same name. Another name would be another refund.',
  }),

  // Operators' requests about payments.
  settlementsIncarnation: entry({
    status: 410,
    title: 'The feed of settlements has begun anew, because rows may be lost or a clock was set back.',
    action:
      'Begin again with the time in Idempay-Settlements-From as `from`. Settlements that come again have the same keys.',
    message: (from: string) =>
      beginAgain(
        from,
        'Settlements before this cursor may not have been shown: rows may be lost, or a clock was set back.',
      ),
    examples: { settlementsIncarnation: ['2026-11-20T12:50:02.000000Z'] },
  }),
  settlementsRemoved: entry({
    status: 410,
    title: 'Retention has removed settlements after this place of the feed.',
    action:
      'Begin again with the time in Idempay-Settlements-From as `from`. Settlements between are not shown any more; an export made before may have them.',
    message: (from: string) => beginAgain(from, 'Settlements after this place were removed by PAYMENT_RETENTION_DAYS.'),
    examples: { settlementsRemoved: ['2026-11-20T13:00:02.000001Z'] },
  }),
  paymentFinal: entry({
    status: 409,
    title: 'The payment is final, so it cannot be resolved.',
    action: 'Read it.',
    message: (state: string) => `The payment is ${state}, which is final: it cannot be resolved.`,
    examples: { paymentFinal: ['COMPLETED'] },
  }),
  resolutionTooEarly: entry({
    status: 409,
    title: 'The service may still find out the outcome itself.',
    action: SAME_AGAIN,
    message: (retryAfterSeconds: number, isPending: boolean) =>
      after(
        retryAfterSeconds,
        isPending
          ? 'The service may still find out the outcome of this payment, which is pending at the processor. Resolve it when Retry-After has passed: an hour after its end was expected, or 30 days after it was begun.'
          : 'The service may still find out the outcome of this payment itself. Resolve it when Retry-After has passed.',
      ),
    examples: { resolutionTooEarly: [3600, false], resolutionTooEarlyPending: [3600, true] },
  }),
  otherProcessor: entry({
    status: 409,
    title: 'The payment belongs to a processor that this service does not use.',
    action: 'Ask at that processor, or start a service with its settings.',
    message: (processor: string) =>
      `The payment was claimed with the processor ${processor}, which this service does not use: ask there, or start a service with its PROCESSOR_URL and PROCESSOR_ACCOUNT.`,
    examples: { otherProcessor: ['acme'] },
  }),
  tooManyLookUps: entry({
    status: 503,
    title: 'The processor is being asked for too many payments.',
    action: SAME_AGAIN,
    message: after(
      LOOK_UP_RETRY_SECONDS,
      'The processor is being asked for too many payments at the moment, and was not asked for this one. Retry after Retry-After seconds.',
    ),
  }),

  // Transactions, rules T4, T5, T7, T9, T10.
  invalidCreationKey: entry({
    status: 400,
    title: 'The Idempotency-Key of a create is not of the permitted form.',
    action: CORRECT,
    message:
      'Idempotency-Key must be 1 to 64 visible ASCII characters without spaces, sent once: for example a UUID. Correct it, or leave it out.',
  }),
  creationMismatch: entry({
    status: 422,
    title: 'The Idempotency-Key has created something else.',
    action: 'Repeat that request as it was, or send another key.',
    message: 'This Idempotency-Key has created something else. Repeat that request as it was, or send another key.',
  }),
  transactionNotFound: entry({
    status: 404,
    title: 'No transaction has this id.',
    action: 'It was never created, or was deleted.',
    message: (id: string) => `Transaction not found for id: ${id}`,
    examples: { transactionNotFound: [String(FIRST_TRANSACTION_ID)] },
  }),
  invalidTransactionId: entry({
    status: 400,
    title: 'The path has no valid transaction id.',
    action: CORRECT,
    message: 'The transaction id in the path must be a positive whole number without leading zeros.',
  }),
  transactionFinal: entry({
    status: 409,
    title: 'The status of the transaction is final.',
    action: 'Read the transaction.',
    message: (status: string) => `The transaction is ${status}, which is final: its status cannot be changed.`,
    examples: { isFAILED: ['FAILED'], isCANCELLED: ['CANCELLED'] },
  }),

  /** `what`: the resource whose tag the request names. */
  preconditionFailed: entry({
    status: 412,
    title: 'The resource does not meet If-Match or If-None-Match.',
    action: 'Read it again, and repeat with its new ETag.',
    message: (what: 'transaction' | 'list' | 'payment' | 'page') =>
      `The ${what} does not meet If-Match or If-None-Match of this request: read it again and repeat with its new ETag.`,
    examples: { preconditionFailed: ['page'] },
  }),

  // Bodies and requests as such, rules G1, P3. The code that reads a member or a parameter has its sentence.
  invalidBody: entry({
    status: 400,
    title: 'A member of the body is missing or wrong.',
    action: CORRECT,
    message: (problem: string) => problem,
    examples: { invalidBody: ["'amount' is missing."] },
  }),
  unreadableBody: entry({
    status: 400,
    title: 'The body is not JSON that can be read.',
    action: CORRECT,
    message: unreadable,
    examples: { unreadableBody: ['it is not valid UTF-8.'] },
  }),
  emptyBody: entry({
    status: 400,
    title: 'The body is empty.',
    action: CORRECT,
    message: unreadable('it is empty. Send a JSON object.'),
  }),
  unsupportedMediaType: entry({
    status: 415,
    title: 'The body is not JSON by its media type or coding.',
    action: CORRECT,
    message: 'Send the body as JSON in UTF-8, uncompressed, with Content-Type: application/json.',
  }),
  bodyTooLarge: entry({
    status: 413,
    title: 'The body is too large.',
    action: CORRECT,
    message: (limitBytes: number) => `The request body must not exceed ${limitBytes} bytes, with all its members.`,
    examples: { bodyTooLarge: [16_384] },
  }),
  tooManyBodies: entry({
    status: 503,
    title: 'Too many bodies are being received.',
    action: SAME_AGAIN,
    countedAs: 'bodies',
    message: after(
      BODY_RETRY_SECONDS,
      'Too many request bodies are being received at the moment, and nothing was begun for this one. Retry it after Retry-After seconds.',
    ),
  }),
  invalidRequest: entry({
    status: 400,
    title: 'A parameter is missing, wrong or unknown.',
    action: CORRECT,
    message: (problem: string) => problem,
    examples: { invalidRequest: ["'day' must be a day in UTC such as 2026-11-20."] },
  }),
  invalidHost: entry({
    status: 400,
    title: 'The Host header is missing or invalid.',
    action: CORRECT,
    message: 'Send one Host header with a valid value.',
  }),
  repeatedHeader: entry({
    status: 400,
    title: 'A header that may be sent once was sent twice.',
    action: CORRECT,
    message: 'Send one Content-Type, and one Authorization.',
  }),
  invalidFraming: entry({
    status: 400,
    title: 'The transfer coding does not say where the body ends.',
    action: CORRECT,
    message: (problem: string) => problem,
    examples: { invalidFraming: ['HTTP/1.0 has no Transfer-Encoding.'] },
  }),
  invalidPath: entry({
    status: 400,
    title: 'The path is not validly percent-encoded.',
    action: CORRECT,
    message: 'The path is not validly percent-encoded.',
  }),
  invalidQuery: entry({
    status: 400,
    title: 'The query is not validly percent-encoded.',
    action: CORRECT,
    message: 'The query is not validly percent-encoded UTF-8.',
  }),
  noConsole: entry({
    status: 404,
    title: 'This build has no console.',
    action: 'Build it, or install the package.',
    message: 'This build has no console. Build it with `npm run build`, or install the package, which has it.',
  }),
  unknownRoute: entry({
    status: 404,
    title: 'There is nothing at this path.',
    action: 'Check the path.',
    message: 'There is nothing at this path. Check the path against the documentation.',
  }),
  methodNotAllowed: entry({
    status: 405,
    title: 'The path does not take this method.',
    action: 'Use a method that Allow names.',
    message: (allow: string) => ({
      text: `This path does not take that method. Use ${allow}.`,
      headers: { Allow: allow },
    }),
    examples: { methodNotAllowed: ['GET, HEAD'] },
  }),
  unknownMethod: entry({
    status: 501,
    title: 'The service does not know this method.',
    action: 'Use DELETE, GET, HEAD, POST or PUT.',
    message: 'This method is not known here. Use DELETE, GET, HEAD, POST or PUT.',
  }),
  unknownVersion: entry({
    status: 505,
    title: 'The version of HTTP is not spoken here.',
    action: 'Use HTTP/1.1.',
    message: 'Send the request as HTTP/1.1.',
  }),
  unknownTransferCoding: entry({
    status: 501,
    title: 'The transfer coding is not known here.',
    action: 'Use chunked, or none.',
    message: 'Send the body in no transfer coding other than chunked.',
  }),
  uriTooLong: entry({
    status: 414,
    title: 'The target of the request is too long.',
    action: CORRECT,
    message: (limitCharacters: number) => `The request target must not exceed ${limitCharacters} characters.`,
    examples: { uriTooLong: [10_000] },
  }),
  expectationFailed: entry({
    status: 417,
    title: 'The Expect header asks for something unknown.',
    action: 'Leave it out.',
    message: 'Send no Expect header, or Expect: 100-continue.',
  }),
  webhookNotFound: entry({
    status: 404,
    title: 'No endpoint of this name was ever served.',
    action: 'GET /api/webhooks has all of them. One that is new in WEBHOOKS_FILE is there within seconds.',
    message: (name: string) => `Webhook '${name}' not found.`,
    examples: { webhookNotFound: ['shop'] },
  }),
  keyNotFound: entry({
    status: 404,
    title: 'The key-value store has no such key.',
    action: 'It was never there, or it has expired.',
    message: (key: string) => `Key '${key}' not found.`,
    examples: { keyNotFound: [EXAMPLE_KEY] },
  }),

  // Access, rules A1 to A4; the challenges follow RFC 6750 3.
  credentialsMissing: entry({
    status: 401,
    title: 'The request has no credentials.',
    action: WITH_CREDENTIALS,
    countedAs: 'credentials',
    message: challenged('Bearer', 'Send an API key or a token: Authorization: Bearer <credential>.'),
  }),
  credentialsInvalid: entry({
    status: 401,
    title: 'The credentials are unknown, expired, or not for this service.',
    action: WITH_CREDENTIALS,
    countedAs: 'credentials',
    message: challenged(
      'Bearer error="invalid_token"',
      'The API key or token is unknown, expired, or not for this service. Send a valid one.',
    ),
  }),
  credentialsUnchecked: entry({
    status: 503,
    title: 'The token cannot be checked at the moment.',
    action: SAME_AGAIN,
    countedAs: 'credentials_unchecked',
    message: after(
      STORE_RETRY_SECONDS,
      'The token cannot be checked at the moment, and nothing was begun. Retry in a few seconds.',
    ),
  }),
  scopeMissing: entry({
    status: 403,
    title: 'The credentials lack a scope.',
    action: 'Send credentials that have it. The request changed nothing.',
    countedAs: 'scope',
    message: (scopes: readonly string[]) =>
      challenged(
        `Bearer error="insufficient_scope", scope="${scopes[0]}"`,
        `Your API key or token lacks the scope ${scopes.join(' or ')}.`,
      ),
    examples: { scopeMissing: [['payments:write']] },
  }),
  misdirected: entry({
    status: 421,
    title: 'The service answers to names of its own machine only.',
    action: 'Ask by such a name, or set AUTH.',
    message:
      'Without AUTH the service answers to the names of its own machine only, such as localhost. Ask for it by one of them, or set AUTH.',
  }),
  otherSite: entry({
    status: 403,
    title: 'A page of another site may not ask this service.',
    action: 'Ask from a page of the same origin, or set AUTH.',
    message:
      'Without AUTH a page of another site may not ask this service. Ask from a program, from a page of the same origin, or set AUTH.',
  }),

  // The service itself.
  /** Surely nothing was changed. */
  storeUnavailable: entry({
    status: 503,
    title: 'A store is down; this request changed nothing.',
    action: SAME_AGAIN,
    message: (operation: Operation, cause?: StoreUnavailable) => ({
      ...after(STORE_RETRY_SECONDS, UNAVAILABLE[operation].unchanged),
      cause,
    }),
    examples: { storeUnavailable: ['read'], storeUnavailableWithKey: ['create once'] },
  }),
  storeOutcomeUnknown: entry({
    status: 503,
    title: 'A store failed; whether the request took effect is not known.',
    action:
      'Do what the detail says: most requests are repeated as they were; a create without a key is looked for first.',
    message(operation: Operation, cause?: StoreUnavailable) {
      const text = UNAVAILABLE[operation].unknown;
      // Without Retry-After, so that no client automatically repeats a create that may have happened.
      const mayDouble = /^create transactions?$/.test(operation);
      return mayDouble ? { text, cause } : { ...after(STORE_RETRY_SECONDS, text), cause };
    },
    examples: { storeOutcomeUnknown: ['pay'], storeOutcomeUnknownWithKey: ['create once'] },
  }),
  tooManyLists: entry({
    status: 503,
    title: 'Too many long lists are being read.',
    action: SAME_AGAIN,
    message: (cause?: AllSnapshotsInUse) => ({
      ...after(
        STORE_RETRY_SECONDS,
        "Too many long lists are being read at the moment. Retry in a few seconds, or ask for a shorter list with 'from' and 'to'.",
      ),
      cause,
    }),
    examples: { tooManyLists: [] },
  }),
  tooManyUnpaidKeys: entry({
    status: 503,
    title: 'Redis is nearly full of unpaid keys.',
    action: SAME_AGAIN,
    countedAs: 'unpaid_keys',
    message: after(
      STORE_RETRY_SECONDS,
      'Redis is nearly full of keys that were not paid with, and nothing was begun for this one. Pay with a reference, or retry after Retry-After seconds.',
    ),
  }),
  tooManyRequests: entry({
    status: 429,
    title: 'The client has sent too many requests.',
    action: SAME_AGAIN,
    countedAs: 'rate_limit',
    message: (perMinute: number, retryAfterSeconds: number) =>
      after(
        retryAfterSeconds,
        `At most ${perMinute} requests a minute are served to one client, and nothing was begun for this one. Retry it after Retry-After seconds.`,
      ),
    examples: { tooManyRequests: [600, 2] },
  }),
  tooManyConnections: entry({
    status: 503,
    title: 'Too many connections are open.',
    action: SAME_AGAIN,
    message: after(
      STORE_RETRY_SECONDS,
      'Too many connections are open at the moment, and nothing was begun for this request. Retry in a few seconds.',
    ),
  }),
  starting: entry({
    status: 503,
    title: 'The service is starting.',
    action: SAME_AGAIN,
    message: after(
      STORE_RETRY_SECONDS,
      'The service is starting, and nothing was begun for this request. Retry in a few seconds.',
    ),
  }),
  draining: entry({
    status: 503,
    title: 'This process is stopping.',
    action: 'Send the request to another process.',
    message: after(STORE_RETRY_SECONDS, 'This process is stopping: send new requests to another one.'),
  }),
  storeOfRecordAway: entry({
    status: 503,
    title: 'The store of record is down.',
    action: SAME_AGAIN,
    message: after(
      STORE_RETRY_SECONDS,
      'The store of record cannot be reached, or takes no writes. Retry in a few seconds.',
    ),
  }),
  storeUnreachable: entry({
    status: 503,
    title: 'The key-value store is down.',
    action: SAME_AGAIN,
    message: after(STORE_RETRY_SECONDS, UNAVAILABLE.health.unchanged),
  }),
  /** A refusal of Node or the framework: its own words, or a sentence about them. */
  refused: entry({
    status: 'several',
    title: 'The request was refused by its form.',
    action: CORRECT,
    message: (status: number, text: string) => ({ status, text }),
    examples: { refused: [400, 'The request is not valid HTTP.'] },
  }),
  internal: entry({
    status: 500,
    title: 'The service failed to answer.',
    action: 'Repeat the same request; its outcome is not known.',
    message: (cause?: unknown) => ({ text: 'The service failed to answer this request.', cause }),
    examples: { internal: [] },
  }),
};

type Catalogue = typeof CATALOGUE;
export type ErrorName = keyof Catalogue;
type PublicErrors = {
  readonly [Name in ErrorName]: Catalogue[Name] extends Entry<infer Parts, string>
    ? (...parts: Parts) => PublicError
    : never;
};

/** An entry whose parts are not known. */
interface AnyEntry extends Omit<Entry<never, string>, 'examples'> {
  readonly examples?: Readonly<Record<string, readonly unknown[]>>;
}
const ENTRIES = Object.entries<AnyEntry>(CATALOGUE) as [ErrorName, AnyEntry][];

/** The meaning of each error, by the name of its entry. */
export const PROBLEMS = Object.fromEntries(
  ENTRIES.map(([name, { status, title, action, countedAs }]) => {
    const type = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    return [name, { name: type, status, title, action, countedAs }];
  }),
) as Readonly<Record<ErrorName, Problem>>;

/** Each entry of the catalogue by its name: makes the error for one request. */
export const publicErrors = Object.fromEntries(
  ENTRIES.map(([name, { message }]) => {
    const make = (...parts: never): PublicError => {
      const said = typeof message === 'function' ? message(...parts) : message;
      return new PublicError(PROBLEMS[name], typeof said === 'string' ? { text: said } : said);
    };
    return [name, make];
  }),
) as PublicErrors;

/** The examples of all entries, by their names. */
export type ExampleName = {
  [Name in ErrorName]: Catalogue[Name] extends Entry<infer _Parts, infer Example>
    ? [Example] extends [never]
      ? Name
      : Example
    : never;
}[ErrorName];

export const EXAMPLE_ERRORS = Object.fromEntries(
  ENTRIES.flatMap(([name, { examples = { [name]: [] } }]) => {
    const make = publicErrors[name] as (...parts: readonly unknown[]) => PublicError;
    return Object.entries(examples).map(([example, parts]) => [example, make(...parts)]);
  }),
) as Readonly<Record<ExampleName, PublicError>>;

/** A read that failed changed nothing, whatever became of it. */
export function storeRefusal(cause: StoreUnavailable, operation: Operation = 'read'): PublicError {
  const { unchanged, unknown } = UNAVAILABLE[operation];
  const isUnknown = cause.effect === 'unknown' && unknown !== unchanged;
  return isUnknown
    ? publicErrors.storeOutcomeUnknown(operation, cause)
    : publicErrors.storeUnavailable(operation, cause);
}

type EntryOf<Parts extends readonly unknown[]> = Omit<Entry<Parts, never>, 'examples'>;

/** Gives an entry its type. One whose message has parts needs an example. */
function entry<Parts extends readonly unknown[], Example extends string>(
  the: EntryOf<Parts> & { readonly examples: Readonly<Record<Example, NoInfer<Parts>>> },
): Entry<Parts, Example>;
function entry(the: EntryOf<[]>): Entry<[], never>;
function entry<Of>(the: Of): Of {
  return the;
}

function beginAgain(from: string, why: string): Said {
  const text = `${why} Begin again with from=${from}: some settlements then come again, with the same keys.`;
  return { text, headers: { [SETTLEMENTS_FROM_HEADER]: from }, members: { from } };
}

function after(seconds: number, text: string): Said {
  return { text, headers: { 'Retry-After': String(seconds) } };
}

function attemptRefused(state: (typeof ATTEMPT_STATES)[number], text: string, retryAfterSeconds?: number): Said {
  const retry = retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) };
  return { text, headers: { [ATTEMPT_STATE_HEADER]: state, ...retry } };
}

function challenged(challenge: string, text: string): Said {
  return { text, headers: { 'WWW-Authenticate': challenge } };
}

function unreadable(problem: string): string {
  return `The request body cannot be read: ${problem}`;
}
