import type { Payment, PaymentFilter, Resolution } from '@idempay/client';
import { type ConnectionOptions, connect } from '../connection.js';
import { EXIT } from '../exit-codes.js';
import { confirm } from '../output/confirmation.js';
import { type ExportOptions, exportRows } from '../output/export.js';
import { type Column, firstOf, type OutputOptions, printRecord, printRows } from '../output/results.js';

type Common = ConnectionOptions & OutputOptions;

const COLUMNS: readonly Column<Payment>[] = [
  { title: 'key', of: ({ idempotencyKey }) => idempotencyKey },
  { title: 'state', of: ({ state }) => state },
  { title: 'amount', of: ({ amount }) => amount },
  { title: 'currency', of: ({ currency }) => currency },
  { title: 'transaction id', of: ({ transactionId }) => transactionId },
  { title: 'created', of: ({ createdAt }) => createdAt },
];

/** Every member of a payment, in the order of the service. */
const MEMBERS = [
  ...[
    'idempotencyKey',
    'state',
    'amount',
    'currency',
    'transactionId',
    'processor',
    'attempts',
    'reason',
    'resolution',
  ],
  ...['createdAt', 'claimedAt', 'settledAt'],
] as const;

/** `idempay status`: what became of a payment, for a script in the exit code. */
export async function showStatus(key: string, options: Common): Promise<number> {
  const { idempay, call } = await connect(options);
  const { state, transactionId, reason } = await idempay.payments.get(key, call);
  await printRecord({ state, transactionId, ...(reason !== null && { reason }) }, options);
  return { COMPLETED: EXIT.done, DECLINED: EXIT.declined, PROCESSING: EXIT.unknown, PENDING: EXIT.notFound }[state];
}

export async function getPayment(key: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.payments.get(key, call), options);
}

export async function listPayments(
  options: Common & Omit<PaymentFilter, 'limit'> & { limit?: number | undefined },
): Promise<void> {
  const { idempay, call } = await connect(options);
  const { find, state, processor, from, to, limit } = options;
  const payments = idempay.payments.list({ find, state, processor, from, to }, call);
  await printRows(firstOf(payments, limit, options), COLUMNS, options);
}

export async function resolvePayment(
  key: string,
  { outcome, reason, ...options }: Common & Resolution & { yes?: true | undefined },
): Promise<void> {
  await confirm(`The payment ${key} becomes ${outcome}.`, options);
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.payments.resolve(key, { outcome, reason }, call), options);
}

export async function exportPayments(
  options: ConnectionOptions & ExportOptions & { day: string; processor?: string | undefined },
): Promise<void> {
  const { idempay, call } = await connect(options);
  const { day, processor } = options;
  await exportRows(idempay.payments.export(day, { ...call, processor }), MEMBERS, options);
}
