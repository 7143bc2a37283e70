import type { Clock } from '../clock.js';
import { type CarryOut, createCarryOut } from './attempt.js';
import { createEndings, type Endings } from './endings.js';
import { createKeyTimes } from './key-times.js';
import { createLeases } from './leases.js';
import { closingKeys, type OpenKeys } from './open-keys.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import { createPayments, type PaymentRules, type Payments } from './payments.js';
import type { KeyStore } from './ports/key-store.js';
import type { Ledger } from './ports/ledger.js';
import type { PaymentHistory } from './ports/payment-history.js';
import type { Processor } from './ports/processor.js';
import { type AskProcessor, createAskProcessor } from './records/ask-processor.js';
import { createFindTimeline, type FindTimeline } from './records/find-timeline.js';
import { createFinishByLookUp } from './records/finish-by-look-up.js';
import { createPaymentRecords, type PaymentRecords } from './records/payment-records.js';
import { createRecovery, type Recovery, type RecoveryEvents } from './recovery.js';
import { createRetention, type Retention, type RetentionEvents } from './retention.js';
import { createWaiting, type Waiting } from './waiting.js';

/** Everything of the payment area in one process, built on its ports. */
export interface PaymentArea {
  readonly payments: Payments;
  readonly records: PaymentRecords;
  readonly findTimeline: FindTimeline;
  readonly askProcessor: AskProcessor;
  readonly recovery: Recovery;
  readonly retention: Retention;
  readonly waiting: Waiting;
  readonly endings: Pick<Endings, 'stop'>;
}

export function createPaymentArea(collaborators: {
  keys: KeyStore;
  ledger: Ledger;
  history: PaymentHistory;
  processor: Processor;
  rules: PaymentRules & {
    /** Undefined: payments are kept for ever. */
    readonly retentionMs?: number | undefined;
    /** A payment may be sent again for so long; unknown for longer, it is an operator's to resolve. */
    readonly dedupMs: number;
  };
  /** How long recovery leaves a payment alone whose outcome is still unknown at that age. */
  recoverAfterMs: (ageMs: number) => number;
  clock: Clock;
  /** At the present moment, or at another; milliseconds since the epoch. */
  newKey: (atMs?: number) => string;
  newTransactionId: () => string;
  /** Names one attempt; no other process, before or after, makes the same name. */
  newOwner: () => string;
  events: RecoveryEvents & RetentionEvents;
  counts?: PaymentCounts;
  /** Undefined: as many keys may be issued as are asked for. */
  openKeys?: OpenKeys | undefined;
  /** Undefined: attempts are not traced. */
  traceAttempts?: ((carryOut: CarryOut) => CarryOut) | undefined;
}): PaymentArea {
  const { keys, history, processor, rules, recoverAfterMs, clock, newKey, newTransactionId, newOwner, events } =
    collaborators;
  const { counts = createPaymentCounts(), openKeys, traceAttempts } = collaborators;
  const ledger = closingKeys(collaborators.ledger, openKeys);
  const { idempotencyTtlMs, leaseMs, dedupMs, retentionMs } = rules;
  const endings = createEndings(keys, clock);
  const leases = createLeases(ledger, leaseMs, clock, counts);
  const untraced = createCarryOut({
    endings,
    ledger,
    processor,
    leases,
    idempotencyTtlMs,
    onContradiction: events.contradiction,
    ...(events.known && { onKnown: events.known }),
    recoverAfterMs,
    clock,
    counts,
  });
  const carryOut = traceAttempts?.(untraced) ?? untraced;
  const waiting = createWaiting(keys, clock, counts);
  const keyTimes = createKeyTimes(newKey, clock);

  const finishByLookUp = createFinishByLookUp({
    ledger,
    history,
    processor,
    carryOut,
    leaseMs,
    clock,
    newOwner,
    events,
  });
  const payments = createPayments({
    keys,
    endings,
    ledger,
    processor,
    carryOut,
    rules,
    clock,
    newKey: keyTimes.newKey,
    openKeys,
    newTransactionId,
    newOwner,
    waiting,
    onUnknown: events.unknown,
    counts,
  });
  const records = createPaymentRecords({
    keys,
    endings,
    ledger,
    history,
    dedupMs,
    idempotencyTtlMs,
    leaseMs,
    newOwner,
    finishByLookUp,
    ...(events.resolved && { onResolved: events.resolved }),
    counts,
  });
  const findTimeline = createFindTimeline({
    keys,
    history,
    rules: { processor: processor.name, dedupMs, idempotencyTtlMs },
    clock,
  });
  const askProcessor = createAskProcessor({ history, processor, clock });
  const recovery = createRecovery({
    ledger,
    processor,
    carryOut,
    leaseMs,
    dedupMs,
    idempotencyTtlMs,
    clock,
    newOwner,
    events,
    counts,
  });
  const retention = createRetention(ledger, retentionMs, clock, keyTimes, events);
  return { payments, records, findTimeline, askProcessor, recovery, retention, waiting, endings };
}
