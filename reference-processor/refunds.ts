import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Behaviour } from './behaviour.js';
import {
  type ChargeLog,
  isRefundLine,
  type LogLine,
  type Outcome,
  type PendingRefund,
  type Refund,
  type RefundLine,
} from './charge-log.js';
import type { Charges, Decision } from './charges.js';
import { createTurns } from './turns.js';

export type RefundResult =
  /** Given back, declined or pending by this request: it is in the log. */
  | { readonly kind: 'new'; readonly outcome: RefundLine }
  /** The outcome that this reference has had before; nothing was done. */
  | { readonly kind: 'repeat'; readonly outcome: RefundLine }
  /** The refund, or its charge, is under way. */
  | { readonly kind: 'at work' }
  /** The reference belongs to a refund with another charge, transaction id, amount or currency. */
  | { readonly kind: 'another refund' }
  | { readonly kind: 'failed' };

export type PendingRefundLine = Refund & PendingRefund & { readonly at: string };

/** The bank has paid the refund out also if nobody says so in time. */
const DECISIONS: Readonly<Record<Decision, Outcome>> = {
  confirm: { status: 'succeeded' },
  refuse: { status: 'declined', reason: 'the bank refused' },
  expire: { status: 'succeeded' },
};
/** `[0-9]{1,18}` of an amount may follow its point. */
const MOST_DECIMALS = 18;

export interface Refunds {
  /** Gives back once per reference, and never more than was charged. Throws ChargeNotLogged when the outcome could not be kept. */
  refund(refund: Refund, behaviour: Behaviour): Promise<RefundResult>;
  /** Ends a refund that is pending for longer than it may. A refund of another charge is no record. */
  lookUp(reference: string, charge: string): Promise<RefundLine | 'at work' | 'no record'>;
  pending(): readonly PendingRefundLine[];
  /** As for a charge. */
  decide(reference: string, decision: Decision): Promise<RefundLine | undefined>;
}

/** Kept in the log of charges. No outcome is answered, or remembered, before it is in the log. */
export function createRefunds(log: ChargeLog, charges: Pick<Charges, 'lookUp'>, random: () => number): Refunds {
  const outcomes = new Map<string, RefundLine>();
  /** By charge, and then by the refund's own name: its last line. */
  const given = new Map<string, Map<string, RefundLine>>();
  const atWork = new Set<string>();
  const inTurn = createTurns();
  for (const line of log.earlier) if (isRefundLine(line)) remember(line);

  async function refundOnce(refund: Refund, behaviour: Behaviour): Promise<RefundResult> {
    const { reference } = refund;
    if (atWork.has(reference)) return { kind: 'at work' };
    const earlier = outcomes.get(reference);
    if (earlier) return isSame(earlier, refund) ? { kind: 'repeat', outcome: earlier } : { kind: 'another refund' };
    // Nothing was awaited since the look: of two that arrive together, one is first.
    atWork.add(reference);
    try {
      return await carryOut(refund, behaviour);
    } finally {
      atWork.delete(reference);
    }
  }

  async function carryOut(refund: Refund, behaviour: Behaviour): Promise<RefundResult> {
    if (behaviour.latencyMs > 0) await delay(behaviour.latencyMs);
    if (random() < behaviour.failRate) return { kind: 'failed' };
    // Two refunds of one charge: the second one finds the sum that the first one raised.
    return inTurn(refund.charge, async () => {
      const charge = await charges.lookUp(refund.charge);
      if (charge === 'at work') return { kind: 'at work' };
      return { kind: 'new', outcome: await write(refund, outcomeFor(refund, charge, behaviour)) };
    });
  }

  function outcomeFor(
    { charge: of, amount, currency }: Refund,
    charge: LogLine | 'no record',
    { declineRate, refundPendingRate, pendingMs }: Behaviour,
  ): Outcome | PendingRefund {
    if (charge === 'no record' || charge.status !== 'succeeded') return declined('there is no such charge');
    if (charge.currency !== currency) return declined(`the charge is in ${charge.currency}`);
    const left = unitsOf(charge.amount) - givenOf(of);
    if (unitsOf(amount) > left) return declined('more than is left of the charge');
    if (random() < declineRate) return declined('the card was closed');
    if (random() >= refundPendingRate) return { status: 'succeeded', id: randomUUID() };
    return { status: 'pending', id: randomUUID(), until: new Date(Date.now() + pendingMs).toISOString() };
  }

  /** Pending refunds count too. */
  function givenOf(charge: string): bigint {
    const lines = [...(given.get(charge)?.values() ?? [])].filter(({ status }) => status !== 'declined');
    return lines.reduce((sum, { amount }) => sum + unitsOf(amount), 0n);
  }

  async function decide(reference: string, decision: Decision): Promise<RefundLine | undefined> {
    const known = outcomes.get(reference);
    if (known === undefined) return undefined;
    return inTurn(known.charge, async () => {
      const line = outcomes.get(reference);
      if (line?.status !== 'pending') return line;
      return write(line, { ...DECISIONS[isOver(line) ? 'expire' : decision], id: line.id });
    });
  }

  async function lookUp(reference: string, charge: string): Promise<RefundLine | 'at work' | 'no record'> {
    const line = outcomes.get(reference);
    if (line === undefined) return atWork.has(reference) ? 'at work' : 'no record';
    if (line.charge !== charge) return 'no record';
    const isLate = line.status === 'pending' && isOver(line);
    return (isLate ? await decide(reference, 'expire') : line) ?? 'no record';
  }

  async function write(refund: Refund, outcome: Outcome | PendingRefund): Promise<RefundLine> {
    const { reference, charge, transactionId, amount, currency, purpose } = refund;
    const about = { charge, transactionId, amount, currency, purpose };
    const written = { reference, type: 'refund', ...about, ...outcome, at: new Date().toISOString() } as const;
    await log.append(written);
    remember(written);
    return written;
  }

  /** Without deduplication a reference can have several outcomes: then a decline must not hide that money was given back. */
  function remember(line: RefundLine): void {
    if (outcomes.get(line.reference)?.status !== 'succeeded') outcomes.set(line.reference, line);
    if (line.id === undefined) return;
    const ofCharge = given.get(line.charge) ?? new Map<string, RefundLine>();
    given.set(line.charge, ofCharge.set(line.id, line));
  }

  return {
    refund: (refund, behaviour) =>
      behaviour.deduplicate ? refundOnce(refund, behaviour) : carryOut(refund, behaviour),
    lookUp,
    pending: () => [...outcomes.values()].filter((line) => line.status === 'pending'),
    decide,
  };
}

const declined = (reason: string) => ({ status: 'declined', reason }) as const;

const isOver = ({ until }: PendingRefund): boolean => Date.parse(until) <= Date.now();

const isSame = (one: Refund, other: Refund) => textOf(one) === textOf(other);

function textOf({ charge, transactionId, amount, currency }: Refund): string {
  return JSON.stringify([charge, transactionId, amount, currency]);
}

/** Exact: the amount is decimal text. */
function unitsOf(amount: string): bigint {
  const [whole = '', fraction = ''] = amount.split('.');
  return BigInt(whole + fraction.padEnd(MOST_DECIMALS, '0'));
}
