import { exportedPayments, PAYMENT_CSV_HEADER, type PaymentRow, paymentCsvLine } from '@idempay/statements';
import type { Http } from '../http/http.js';
import { errorOf, isAborted, Unreachable } from '../http/service-error.js';
import { createFile } from '../parts/file-pieces.js';

/** A file has a row for a spreadsheet, or a JSON object on a line, for each payment. */
export type ExportFormat = 'csv' | 'ndjson';

/** As the service names them. */
export type ExportKind = 'payment' | 'refund' | 'all';

const FILE_NAMES: Readonly<Record<ExportKind, string>> = {
  payment: 'payments',
  refund: 'refunds',
  all: 'payments-and-refunds',
};

export interface Days {
  readonly day: string;
  /** Included. */
  readonly lastDay: string;
}

export interface ExportedFile {
  readonly file: Blob;
  readonly name: string;
  /** The payments and refunds in it. */
  readonly count: number;
}

/** The payments, or the refunds, that were settled on these days, as a file. Throws if they did not all arrive. */
export async function exportPayments(
  http: Http,
  { day, lastDay }: Days,
  { kind, format }: { readonly kind: ExportKind; readonly format: ExportFormat },
  onProgress: (count: number) => void,
  signal: AbortSignal,
): Promise<ExportedFile> {
  const response = await http.send('api/payments/export', {
    query: { day, lastDay, ...(kind !== 'payment' && { kind }) },
    signal,
    // A month takes its time; a person sees how far it came, and can end it.
    limitMs: null,
  });
  if (!response.ok || !response.body) throw await errorOf(response);
  const isCsv = format === 'csv';
  const file = createFile(isCsv ? PAYMENT_CSV_HEADER : '');
  let count = 0;
  for await (const payments of exportedPayments(bytesOf(response.body), 'Export them again.')) {
    for (const payment of payments as readonly PaymentRow[]) {
      file.add(isCsv ? paymentCsvLine(payment) : `${JSON.stringify(payment)}\n`);
    }
    count += payments.length;
    onProgress(count);
  }
  const type = isCsv ? 'text/csv;charset=utf-8' : 'application/x-ndjson';
  const days = day === lastDay ? day : `${day}-to-${lastDay}`;
  return { file: file.end(type), name: `${FILE_NAMES[kind]}-${days}.${format}`, count };
}

async function* bytesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        throw isAborted(cause) ? cause : new Unreachable(cause);
      });
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
