import { type Clock, systemClock } from '#idempay/clock.js';
import { createCarryOut } from '#idempay/payments/attempt.js';
import type { KeyStore } from '#idempay/payments/key-store.js';
import { createLeases } from '#idempay/payments/leases.js';
import type { Ledger } from '#idempay/payments/ledger.js';
import { createPayments, type Payments } from '#idempay/payments/payments.js';
import type { Processor } from '#idempay/payments/processor.js';
import { createRecovery, type Recovery } from '#idempay/payments/recovery.js';
import { type FailingPort, failingPort } from './failing-ports.js';
import { LONG_MS, newOwner, newTransactionId } from './payment-attempts.js';

/** The payments of one process, as the composition root builds them, over ports that fail when asked to. */
export interface Composition {
  readonly payments: Payments;
  readonly recovery: Recovery;
  readonly keys: FailingPort<KeyStore>;
  readonly ledger: FailingPort<Ledger>;
  /** The owners of its attempts so far, oldest first. */
  readonly owners: readonly string[];
  /** What its recovery reported. */
  readonly faults: readonly unknown[];
}

/** Two compositions over the same ports are two processes of one deployment. */
export function compose(
  ports: { readonly keys: KeyStore; readonly ledger: Ledger },
  processor: Processor,
  settings: {
    readonly leaseMs?: number;
    readonly idempotencyTtlMs?: number;
    readonly payloadMismatch?: 'replay' | 'reject';
    readonly clock?: Clock;
  } = {},
): Composition {
  const { leaseMs = LONG_MS, idempotencyTtlMs = LONG_MS, payloadMismatch = 'replay', clock = systemClock } = settings;
  const failingKeys = failingPort(ports.keys);
  const failingLedger = failingPort(ports.ledger);
  const keys = failingKeys.port;
  const ledger = failingLedger.port;

  const owners: string[] = [];
  const faults: unknown[] = [];
  const nextOwner = () => {
    const owner = newOwner();
    owners.push(owner);
    return owner;
  };
  const leases = createLeases(keys, ledger, leaseMs, clock);
  const carryOut = createCarryOut({ keys, ledger, processor, leases, idempotencyTtlMs });
  const payments = createPayments({
    keys,
    ledger,
    processor,
    carryOut,
    rules: { idempotencyTtlMs, lockTtlMs: leaseMs, payloadMismatch },
    clock,
    newTransactionId,
    newOwner: nextOwner,
  });
  const recovery = createRecovery({
    ledger,
    processor,
    carryOut,
    leaseMs,
    clock,
    newOwner: nextOwner,
    onFault: (fault) => faults.push(fault),
  });
  return { payments, recovery, keys: failingKeys, ledger: failingLedger, owners, faults };
}
