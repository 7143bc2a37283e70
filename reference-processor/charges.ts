import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Behaviour } from './behaviour.js';
import { type Charge, type ChargeLog, isRefundLine, type LogLine, type Outcome, type Pending } from './charge-log.js';
import { createTurns } from './turns.js';

export type ChargeResult =
  /** This request made the charge, a decline or a pending charge, and it is in the log. */
  | { readonly kind: 'new'; readonly outcome: LogLine }
  /** The outcome that this reference has had before; nothing was done. */
  | { readonly kind: 'repeat'; readonly outcome: LogLine }
  | { readonly kind: 'at work' }
  /** The reference belongs to a charge with another transaction id, amount, currency or content. */
  | { readonly kind: 'another charge' }
  | { readonly kind: 'failed' };

export type EndResult = Extract<ChargeResult, { kind: 'new' | 'repeat' | 'another charge' }>;

type LookUp = LogLine | 'at work' | 'no record';

/** The decision about a charge that waits for its payer. */
export type Decision = keyof typeof DECISIONS;

const DECISIONS = {
  confirm: { status: 'succeeded' },
  refuse: { status: 'declined', reason: 'the payer refused' },
  expire: { status: 'declined', reason: 'the payer did not confirm in time' },
} as const satisfies Record<string, Outcome>;
const ENDED = { status: 'declined', reason: 'ended by the shop' } as const;

export interface Charges {
  /** Charges once per reference. Throws ChargeNotLogged when the outcome could not be kept: then there is none. */
  charge(charge: Charge, behaviour: Behaviour): Promise<ChargeResult>;
  /** Finds a charge, and first declines it if it has waited for its payer for too long. */
  lookUp(reference: string): Promise<LookUp>;
  /**
   * Ends a reference: nothing is charged with it from then on, unless it was charged before. This holds for a charge that is at work, and
   * for one that comes later.
   */
  end(ending: Charge): Promise<EndResult>;
  /** The charges that wait for their payer. */
  pending(): readonly PendingLine[];
  /** The last line of the charge whose payer has this page. Undefined if there is none. */
  ofPage(page: string): LogLine | undefined;
  /** Returns the charge's last line, which may say another outcome: the first decision counts. Undefined if there is no record of it. */
  decide(reference: string, decision: Decision): Promise<LogLine | undefined>;
}

export type PendingLine = Charge & Pending & { readonly at: string };

export const isDecision = (text: string): text is Decision => Object.hasOwn(DECISIONS, text);

/** No outcome is answered, or remembered, before it is in the log. */
export function createCharges(log: ChargeLog, random: () => number): Charges {
  const outcomes = new Map<string, LogLine>();
  const references = new Map<string, string>();
  const atWork = new Set<string>();
  const inTurn = createTurns();
  for (const line of log.earlier) if (!isRefundLine(line)) remember(line);

  async function chargeOnce(charge: Charge, behaviour: Behaviour): Promise<ChargeResult> {
    const { reference } = charge;
    if (atWork.has(reference)) return { kind: 'at work' };
    const earlier = outcomes.get(reference);
    if (earlier) return repeated(earlier, charge);

    // Nothing was awaited since the look: of two that arrive together, one is first.
    atWork.add(reference);
    try {
      return await carryOut(charge, behaviour, () => {
        // An ending came while this charge was at work.
        const ended = outcomes.get(reference);
        return ended && repeated(ended, charge);
      });
    } finally {
      atWork.delete(reference);
    }
  }

  async function carryOut(
    charge: Charge,
    behaviour: Behaviour,
    endedMeanwhile: () => ChargeResult | undefined,
  ): Promise<ChargeResult> {
    if (behaviour.latencyMs > 0) await delay(behaviour.latencyMs);
    if (random() < behaviour.failRate) return { kind: 'failed' };
    const outcome = outcomeFor(charge, behaviour);
    return inTurn(charge.reference, async () => {
      return endedMeanwhile() ?? { kind: 'new', outcome: await write({ ...charge, ...outcome }) };
    });
  }

  function outcomeFor({ returnUrl }: Charge, { declineRate, pendingRate, pendingMs }: Behaviour): Outcome | Pending {
    if (random() < declineRate) return { status: 'declined', reason: 'insufficient funds' };
    if (returnUrl === undefined || random() >= pendingRate) return { status: 'succeeded', id: randomUUID() };
    const until = new Date(Date.now() + pendingMs).toISOString();
    return { status: 'pending', id: randomUUID(), until, page: randomUUID() };
  }

  function decide(reference: string, decision: Decision): Promise<LogLine | undefined> {
    return inTurn(reference, async () => {
      const line = outcomes.get(reference);
      if (line?.status !== 'pending') return line;
      return write(decided(line, DECISIONS[isOver(line) ? 'expire' : decision]));
    });
  }

  async function end(ending: Charge): Promise<EndResult> {
    const { reference, amount, currency } = ending;
    return inTurn(reference, async () => {
      const line = outcomes.get(reference);
      if (line === undefined) return { kind: 'new', outcome: await write({ ...ending, ...ENDED, isEnded: true }) };
      if (line.amount !== amount || line.currency !== currency) return { kind: 'another charge' };
      if (line.status !== 'pending') return { kind: 'repeat', outcome: line };
      return { kind: 'new', outcome: await write(decided(line, ENDED)) };
    });
  }

  async function lookUp(reference: string): Promise<LookUp> {
    const line = outcomes.get(reference);
    if (line?.status === 'pending' && isOver(line)) return (await decide(reference, 'expire')) ?? 'no record';
    if (line?.status === 'declined' && line.isEnded) return line;
    return atWork.has(reference) ? 'at work' : (line ?? 'no record');
  }

  async function write(line: Charge & (Outcome | Pending)): Promise<LogLine> {
    const written = { ...line, at: new Date().toISOString() };
    await log.append(written);
    remember(written);
    return written;
  }

  /** Without deduplication a reference can have several outcomes: then a decline must not hide that money has moved. */
  function remember(line: LogLine): void {
    if (line.status === 'pending') references.set(line.page, line.reference);
    if (outcomes.get(line.reference)?.status !== 'succeeded') outcomes.set(line.reference, line);
  }

  return {
    charge: (charge, behaviour) =>
      behaviour.deduplicate ? chargeOnce(charge, behaviour) : carryOut(charge, behaviour, () => undefined),
    lookUp,
    end,
    pending: () => [...outcomes.values()].filter((line) => line.status === 'pending'),
    ofPage: (page) => outcomes.get(references.get(page) ?? ''),
    decide,
  };
}

const isOver = ({ until }: Pending): boolean => Date.parse(until) <= Date.now();

/** The line of a charge that was pending: it keeps its name. */
function decided({ until: _until, page: _page, at: _at, ...charge }: PendingLine, outcome: Outcome) {
  return { ...charge, ...outcome };
}

/** The charge of a reference that was ended before is declined, whatever its content is. */
function repeated(earlier: LogLine, charge: Charge): ChargeResult {
  const isEnded = earlier.status === 'declined' && earlier.isEnded;
  if (isEnded || isSame(earlier, charge)) return { kind: 'repeat', outcome: earlier };
  return { kind: 'another charge' };
}

function isSame(one: Charge, other: Charge): boolean {
  return textOf(one) === textOf(other);
}

function textOf({ transactionId, amount, currency, order, source, description, metadata, returnUrl }: Charge): string {
  return JSON.stringify([transactionId, amount, currency, order, source, description, metadata, returnUrl]);
}
