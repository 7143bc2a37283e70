import { type Clock, systemClock } from '#idempay/clock.js';
import { createPaymentArea, type PaymentArea } from '#idempay/payments/payment-area.js';
import type { KeyStore } from '#idempay/payments/ports/key-store.js';
import type { Ledger } from '#idempay/payments/ports/ledger.js';
import type { PaymentHistory } from '#idempay/payments/ports/payment-history.js';
import type { Processor } from '#idempay/payments/ports/processor.js';
import { type FailingPort, failingPort } from './failing-ports.js';
import { LONG_MS, newKey, newOwner, newTransactionId } from './payment-attempts.js';

/** The payments of one process, as the composition root builds them, over ports that fail when asked to. */
export interface Composition extends PaymentArea {
  readonly keys: FailingPort<KeyStore>;
  readonly ledger: FailingPort<Ledger>;
  /** The owners of its attempts so far, oldest first. */
  readonly owners: readonly string[];
  /** What failed behind the requests. */
  readonly faults: readonly unknown[];
  /** The keys of payments whose outcome stayed unknown, with the cause, oldest first. */
  readonly unknown: readonly { readonly key: string; readonly cause: string }[];
  /** Payments whose processor told another outcome than their rows keep. */
  readonly contradictions: readonly { readonly transactionId: string; readonly told: string; readonly kept: string }[];
  /** How many payments waited for an operator, each time they were counted. */
  readonly overdue: readonly number[];
  /** The milliseconds that retention did not count, each time they became more. */
  readonly unseen: readonly number[];
}

/** Two compositions over the same ports are two processes of one deployment. */
export function compose(
  ports: { readonly keys: KeyStore; readonly ledger: Ledger; readonly paymentHistory: PaymentHistory },
  processor: Processor,
  settings: {
    readonly leaseMs?: number;
    readonly idempotencyTtlMs?: number;
    readonly payloadMismatch?: 'replay' | 'reject';
    readonly dedupMs?: number;
    readonly maxInFlight?: number;
    readonly retentionMs?: number;
    readonly recoverAfterMs?: (ageMs: number) => number;
    readonly clock?: Clock;
  } = {},
): Composition {
  const { leaseMs = LONG_MS, idempotencyTtlMs = LONG_MS, payloadMismatch = 'replay', clock = systemClock } = settings;
  const { dedupMs = LONG_MS, maxInFlight = 10_000, retentionMs, recoverAfterMs = () => 0 } = settings;
  const keys = failingPort(ports.keys);
  const ledger = failingPort(ports.ledger);

  const owners: string[] = [];
  const faults: unknown[] = [];
  const unknown: { key: string; cause: string }[] = [];
  const contradictions: { transactionId: string; told: string; kept: string }[] = [];
  const overdue: number[] = [];
  const unseen: number[] = [];
  const area = createPaymentArea({
    keys: keys.port,
    ledger: ledger.port,
    history: ports.paymentHistory,
    processor,
    rules: { idempotencyTtlMs, leaseMs, payloadMismatch, maxInFlight, dedupMs, retentionMs },
    recoverAfterMs,
    clock,
    newKey,
    newTransactionId,
    newOwner() {
      const owner = newOwner();
      owners.push(owner);
      return owner;
    },
    events: {
      fault: (fault) => faults.push(fault),
      unknown: ({ key }, cause) => unknown.push({ key, cause }),
      unseen: (ms) => unseen.push(ms),
      contradiction: ({ transactionId }, told, kept) => contradictions.push({ transactionId, told, kept }),
      overdue: (count) => overdue.push(count),
    },
  });
  return { ...area, keys, ledger, owners, faults, unknown, contradictions, overdue, unseen };
}
