import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Behaviour } from './behaviour.js';
import type { Charge, ChargeLine, ChargeLog, Outcome } from './charge-log.js';

export type ChargeResult =
  /** Charged or declined by this request: it is in the log. */
  | { readonly kind: 'new'; readonly outcome: ChargeLine }
  /** The outcome that this reference has had before; nothing was done. */
  | { readonly kind: 'repeat'; readonly outcome: ChargeLine }
  | { readonly kind: 'at work' }
  /** The reference belongs to a charge with another transaction id, amount, currency or content. */
  | { readonly kind: 'another charge' }
  | { readonly kind: 'failed' };

type LookUp = ChargeLine | 'at work' | 'no record';

export interface Charges {
  /** Charges once per reference. Throws ChargeNotLogged when the outcome could not be kept: then there is none. */
  charge(charge: Charge, behaviour: Behaviour): Promise<ChargeResult>;
  lookUp(reference: string): LookUp;
}

/** No outcome is answered, or remembered, before it is in the log. */
export function createCharges(log: ChargeLog, random: () => number): Charges {
  const outcomes = new Map<string, ChargeLine>();
  const atWork = new Set<string>();
  log.earlier.forEach(remember);

  async function chargeOnce(charge: Charge, behaviour: Behaviour): Promise<ChargeResult> {
    const { reference } = charge;
    if (atWork.has(reference)) return { kind: 'at work' };
    const earlier = outcomes.get(reference);
    if (earlier) return isSame(earlier, charge) ? { kind: 'repeat', outcome: earlier } : { kind: 'another charge' };

    // Nothing was awaited since the look: of two that arrive together, one is first.
    atWork.add(reference);
    try {
      return await carryOut(charge, behaviour);
    } finally {
      atWork.delete(reference);
    }
  }

  async function carryOut(charge: Charge, behaviour: Behaviour): Promise<ChargeResult> {
    if (behaviour.latencyMs > 0) await delay(behaviour.latencyMs);
    if (random() < behaviour.failRate) return { kind: 'failed' };
    const outcome: Outcome =
      random() < behaviour.declineRate
        ? { status: 'declined', reason: 'insufficient funds' }
        : { status: 'succeeded', id: randomUUID() };

    const line = { ...charge, ...outcome, at: new Date().toISOString() };
    await log.append(line);
    remember(line);
    return { kind: 'new', outcome: line };
  }

  /** Without deduplication a reference can have several outcomes: then a decline must not hide that money has moved. */
  function remember(line: ChargeLine): void {
    if (outcomes.get(line.reference)?.status !== 'succeeded') outcomes.set(line.reference, line);
  }

  return {
    charge: (charge, behaviour) => (behaviour.deduplicate ? chargeOnce : carryOut)(charge, behaviour),
    lookUp: (reference) => (atWork.has(reference) ? 'at work' : (outcomes.get(reference) ?? 'no record')),
  };
}

function isSame(one: Charge, other: Charge): boolean {
  return textOf(one) === textOf(other);
}

function textOf({ transactionId, amount, currency, order, source, description, metadata }: Charge): string {
  return JSON.stringify([transactionId, amount, currency, order, source, description, metadata]);
}
