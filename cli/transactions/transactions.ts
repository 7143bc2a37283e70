import { randomUUID } from 'node:crypto';
import type { NewTransaction, Transaction, TransactionFilter, TransactionStatus } from '#idempay/client';
import { type ConnectionOptions, connect } from '../connection.js';
import { confirm } from '../output/confirmation.js';
import { type ExportOptions, exportRows } from '../output/export.js';
import { type Column, firstOf, type OutputOptions, printRecord, printRows } from '../output/results.js';
import { UsageError } from '../usage.js';

type Common = ConnectionOptions & OutputOptions;
type Condition = { readonly ifMatch?: string | undefined };

const COLUMNS: readonly Column<Transaction>[] = [
  { title: 'id', of: ({ transactionId }) => transactionId },
  { title: 'from', of: ({ fromAccount }) => fromAccount },
  { title: 'to', of: ({ toAccount }) => toAccount },
  { title: 'amount', of: ({ amount }) => amount },
  { title: 'status', of: ({ status }) => status },
  { title: 'created', of: ({ createdAt }) => createdAt },
];

/** Every member of a transaction, in the order of the service. */
const MEMBERS = ['transactionId', 'fromAccount', 'toAccount', 'amount', 'status', 'createdAt'] as const;

export async function listTransactions(
  options: Common & TransactionFilter & { limit?: number | undefined },
): Promise<void> {
  const { idempay, call } = await connect(options);
  const { from, to, limit } = options;
  await printRows(firstOf(idempay.transactions.list({ from, to }, call), limit, options), COLUMNS, options);
}

export async function getTransaction(id: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  const transaction = await idempay.transactions.get(readId(id), call);
  await printRecord({ ...transaction, etag: idempay.transactions.tagOf(transaction) }, options);
}

/** Always with a key, so that every attempt of this call, and the next call with the same one, create one transaction. */
export async function createTransaction(
  options: Common & {
    from: string;
    to: string;
    amount: string;
    status?: TransactionStatus | undefined;
    idempotencyKey?: string | undefined;
  },
): Promise<void> {
  const { idempay, call } = await connect(options);
  const { from: fromAccount, to: toAccount, amount, status, idempotencyKey = randomUUID() } = options;
  const wanted: NewTransaction = { fromAccount, toAccount, amount, ...(status && { status }) };
  try {
    const { transaction, replayed } = await idempay.transactions.create(wanted, { ...call, idempotencyKey });
    await printRecord({ ...transaction, replayed }, options);
  } catch (error) {
    if ((error as Error).name === 'UnknownChangeError') {
      (error as Error).message += `\nTo go on: the same command with --idempotency-key ${idempotencyKey}`;
    }
    throw error;
  }
}

export async function setStatus(
  id: string,
  status: TransactionStatus,
  { ifMatch, ...options }: Common & Condition,
): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.transactions.changeStatus(readId(id), status, { ...call, ifMatch }), options);
}

export async function deleteTransaction(
  id: string,
  { ifMatch, ...options }: Common & Condition & { yes?: true | undefined },
): Promise<void> {
  const transactionId = readId(id);
  await confirm(`delete the transaction ${id}`, options);
  const { idempay, call } = await connect(options);
  await idempay.transactions.remove(transactionId, { ...call, ifMatch });
  await printRecord({ transactionId, deleted: true }, options);
}

export async function exportTransactions(
  options: ConnectionOptions & ExportOptions & TransactionFilter,
): Promise<void> {
  const { idempay, call } = await connect(options);
  const { from, to } = options;
  await exportRows(idempay.transactions.list({ from, to }, call), MEMBERS, options);
}

function readId(text: string): number {
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw new UsageError('An id is a whole number such as 100000000000001.');
}
