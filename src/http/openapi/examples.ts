import { ExportTotals } from '../../payments/history/export-totals.js';
import type { ShownPayment } from '../../payments/history/payment-records.js';
import { paymentJson } from '../../payments/history/payment-representation.js';
import type { ClaimedPayment } from '../../payments/ports/payment-history.js';
import { transactionJson } from '../../transactions/representation.js';
import { FIRST_TRANSACTION_ID, type Transaction } from '../../transactions/transaction.js';
import { publicErrorOf } from '../errors/errors.js';
import { PublicError, publicErrors } from '../errors/public-errors.js';
import { type JsonBody, readJsonBody } from '../requests/json-body.js';
import { foundTransactionJson } from '../transactions/reply.js';

/** The examples are written by the functions that write the answers, so that they cannot say anything else. */
export const EXAMPLE_KEY = '019abcde-1c1a-7f3e-8b5a-2f6c1d9e4b70';
export const EXAMPLE_PAYMENT_ID = 'TXN1763640000000000000001';
export const EXAMPLE_TRANSACTION_ID = String(FIRST_TRANSACTION_ID);

const transaction: Transaction = {
  id: FIRST_TRANSACTION_ID,
  fromAccount: 'alice',
  toAccount: 'bob',
  amount: '12.34',
  status: 'PENDING',
  createdAt: Date.UTC(2026, 10, 20, 13),
  version: 1,
};

const completed: ClaimedPayment = {
  key: EXAMPLE_KEY,
  reference: undefined,
  attempt: undefined,
  state: 'COMPLETED',
  amount: '100.50',
  currency: 'USD',
  transactionId: EXAMPLE_PAYMENT_ID,
  client: undefined,
  processor: 'simulated',
  executions: 1,
  claimedAt: Date.UTC(2026, 10, 20, 13, 0, 1),
  settledAt: Date.UTC(2026, 10, 20, 13, 0, 2),
  reason: undefined,
  resolution: undefined,
};

export const exampleTransaction = (changes: Partial<Transaction> = {}): unknown =>
  JSON.parse(transactionJson({ ...transaction, ...changes }));

export const exampleFoundTransaction = (): unknown => JSON.parse(foundTransactionJson(transaction));

export const examplePayment = (changes: Partial<ClaimedPayment> = {}): unknown => shown({ ...completed, ...changes });
export const pendingPayment = (): unknown => shown({ state: 'PENDING', key: EXAMPLE_KEY });
export function exportText(): string {
  const totals = new ExportTotals();
  totals.add([completed]);
  return `${paymentJson(completed, undefined)}\n${totals.json()}\n`;
}

function shown(payment: ShownPayment): unknown {
  return JSON.parse(paymentJson(payment, undefined));
}

/** The refusal that `read` has for something. A mistake of a description ends the start. */
export function refusalBy(read: () => unknown): PublicError {
  try {
    read();
  } catch (error) {
    if (error instanceof PublicError) return error;
    throw error;
  }
  throw new Error('the example of a refusal was not refused');
}

/** The refusals of bodies, by the names of their examples. */
export function refusalsOf(
  judge: (body: JsonBody) => unknown,
  bodies: Readonly<Record<string, string>>,
): Readonly<Record<string, PublicError>> {
  return Object.fromEntries(
    Object.entries(bodies).map(([name, text]) => [name, refusalBy(() => judge(readJsonBody(Buffer.from(text))))]),
  );
}

/** For a judge that returns its sentence. */
export function throwProblem(result: object): void {
  if ('problem' in result) throw publicErrors.invalidBody(String(result.problem));
}

/** What the framework says of a query in which `name` stands twice. */
export function repeatedParameter(name: string): PublicError {
  const message = 'a parameter of the query stands there twice';
  return publicErrorOf(
    Object.assign(new Error(message), {
      code: 'FST_ERR_VALIDATION',
      name: 'FastifyError',
      validation: [{ keyword: '', instancePath: `/${name}`, schemaPath: '', params: {} }],
      validationContext: 'querystring' as const,
    }),
  );
}
