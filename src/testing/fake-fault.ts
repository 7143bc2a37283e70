import type { FakePending } from './fake-exchange.js';

const OPERATIONS = [
  'generateKey',
  'pay',
  'cancelPayment',
  'refund',
  'getPaymentStatus',
  'getPayment',
  'listRefunds',
  'listPayments',
  'exportPayments',
  'resolvePayment',
  'createTransaction',
  'createTransactions',
  'listTransactions',
  'searchTransactions',
  'getTransaction',
  'changeTransactionStatus',
  'removeTransaction',
] as const;
export type FakeOperation = (typeof OPERATIONS)[number];

/** The fault of one request of an operation. Without an operation: of any. */
export type FakeFault<Operation extends FakeOperation = FakeOperation> =
  | FakeConnectionFault
  | (Operation extends 'pay' | 'refund' ? FakeProcessorFault : never)
  /** The processor cannot end the payment, which is under way or pending: a `NotCancelledError`, and its outcome will come. */
  | (Operation extends 'cancelPayment' ? 'cannot-be-ended' : never);

/** A fault of the connection, or an answer in place of the service's own. Every operation may meet one. */
export type FakeConnectionFault =
  /** The connection fails before the request arrives, or after all its work was done. */
  | { readonly lose: 'request' | 'answer' }
  /** All the work is done, and half of the answer arrives. */
  | { readonly cut: true }
  /** Answered with this status, before anything is done, or after all of it. */
  | { readonly status: number; readonly after?: true; readonly retryAfterSeconds?: number };

/** A result that the processor gives to a payment or a refund. */
export type FakeProcessorFault =
  /** The processor declines for this reason. A reference may then be paid with the next attempt; a declined refund frees its part of the payment. */
  | { readonly decline: string }
  /** It is pending until `confirm` or `refuse` is called. A cancellation ends a payment, too. */
  | { readonly pending: FakePending }
  /** It is carried out, but the processor's reply is lost: 504, and the next repeat finds the charge or the refund. */
  | 'unknown';

/** Throws a TypeError for a fault that would do nothing, because the test would pass without it. */
export function requireFault(operation: FakeOperation, fault: FakeFault): void {
  if (!OPERATIONS.includes(operation)) {
    throw new TypeError(`'${operation}' is no operation of the fake. There are ${OPERATIONS.join(', ')}.`);
  }
  const isOfProcessor = operation === 'pay' || operation === 'refund';
  if (isConnectionFault(fault) || (isOfProcessor && isProcessorFault(fault))) return;
  if (operation === 'cancelPayment' && fault === 'cannot-be-ended') return;
  const ofProcessor = isOfProcessor ? ", { decline: 'a reason' }, { pending: {} }, 'unknown'" : '';
  const ofEnding = operation === 'cancelPayment' ? ", 'cannot-be-ended'" : '';
  throw new TypeError(
    `${JSON.stringify(fault)} is no fault of '${operation}'. There are { lose: 'request' or 'answer' }, { cut: true }, { status: 503 }${ofProcessor}${ofEnding}.`,
  );
}

function isConnectionFault(fault: FakeFault): boolean {
  if (typeof fault !== 'object' || fault === null) return false;
  if ('lose' in fault) return fault.lose === 'request' || fault.lose === 'answer';
  if ('status' in fault) return Number.isInteger(fault.status);
  return 'cut' in fault && fault.cut;
}

function isProcessorFault(fault: FakeFault): boolean {
  if (typeof fault !== 'object' || fault === null) return fault === 'unknown';
  if ('decline' in fault) return typeof fault.decline === 'string';
  return 'pending' in fault && typeof fault.pending === 'object' && fault.pending !== null;
}
