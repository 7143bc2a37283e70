import {
  CONTRACT_OF_ENDINGS,
  type LookUpResult,
  type ProcessorClient,
  type Refund,
} from '../payments/ports/processor.js';
import type { FakeCharge, FakePending, FakeRefund } from './fake-exchange.js';

/** Its answer to a payment that it was not asked for before. `unknown`: it charges, and its reply is lost. */
export type FakeProcessing = { readonly decline: string } | { readonly pending: FakePending } | 'unknown' | undefined;

export interface FakeProcessor extends ProcessorClient {
  readonly charges: FakeCharge[];
  /** In the order in which they were made. All of one charge are never more than it. */
  readonly refunds: FakeRefund[];
  /** The charges that wait for their payer, in the order in which they came. */
  readonly pending: readonly FakeCharge[];
  /** The fake processor knows nothing of these payments, so that an operator can resolve them. */
  readonly silentAbout: Set<string>;
  /** Confirms or refuses a pending charge as its payer. Throws if no charge with this key is pending. */
  confirm(key: string): void;
  refuse(key: string, reason: string): void;
}

type Known = Exclude<LookUpResult, { state: 'unknown' | 'no record' }>;

const HOUR_MS = 3_600_000;

/**
 * The fake has the name of the simulated processor. `next` is the processing of the request that is charged for. `now` is in milliseconds
 * since the epoch.
 */
export function createFakeProcessor(next: () => FakeProcessing, now: () => number): FakeProcessor {
  const charges: FakeCharge[] = [];
  const waiting = new Map<string, FakeCharge>();
  const known = new Map<string, Known>();
  const silentAbout = new Set<string>();
  const refunds: FakeRefund[] = [];
  const knownRefunds = new Map<string, Known>();

  function begin(charge: FakeCharge, { untilMs = now() + HOUR_MS, action }: FakePending): Known {
    waiting.set(charge.key, charge);
    const { amount, currency, returnUrl } = charge;
    const shown = returnUrl === undefined ? undefined : action;
    return { state: 'pending', untilMs, action: shown, charged: { amount, currency } };
  }

  function finish(charge: FakeCharge, result: Known): Known {
    waiting.delete(charge.key);
    if (result.state === 'succeeded') charges.push(charge);
    known.set(charge.key, result);
    return result;
  }

  function refundOnce({ key, payment, transactionId, amount, currency, reason }: Refund): Known {
    const charge = charges.find((each) => each.key === payment);
    if (charge?.currency !== currency) return { state: 'declined', reason: 'there is no such charge' };
    const given = refunds.filter((each) => each.payment === payment).map((each) => unitsOf(each.amount));
    const left = given.reduce((rest, units) => rest - units, unitsOf(charge.amount));
    if (unitsOf(amount) > left) return { state: 'declined', reason: 'more than is left of the charge' };
    refunds.push({ payment, key, transactionId, amount, currency, reason });
    return { state: 'succeeded' };
  }

  function waitingFor(key: string): FakeCharge {
    const charge = waiting.get(key.toLowerCase());
    if (charge) return charge;
    throw new TypeError(`No payment with the key '${key}' is pending. Pending are: ${[...waiting.keys()].join(', ')}.`);
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
    silentAbout,
    async charge({ key, transactionId, amount, currency, content }) {
      const ended = known.get(key);
      if (ended) return ended;
      const charge = { key, transactionId, amount, currency, ...content };
      const processing = next();
      if (processing === undefined || processing === 'unknown') {
        const result = finish(charge, { state: 'succeeded' });
        return processing ? { state: 'unknown', cause: 'the reply was lost' } : result;
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
      const ended = { state: 'declined', reason: 'the payment was cancelled' } as const;
      waiting.delete(key);
      // A reference that was never charged is kept too, so that a charge that comes later is declined.
      known.set(key, ended);
      return ended;
    },
    async refund(refund) {
      const result = knownRefunds.get(refund.key) ?? refundOnce(refund);
      knownRefunds.set(refund.key, result);
      return result;
    },
    async lookUpRefund(key) {
      if (silentAbout.has(key)) return { state: 'unknown', cause: 'it does not know' };
      return knownRefunds.get(key) ?? { state: 'no record' };
    },
    confirm: (key) => void finish(waitingFor(key), { state: 'succeeded' }),
    refuse: (key, reason) => void finish(waitingFor(key), { state: 'declined', reason }),
    async close() {},
  };
}

/** Two amounts of one currency have the same decimals. */
const unitsOf = (amount: string): bigint => BigInt(amount.replace('.', ''));
