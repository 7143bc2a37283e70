import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { SCOPES } from '../access/scopes.js';
import { createHealth } from '../health/health.js';
import { createPaymentActivity } from '../payments/history/payment-activity.js';
import { createPaymentArea } from '../payments/payments.js';
import { SettlementFeed } from '../payments/settlement-feed.js';
import { generateIdempotencyKey } from '../payments/values/idempotency-key.js';
import { createComputeKey } from '../payments/values/reference.js';
import { createComputeRefundKey } from '../payments/values/refund.js';
import { createTransactionIds } from '../payments/values/transaction-id.js';
import { type Clock, systemClock } from '../platform/clock.js';
import { openInMemory } from '../stores/embedded/open-in-memory.js';
import { createTransactions } from '../transactions/transactions.js';
import { createWebhookOperations } from '../webhooks/operations.js';
import type { SentRequest, WholeAnswer } from './fake-connection.js';
import type { FakeScope } from './fake-exchange.js';
import { createFakeProcessor, type FakeProcessing, type FakeProcessor } from './fake-processor.js';
import { type Answering, type AskedOperation, createFakeServer, type FakeServer } from './fake-server.js';

/** The same in every fake, so that keys may stand in a test's expectations. */
const DEPLOYMENT_ID = 'idempay/testing';
/** As in the service by default. */
const LEASE_MS = 30_000;
const MOST_IN_FLIGHT = 10_000;
/** The time for which a reply about a pending payment is passed on. */
const ASKED_AGAIN_MS = 1_000;
/** A payment that its processor does not know is an operator's at once. */
const DEDUP_MS = 0;

export interface FakeServiceOptions {
  readonly payloadMismatch: 'replay' | 'reject';
  readonly apiKey: string | undefined;
  /** If undefined, the key may do everything. */
  readonly scopes: readonly FakeScope[] | undefined;
  readonly now: () => number;
  readonly keyLifeMs: number;
}

export type FakeService = ReturnType<typeof createFakeService>;

const open = createFakeServer('none');
/** Made when it is needed, as few tests do. */
let guarded: FakeServer | undefined;

/** The features of the service, as the composition root joins them, over the embedded stores in memory. */
export function createFakeService({ payloadMismatch, apiKey, scopes, now, keyLifeMs }: FakeServiceOptions) {
  if (apiKey !== undefined) guarded ??= createFakeServer('required');
  const server = (apiKey === undefined ? undefined : guarded) ?? open;
  let skippedMs = 0;
  const clock: Clock = { now, monotonic: () => now() + skippedMs, after: systemClock.after };
  const processing = new AsyncLocalStorage<FakeProcessing>();
  const processor = createFakeProcessor(() => processing.getStore(), now);
  const stores = openInMemory(clock);
  const { keys, ledger, refunds, paymentHistory: history, settlements } = stores;
  const idempotencyTtlMs = keyLifeMs;
  const area = createPaymentArea({
    keys,
    ledger,
    refunds,
    history,
    settlements,
    processor,
    rules: { payloadMismatch, idempotencyTtlMs, leaseMs: LEASE_MS, maxInFlight: MOST_IN_FLIGHT, dedupMs: DEDUP_MS },
    recoverAfterMs: () => 0,
    clock,
    keyClock: stores.clock,
    newKey: generateIdempotencyKey,
    computeKey: createComputeKey(DEPLOYMENT_ID),
    computeRefundKey: createComputeRefundKey(DEPLOYMENT_ID),
    newTransactionId: createTransactionIds(now),
    newOwner: () => randomUUID(),
    events: { fault() {}, unknown() {}, contradiction() {}, overdue() {}, unseen() {} },
  });
  // A test's own clock may stand still.
  const settlementFeed = new SettlementFeed(settlements, systemClock);
  const answering: Answering = {
    features: {
      payments: area.payments,
      paymentRecords: area.records,
      // A page is answered at once: while a request waits, a TestClock stands still. The client then waits by its own clock.
      settlementFeed: { read: (question, show) => settlementFeed.read({ ...question, patience: undefined }, show) },
      webhookOperations: createWebhookOperations(stores.endpointRows, settlementFeed),
      findTimeline: area.findTimeline,
      askProcessor: area.askProcessor,
      paymentActivity: createPaymentActivity(history, clock),
      transactions: createTransactions(stores.transactions, stores.transactionCache, { idempotencyTtlMs }),
      health: createHealth(stores.keyValueStore, stores.storeOfRecord, clock),
    },
    apiKey,
    scopes: new Set(scopes ?? SCOPES),
  };

  return {
    charges: processor.charges,
    refunds: processor.refunds,
    pendingCharges: () => processor.pending,
    pendingRefunds: () => processor.pendingRefunds,
    /** Decides about a charge or a refund. The next request then asks the processor, and is not answered with its reply of the last second. */
    decide(decision: (processor: Pick<FakeProcessor, 'confirm' | 'refuse'>) => void): void {
      decision(processor);
      skippedMs += ASKED_AGAIN_MS;
    },
    forgetKeys: stores.forgetKeys,
    operationOf: server.operationOf,

    /** `processed`: the processor's answer, if this request makes it charge, or give back. */
    async answer(
      request: SentRequest,
      operation: AskedOperation | undefined,
      processed: FakeProcessing,
    ): Promise<WholeAnswer> {
      const resolvedKey = operation?.id === 'resolvePayment' ? operation.parameter.toLowerCase() : undefined;
      if (resolvedKey !== undefined) processor.silentAbout.add(resolvedKey);
      try {
        return await processing.run(processed, () => server.answer(request, answering));
      } finally {
        if (resolvedKey !== undefined) processor.silentAbout.delete(resolvedKey);
      }
    },
  };
}
