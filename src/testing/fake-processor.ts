import {
  type ChargeResult,
  CONTRACT_OF_ENDINGS,
  type LookUpResult,
  type ProcessorClient,
  type Refund,
} from '../payments/ports/processor.js';
import type { FakeCharge, FakePending, FakeRefund } from './fake-exchange.js';
import type { FakeProcessorFault } from './fake-fault.js';

/** Its answer to a payment or a refund that it was not asked for before, or to an ending. */
export type FakeProcessing = FakeProcessorFault | 'cannot-be-ended' | undefined;

export interface FakeProcessor extends ProcessorClient {
  readonly charges: FakeCharge[];
  /** The refunds in the order in which they were made. All refunds of a charge together never exceed it. */
  readonly refunds: FakeRefund[];
  /** The charges that wait for their payer, in the order in which they came. */
  readonly pending: readonly FakeCharge[];
  /** The refunds that take time, in the order in which they came. */
  readonly pendingRefunds: readonly FakeRefund[];
  /** The fake processor knows nothing of these payments, so that an operator can resolve them. */
  readonly silentAbout: Set<string>;
  /** Ends a pending charge as its payer does, or a pending refund as the bank does. Throws if nothing with this key is pending. */
  confirm(key: string): void;
  refuse(key: string, reason: string): void;
}

type Known = Exclude<LookUpResult, { state: 'unknown' | 'no record' }>;

const HOUR_MS = 3_600_000;
const REPLY_LOST = { state: 'unknown', cause: 'the reply was lost' } as const;

/**
 * The fake has the name of the simulated processor. `next` is the processing of the request that charges, gives back or ends. `now` is in
 * milliseconds since the epoch.
 */
export function createFakeProcessor(next: () => FakeProcessing, now: () => number): FakeProcessor {
  /** The processing of a charge or of a refund. The other fault is of an ending. */
  function nextProcessing() {
    const given = next();
    return given === 'cannot-be-ended' ? undefined : given;
  }
  const charges: FakeCharge[] = [];
  const waiting = new Map<string, FakeCharge>();
  const known = new Map<string, Known>();
  const silentAbout = new Set<string>();
  const refunds: FakeRefund[] = [];
  const waitingRefunds = new Map<string, FakeRefund>();
  const knownRefunds = new Map<string, Known>();

  function begin(charge: FakeCharge, pending: FakePending): Known {
    waiting.set(charge.key, charge);
    return pendingWith(charge, { ...pending, action: charge.returnUrl === undefined ? undefined : pending.action });
  }

  function pendingWith(
    { amount, currency }: FakeCharge | FakeRefund,
    {
      untilMs = now() + HOUR_MS,
      action,
    }: { readonly untilMs?: number; readonly action?: FakePending['action'] | undefined },
  ): Known {
    return { state: 'pending', untilMs, action, charged: { amount, currency } };
  }

  function finish(charge: FakeCharge, result: Known): Known {
    waiting.delete(charge.key);
    if (result.state === 'succeeded') charges.push(charge);
    known.set(charge.key, result);
    return result;
  }

  function finishRefund(refund: FakeRefund, result: Known): Known {
    waitingRefunds.delete(refund.key);
    if (result.state === 'succeeded') refunds.push(refund);
    knownRefunds.set(refund.key, result);
    return result;
  }

  /** A refund that takes time has its part of the charge, too. */
  function leftOf({ key, amount }: FakeCharge): bigint {
    const taken = [...refunds, ...waitingRefunds.values()].filter(({ payment }) => payment === key);
    return taken.reduce((rest, refund) => rest - unitsOf(refund.amount), unitsOf(amount));
  }

  function refundOnce({ key, payment, transactionId, amount, currency, reason }: Refund): ChargeResult {
    const charge = charges.find((each) => each.key === payment);
    const refund = { payment, key, transactionId, amount, currency, reason };
    const declineFor = (why: string) => finishRefund(refund, { state: 'declined', reason: why });
    if (charge?.currency !== currency) return declineFor('there is no such charge');
    if (unitsOf(amount) > leftOf(charge)) return declineFor('more than is left of the charge');
    const processing = nextProcessing();
    if (processing === undefined) return finishRefund(refund, { state: 'succeeded' });
    if (processing === 'unknown') {
      finishRefund(refund, { state: 'succeeded' });
      return REPLY_LOST;
    }
    if ('decline' in processing) return declineFor(processing.decline);
    const result = pendingWith(refund, { ...processing.pending, action: undefined });
    waitingRefunds.set(key, refund);
    knownRefunds.set(key, result);
    return result;
  }

  function decide(asked: string, result: Known): void {
    const key = asked.toLowerCase();
    const charge = waiting.get(key);
    const refund = waitingRefunds.get(key);
    if (charge) finish(charge, result);
    else if (refund) finishRefund(refund, result);
    else {
      const keys = [...waiting.keys(), ...waitingRefunds.keys()];
      throw new TypeError(
        `No payment and no refund with the key '${asked}' is pending. Pending are: ${keys.join(', ')}.`,
      );
    }
  }

  return {
    traits: { name: 'simulated', formerNames: [], typicalMs: 0, timeoutMs: 0, dedupMs: Number.POSITIVE_INFINITY },
    isDown: false,
    movesMoney: false,
    contract: CONTRACT_OF_ENDINGS,
    charges,
    refunds,
    get pending() {
      return [...waiting.values()];
    },
    get pendingRefunds() {
      return [...waitingRefunds.values()];
    },
    silentAbout,
    async charge({ key, transactionId, amount, currency, content }) {
      const ended = known.get(key);
      if (ended) return ended;
      const charge = { key, transactionId, amount, currency, ...content };
      const processing = nextProcessing();
      if (processing === undefined || processing === 'unknown') {
        const result = finish(charge, { state: 'succeeded' });
        return processing ? REPLY_LOST : result;
      }
      if ('decline' in processing) return finish(charge, { state: 'declined', reason: processing.decline });
      const result = begin(charge, processing.pending);
      known.set(key, result);
      return result;
    },
    async lookUp(key) {
      if (silentAbout.has(key)) return { state: 'unknown', cause: 'it does not know' };
      return known.get(key) ?? { state: 'no record' };
    },
    async end({ key }) {
      if (silentAbout.has(key)) return { state: 'unknown', cause: 'it does not know' };
      const found = known.get(key);
      if (found && found.state !== 'pending') return found;
      if (next() === 'cannot-be-ended') return { state: 'cannot be ended' };
      const ended = { state: 'declined', reason: 'the payment was cancelled' } as const;
      waiting.delete(key);
      // A reference that was never charged is kept too, so that a charge that comes later is declined.
      known.set(key, ended);
      return ended;
    },
    async refund(refund) {
      return knownRefunds.get(refund.key) ?? refundOnce(refund);
    },
    async lookUpRefund(key) {
      if (silentAbout.has(key)) return { state: 'unknown', cause: 'it does not know' };
      return knownRefunds.get(key) ?? { state: 'no record' };
    },
    confirm: (key) => decide(key, { state: 'succeeded' }),
    refuse: (key, reason) => decide(key, { state: 'declined', reason }),
    async close() {},
  };
}

/** Two amounts of one currency have the same decimals. */
const unitsOf = (amount: string): bigint => BigInt(amount.replace('.', ''));
