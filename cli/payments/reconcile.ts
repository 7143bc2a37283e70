import { appendFileSync, closeSync, createReadStream, fsyncSync, openSync } from 'node:fs';
import { addAbortSignal, type Readable } from 'node:stream';
import { type CallOptions, NotFoundError, type Payment, type Payments } from '#idempay/client';
import { safeJson } from '#idempay/platform/safe-json.js';
import {
  agreementOf,
  type DayOffset,
  DIFFERENCE_CSV_HEADER,
  type Difference,
  dayAfter,
  differenceCsvLine,
  type PaymentNames,
  type Reconciliation,
  reconcile,
  type SettledPayment,
  todayUtc,
} from '#idempay/statements';
import { type ConnectionOptions, connect } from '../connection.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import type { OutputOptions } from '../output/results.js';
import { write } from '../output/terminal.js';
import { writeWhole } from '../output/whole-file.js';
import { UsageError } from '../usage.js';
import { checkedDay } from './days.js';
import { jsonOf, textOf } from './reconciliation-output.js';
import { openStatement, type StatementOptions, settingsOf } from './statement-file.js';

export interface ReconcileOptions extends ConnectionOptions, OutputOptions, StatementOptions {
  readonly day: string;
  readonly processor?: string | undefined;
  /** The file that gets all differences, and everything that was settled on a day next to the chosen one. */
  readonly differences?: string | undefined;
}

/** Payments are handed over some at a time. */
const CHUNK_PAYMENTS = 500;
const CHUNK_CHARACTERS = 65_536;

/** `idempay payments reconcile`. The exit code says if a statement and the payments of a day agree, for a nightly job. */
export async function reconcilePayments(statement: string, options: ReconcileOptions): Promise<ExitCode> {
  const { processor, differences } = options;
  const day = checkedDay(options.day);
  const settings = settingsOf(options);
  const input = statement === '-' ? process.stdin : createReadStream(statement);
  try {
    const file = await openStatement(readable(input, statement), settings);
    tellSkipped(file.format);
    if (day >= todayUtc()) {
      console.error(`The day ${day} has not ended yet (UTC): payments may be missing. Compare again when it has.`);
    }
    const { idempay, call } = await connect(options);
    endWith(call.signal, input);
    const ours = {
      paymentsOf: (offset: DayOffset) =>
        chunksOf(idempay.payments.export(dayAfter(day, offset), { ...call, processor, kind: 'all' })),
      namesOf: (payment: string) => namesOf(payment, idempay.payments, call),
    };
    const compare = (found?: (difference: Difference) => void) => reconcile(file, ours, found);
    const result = await (differences === undefined ? compare() : writeDifferences(differences, compare));
    if (result.payments + result.refunds === 0) console.error(noPayments(day, processor));
    const compared = { day, processor, file, result };
    await write(options.json ? `${safeJson(jsonOf(compared))}\n` : textOf(compared));
    return exitCodeOf(result);
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw new UsageError('Interrupted: nothing was compared.');
    throw error;
  } finally {
    // A pipe whose writer goes on would keep this process.
    input.destroy();
  }
}

export function exitCodeOf(result: Reconciliation): ExitCode {
  const { differences, isAgreed } = agreementOf(result);
  if (isAgreed) return EXIT.done;
  return differences > 0 ? EXIT.differences : EXIT.unreadable;
}

function tellSkipped(format: Awaited<ReturnType<typeof openStatement>>['format']): void {
  if (format.kind !== 'CSV' || format.headerLine === 1) return;
  const { headerLine } = format;
  const before = headerLine === 2 ? 'the line before it is' : `the ${headerLine - 1} lines before it are`;
  console.error(`Line ${headerLine} has the names of the columns; ${before} skipped.`);
}

function noPayments(day: string, processor: string | undefined): string {
  if (processor === undefined) return `No payment was settled on ${day}.`;
  return `No payment was settled on ${day} at ${processor}. Give the processor as a payment shows it, or leave --processor out.`;
}

/** The bytes of the statement. Throws UsageError if its file cannot be read; a fault of another file passes by it. */
async function* readable(input: AsyncIterable<Uint8Array>, statement: string): AsyncGenerator<Uint8Array, void, void> {
  try {
    yield* input;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined || (error as Error).name === 'AbortError') throw error;
    throw new UsageError(`${statement} cannot be read (${code}).`);
  }
}

/** Ctrl-C must end a comparison that still waits for its statement. */
function endWith(signal: AbortSignal | undefined, input: Readable): void {
  if (signal !== undefined) addAbortSignal(signal, input);
}

async function* chunksOf(payments: AsyncIterable<Payment>): AsyncGenerator<readonly SettledPayment[], void, void> {
  let chunk: SettledPayment[] = [];
  for await (const payment of payments) {
    chunk.push(settledOf(payment));
    if (chunk.length < CHUNK_PAYMENTS) continue;
    yield chunk;
    chunk = [];
  }
  yield chunk;
}

/** A statement may name the payment of another day by its order number. A payment that is removed meanwhile has no names. */
async function namesOf(key: string, payments: Payments, call: CallOptions): Promise<PaymentNames | undefined> {
  try {
    const { reference, transactionId } = await payments.get(key, call);
    return { reference, transactionId: transactionId ?? '' };
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** Only the compared members are kept. An export has no payment without an outcome. */
function settledOf(payment: Payment): SettledPayment {
  const { idempotencyKey, reference, attempt, state, amount, currency, transactionId, claimedAt, settledAt, refund } =
    payment;
  const isFinal = state === 'COMPLETED' || state === 'DECLINED';
  if (!isFinal || amount === null || currency === null || transactionId === null) {
    throw new Error(`The export has the payment ${idempotencyKey}, which has no outcome.`);
  }
  return {
    ...{ idempotencyKey, reference, attempt, state, amount, currency, transactionId, claimedAt, settledAt },
    ...(refund && { refund: { payment: refund.payment, name: refund.name } }),
  };
}

/** They come while the comparison runs, so they are written at once and never kept. */
function writeDifferences(
  path: string,
  compare: (found: (difference: Difference) => void) => Promise<Reconciliation>,
): Promise<Reconciliation> {
  return writeWhole(path, async (part) => {
    const file = openSync(part, 'wx', 0o600);
    try {
      let text = DIFFERENCE_CSV_HEADER;
      const result = await compare((difference) => {
        text += differenceCsvLine(difference);
        if (text.length < CHUNK_CHARACTERS) return;
        appendFileSync(file, text);
        text = '';
      });
      appendFileSync(file, text);
      fsyncSync(file);
      return result;
    } finally {
      closeSync(file);
    }
  });
}
