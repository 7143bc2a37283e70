import { createPaymentCounts } from '#idempay/payments/payment-counts.js';
import { createPaymentArea } from '#idempay/payments/payments.js';
import { createComputeKey, type NamedPayment } from '#idempay/payments/values/reference.js';
import { createComputeRefundKey } from '#idempay/payments/values/refund.js';
import { type Clock, systemClock } from '#idempay/platform/clock.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';
import { gate } from '../concurrency.js';
import { until } from '../time/until.js';
import { failingPort } from './failing-ports.js';
import {
  inState,
  LONG_MS,
  newKey,
  newOwner,
  newProcessorName,
  newReference,
  newTransactionId,
} from './payment-attempts.js';
import { paymentSteps } from './payment-steps.js';
import { type Ports, sharePorts } from './ports.js';
import { type NextCharge, RecordingProcessor } from './recording-processor.js';

export const MONEY = { amount: '100.50', currency: 'USD' };
export const OTHER_MONEY = { amount: '9.00', currency: 'EUR' };
/** A request whose content cannot be paid. */
export const NO_MONEY = { problem: "Member 'amount' is missing." };
export const DOWN = new StoreUnavailable('unchanged', 'the store is down');
export const LOST = new StoreUnavailable('unknown', 'the answer was lost');
const CHARGED_DEADLINE_MS = 10_000;

const computeKey = createComputeKey('test');
export const computeRefundKey = createComputeRefundKey('test');

/** An attempt at an order, with the key that every composition computes for it. */
export function orderOf(text = newReference(), attempt = 1, client?: string) {
  const reference = { text, attempt, client };
  return { key: computeKey(reference), client, reference };
}

type Rules = Parameters<typeof createPaymentArea>[0]['rules'];
/** `dedupMs` is of a new processor too, which has none unless it is given. */
export type Settings = Partial<Omit<Rules, 'retentionMs'>> & {
  readonly recoverAfterMs?: (ageMs: number) => number;
  /** The clock of the process; its stores have their own. */
  readonly clock?: Clock;
};

export type Composition = ReturnType<typeof compose>;

/**
 * The payments of one process, as the composition root builds them, over ports that fail when asked to. Two compositions over
 * the same ports are two processes of one deployment.
 */
export function compose(
  ports: Pick<Ports, 'keys' | 'ledger' | 'refunds' | 'paymentHistory' | 'settlements'>,
  { recoverAfterMs = () => 0, clock = systemClock, ...settings }: Settings = {},
  processor = new RecordingProcessor(newProcessorName(), settings.dedupMs),
) {
  const keys = failingPort(ports.keys);
  const ledger = failingPort(ports.ledger);
  const refunds = failingPort(ports.refunds);
  const lives = { leaseMs: LONG_MS, idempotencyTtlMs: LONG_MS, dedupMs: LONG_MS };
  const seen = {
    owners: [] as string[],
    faults: [] as unknown[],
    /** The keys of payments whose outcome stayed unknown, with the cause, oldest first. */
    unknown: [] as { key: string; cause: string }[],
    /** Payments whose processor told another outcome than their rows keep. */
    contradictions: [] as { transactionId: string; told: string; kept: string }[],
    /** The keys of pending payments that the processor has forgotten. */
    forgotten: [] as string[],
    /** How many payments an operator was told of, each time. */
    overdue: [] as number[],
    counts: createPaymentCounts(),
  };
  const area = createPaymentArea({
    keys: keys.port,
    ledger: ledger.port,
    refunds: refunds.port,
    history: ports.paymentHistory,
    settlements: ports.settlements,
    processor,
    rules: { ...lives, payloadMismatch: 'replay', maxInFlight: 10_000, retentionMs: undefined, ...settings },
    recoverAfterMs,
    clock,
    counts: seen.counts,
    newKey,
    computeKey,
    computeRefundKey,
    newTransactionId,
    newOwner() {
      const owner = newOwner();
      seen.owners.push(owner);
      return owner;
    },
    events: {
      fault: (fault) => seen.faults.push(fault),
      unknown: ({ key }, cause) => seen.unknown.push({ key, cause }),
      unseen() {},
      contradiction: ({ transactionId }, told, kept) => seen.contradictions.push({ transactionId, told, kept }),
      forgotten: ({ key }) => seen.forgotten.push(key),
      overdue: (count) => seen.overdue.push(count),
    },
  });
  const { payments } = area;

  return {
    ...area,
    ...seen,
    keys,
    ledger,
    refunds,
    processor,

    /** Another process with the same processor, and the same key store or another one. */
    another: (others?: Settings, keysThere = ports.keys) => compose({ ...ports, keys: keysThere }, others, processor),

    /**
     * Ends the lease and the lock of this process's newest attempt, as time does. A lease that a test ends itself may be long, so that a slow
     * machine does not end it before the steps that need it.
     */
    async endLease(key: string): Promise<void> {
      const owner = seen.owners.at(-1) ?? '';
      const life = await ports.paymentHistory.findLife(key);
      if (life) await ports.ledger.renew({ key, owner, epoch: life.epoch }, 0);
      await ports.keys.release(key, owner);
    },

    /** A payment whose first attempt ended without knowing what the processor did. */
    async unknownPayment(outcome: NextCharge['outcome']): Promise<string> {
      const key = await payments.issueKey();
      processor.plan({ outcome, answerLost: true });
      inState(await payments.pay({ key }, MONEY), 'unknown');
      return key;
    },

    /** A payment that waits at the processor for its payer. */
    async pendingPayment(order: NamedPayment = orderOf()): Promise<NamedPayment> {
      processor.plan({ outcome: 'pending' });
      inState(await payments.pay(order, MONEY), 'pending');
      return order;
    },

    /** A payment whose charge is with the processor, which answers it after `finish`. */
    async chargingPayment(outcome: NextCharge['outcome'] = 'succeeded', client?: string) {
      const key = await payments.issueKey(client);
      const { opened, open } = gate();
      processor.plan({ outcome, after: opened });
      const answer = payments.pay({ key, client }, MONEY);
      await until('the charge to be sent', CHARGED_DEADLINE_MS, () => processor.chargesOf(key).length === 1);
      return { key, answer, finish: open };
    },
  };
}

export async function shareProtocol() {
  const ports = await sharePorts();
  const composeHere = (settings?: Settings, processor?: RecordingProcessor) => compose(ports, settings, processor);
  return {
    ports,
    ...paymentSteps(ports),
    compose: composeHere,
    async composeWithKey(settings?: Settings) {
      const process = composeHere(settings);
      return { ...process, key: await process.payments.issueKey() };
    },
  };
}

/** The limits of a request that prefers to wait: a time, and its client's disconnect. */
export const readyToWait = (ms = LONG_MS) => ({ ms, gone: new AbortController().signal });
