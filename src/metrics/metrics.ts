import type { ConnectionCounts } from '../http/connections/connection-limits.js';
import type { HttpMeasures } from '../http/requests/measures.js';
import type { Look } from '../live/sample.js';
import { createPaymentCounts, type PaymentCounts } from '../payments/payment-counts.js';
import type { Backlog } from '../payments/ports/ledger.js';
import type { ProcessorClient } from '../payments/ports/processor.js';
import { VERSION } from '../platform/version.js';
import type { MeasuredStore, StoreMeasures } from '../stores/shared/store-measures.js';
import { createTransactionCounts, type TransactionCounts } from '../transactions/transaction-counts.js';
import { Exposition } from './exposition.js';
import { measureHttp } from './http-requests.js';
import { lookAt } from './look.js';
import { showBacklog, showPayments } from './payments.js';
import { showProcess } from './process-use.js';
import { measureProcessor } from './processor-calls.js';
import { measureStores, showStores } from './stores.js';
import { showTransactions } from './transactions.js';

/** Everything that one process measures. Each part is an interface of the code that it measures. */
export interface Metrics {
  /** In Prometheus' text format. */
  text(): string;
  readonly http: HttpMeasures;
  readonly stores: StoreMeasures;
  readonly payments: PaymentCounts;
  readonly transactions: TransactionCounts;
  /** To be used in the place of the processor. */
  measured(processor: ProcessorClient): ProcessorClient;
  showBacklog(latest: () => Backlog | undefined): void;
  /** What of it the live view shows. Once the processor is measured and the backlog is shown. */
  look(): Look;
  stop(): void;
}

const STORES = { embedded: ['sqlite'], distributed: ['redis', 'postgresql'] } as const;

export function createMetrics(
  deployment: keyof typeof STORES,
  connections: ConnectionCounts,
  isUp: (store: MeasuredStore) => boolean,
): Metrics {
  const exposition = new Exposition();
  const http = measureHttp(exposition, connections);
  const payments = createPaymentCounts();
  showPayments(exposition, payments);
  const transactions = createTransactionCounts();
  showTransactions(exposition, transactions);
  showStores(exposition, STORES[deployment], isUp);
  const stores = measureStores(exposition);
  const { stop } = showProcess(exposition, VERSION, deployment);
  return {
    text: () => exposition.text(),
    http,
    stores,
    payments,
    transactions,
    measured: (processor) => measureProcessor(exposition, processor),
    showBacklog: (latest) => showBacklog(exposition, latest),
    look: () => lookAt(exposition, deployment),
    stop,
  };
}
