import type { ConnectionCounts } from '../http/connections/connection-limits.js';
import type { HttpMeasures } from '../http/requests/measures.js';
import type { Look } from '../live/sample.js';
import { createPaymentCounts, type PaymentCounts } from '../payments/payment-counts.js';
import type { Backlog, PendingBacklog } from '../payments/ports/ledger.js';
import type { ProcessorClient } from '../payments/ports/processor.js';
import type { SettlementFeed } from '../payments/settlement-feed.js';
import { VERSION } from '../platform/version.js';
import type { MeasuredStore, StoreMeasures } from '../stores/shared/store-measures.js';
import { createTransactionCounts, type TransactionCounts } from '../transactions/transaction-counts.js';
import type { WebhookCounts } from '../webhooks/webhook-events.js';
import { Exposition } from './exposition.js';
import { measureHttp } from './http-requests.js';
import { showBacklog, showFeed, showPayments, showPending } from './payments.js';
import { memoryBytes, showProcess } from './process-use.js';
import { measureProcessor } from './processor-calls.js';
import { measureStores, showStores } from './stores.js';
import { showTransactions } from './transactions.js';
import { showWebhooks } from './webhooks.js';

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
  showPending(latest: () => PendingBacklog | undefined): void;
  showFeed(feed: Pick<SettlementFeed, 'behindMs'>): void;
  /** `counts` has the name of each endpoint. */
  showWebhooks(counts: ReadonlyMap<string, WebhookCounts>): void;
  /** The part of it that the live view shows, from the same numbers as the text. */
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
  const used = STORES[deployment];
  showStores(exposition, used, isUp);
  const stores = measureStores(exposition);
  const { loopDelay, stop } = showProcess(exposition, VERSION, deployment);
  let processor: ProcessorClient | undefined;
  let latestBacklog: () => Backlog | undefined = () => undefined;
  return {
    text: () => exposition.text(),
    http,
    stores,
    payments,
    transactions,
    measured(given) {
      processor = given;
      return measureProcessor(exposition, given);
    },
    showBacklog(latest) {
      latestBacklog = latest;
      showBacklog(exposition, latest);
    },
    showPending: (latest) => showPending(exposition, latest),
    showFeed: (feed) => showFeed(exposition, payments, feed),
    showWebhooks: (counts) => showWebhooks(exposition, counts),
    look() {
      const backlog = latestBacklog();
      return {
        totals: {
          ...http.look(),
          cache: { ...transactions.lookUps },
          commit: deployment === 'embedded' ? stores.commits() : stores.claimsAndSettles(),
          loopDelay: loopDelay(),
        },
        state: {
          attempts: { request: payments.attemptsOfRequests, recovery: payments.attemptsOfRecovery },
          waiters: payments.waiters,
          backlog: backlog ? { payments: backlog.payments, oldestMs: Math.round(backlog.oldestMs) } : null,
          queues: stores.queues(),
          stores: Object.fromEntries(used.map((store) => [store, isUp(store)])),
          processorUp: processor !== undefined && !processor.isDown,
          memoryBytes: memoryBytes(),
        },
      };
    },
    stop,
  };
}
