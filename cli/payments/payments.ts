import type {
  CallOptions,
  Idempay,
  OperatedReference,
  Payment,
  PaymentFilter,
  PaymentKind,
  PaymentTimeline,
  Resolution,
} from '#idempay/client';
import { todayUtc } from '#idempay/statements/days.js';
import { PAYMENT_COLUMNS, type PaymentCells, paymentCells } from '#idempay/statements/payment-table.js';
import { type ConnectionOptions, connect } from '../connection.js';
import { EXIT } from '../exit-codes.js';
import { confirm } from '../output/confirmation.js';
import { type ExportOptions, exportRows, formatOf } from '../output/export.js';
import { type Column, firstOf, type OutputOptions, printRecord, printRows } from '../output/results.js';
import { UsageError } from '../usage.js';
import { type DayOptions, daysOf } from './days.js';

type Common = ConnectionOptions & OutputOptions;
type Named = Partial<OperatedReference>;

const COLUMNS: readonly Column<Payment>[] = [
  { title: 'key', of: ({ idempotencyKey }) => idempotencyKey },
  { title: 'state', of: ({ state }) => state },
  { title: 'amount', of: ({ amount }) => amount },
  { title: 'currency', of: ({ currency }) => currency },
  { title: 'transaction id', of: ({ transactionId }) => transactionId },
  { title: 'claimed', of: ({ claimedAt }) => claimedAt },
  { title: 'reference', of: ({ reference }) => reference },
  { title: 'attempt', of: ({ attempt }) => attempt },
  { title: 'description', of: ({ description }) => description, mostInTable: 40 },
  { title: 'metadata', of: ({ metadata }) => metadata && JSON.stringify(metadata), mostInTable: 40 },
  { title: 'client', of: ({ client }) => client ?? null },
];

/** A script that cuts out columns of payments finds them where they were. */
const REFUND_COLUMNS: readonly Column<Payment>[] = [
  ...COLUMNS,
  { title: 'refund', of: ({ refund }) => refund?.name ?? null },
  { title: 'of payment', of: ({ refund }) => refund?.payment ?? null },
  { title: 'reason', of: ({ refund }) => refund?.reason ?? null, mostInTable: 40 },
];

/** `idempay status`: what became of a payment, for a script in the exit code. */
export async function showStatus(key: string | undefined, options: Common & Named): Promise<number> {
  const target = targetOf(key, options);
  const { idempay, call } = await connect(options);
  const { payments } = idempay;
  const payment = await ('key' in target ? payments.get(target.key, call) : payments.status(target, call));
  const { state, transactionId, attempt, reason, client, pending } = payment;
  const more = {
    ...(attempt !== null && { attempt }),
    ...(reason !== null && { reason }),
    ...(pending && { pendingUntil: pending.until }),
    ...(client !== undefined && { client }),
  };
  await printRecord({ state, transactionId, ...more }, options);
  return {
    COMPLETED: EXIT.done,
    DECLINED: EXIT.declined,
    PROCESSING: EXIT.unknown,
    PENDING: EXIT.notFound,
    CANCELLED: EXIT.conflict,
  }[state];
}

/** Exactly one of both, because the one that is left out may be a variable of a script that is empty by mistake. */
function targetOf(
  key: string | undefined,
  { reference, attempt, client }: Named,
): OperatedReference | { readonly key: string } {
  if ((key === undefined) === (reference === undefined))
    throw new UsageError('Give a key or --reference, one of both.');
  if (reference !== undefined) return { reference, attempt, client };
  if (attempt !== undefined || client !== undefined)
    throw new UsageError('--attempt and --client belong to --reference.');
  return { key: key as string };
}

export async function getPayment(key: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.payments.get(key, call), options);
}

export async function listPayments(
  options: Common & Omit<PaymentFilter, 'limit'> & { limit?: number | undefined },
): Promise<void> {
  const { idempay, call } = await connect(options);
  const { reference, content, find, state, kind, pending, processor, from, to, limit } = options;
  const named = { ...(reference !== undefined && { reference }), ...(content !== undefined && { content }) };
  const filter = { ...named, find, state, kind, pending, processor, from, to };
  const payments = idempay.payments.list(filter, call);
  await printRows(firstOf(payments, limit, options), columnsOf(kind), options);
}

const columnsOf = (kind: PaymentKind = 'payment') => (kind === 'payment' ? COLUMNS : REFUND_COLUMNS);

export async function listRefunds(key: string, options: Common): Promise<void> {
  const { idempay, call } = await connect(options);
  await printRows(await idempay.payments.refunds(key, call), REFUND_COLUMNS, options);
}

const STEPS: readonly Column<PaymentTimeline['events'][number]>[] = [
  { title: 'at', of: ({ at }) => at },
  { title: 'event', of: ({ event }) => event },
  { title: 'execution', of: ({ execution }) => execution },
  { title: 'process', of: ({ process }) => process },
  { title: 'by', of: ({ by }) => by },
  { title: 'detail', of: ({ detail }) => detail },
];

export async function showTimeline(key: string | undefined, options: Common & Named): Promise<void> {
  const target = targetOf(key, options);
  const { idempay, call } = await connect(options);
  const timeline = await idempay.payments.timeline(await keyOf(target, idempay, call), call);
  if (options.json) return printRecord(timeline, options);
  await printRows(timeline.events, STEPS, options);
  if (timeline.omitted > 0) console.error(`${timeline.omitted} more between the first and the last are not kept.`);
  console.error(timeline.next.text);
}

export async function askProcessor(key: string | undefined, options: Common & Named): Promise<void> {
  const target = targetOf(key, options);
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.payments.askProcessor(await keyOf(target, idempay, call), call), options);
}

async function keyOf(target: ReturnType<typeof targetOf>, { payments }: Idempay, call: CallOptions): Promise<string> {
  return 'key' in target ? target.key : (await payments.status(target, call)).idempotencyKey;
}

export async function cancelPayment(
  key: string | undefined,
  { yes, onlyAttempt, ...options }: Common & Named & { yes?: true | undefined; onlyAttempt?: true | undefined },
): Promise<void> {
  const target = targetOf(key, options);
  if (onlyAttempt && 'key' in target) throw new UsageError('--only-attempt belongs to --reference.');
  const { reference, attempt = 1 } = options;
  const what = reference === undefined ? `the payment ${key}` : `attempt ${attempt} at ${reference}`;
  const effect = onlyAttempt
    ? `end ${what}, so that the next one may follow`
    : `close ${what}, so that it can never be paid`;
  await confirm(effect, { ...options, yes });
  const { idempay, call } = await connect(options);
  const asked = 'key' in target ? target : { ...target, ...(onlyAttempt && { only: 'attempt' as const }) };
  const cancelled = await idempay.payments.cancel(asked, call);
  const state = onlyAttempt ? 'DECLINED' : 'CANCELLED';
  await printRecord(
    {
      ...{ state, ...(reference !== undefined && { reference, attempt }), idempotencyKey: cancelled.key },
      ...(cancelled.client !== undefined && { client: cancelled.client }),
    },
    options,
  );
}

export async function resolvePayment(
  key: string,
  { outcome, reason, ...options }: Common & Resolution & { yes?: true | undefined },
): Promise<void> {
  await confirm(`record the payment ${key} as ${outcome}`, options);
  const { idempay, call } = await connect(options);
  await printRecord(await idempay.payments.resolve(key, { outcome, reason }, call), options);
}

export async function exportPayments(
  options: ConnectionOptions &
    ExportOptions &
    DayOptions & { processor?: string | undefined; kind?: PaymentKind | undefined },
): Promise<void> {
  const { first, last } = daysOf(options);
  const { idempay, call } = await connect(options);
  if (options.day === undefined && last >= todayUtc()) {
    console.error(`The day ${last} has not ended yet (UTC): payments may still be settled. Export again when it has.`);
  }
  const { processor, kind } = options;
  const rows = idempay.payments.export(first, {
    ...call,
    processor,
    kind,
    ...(last !== first && { lastDay: last }),
  });
  if (formatOf(options) === 'csv') await exportRows(cellsOf(rows), PAYMENT_COLUMNS, options);
  else await exportRows(rows, [], options);
}

async function* cellsOf(payments: AsyncIterable<Payment>): AsyncGenerator<PaymentCells, void, void> {
  for await (const payment of payments) yield paymentCells(payment);
}
