import {
  type Charge,
  type ChargeResult,
  CONTRACT_OF_ENDINGS,
  type EndResult,
  type LookUpResult,
  type Processor,
  type ProcessorTraits,
  type Refund,
  type RefundResult,
} from '#idempay/payments/ports/processor.js';
import { type Money, unitsOf } from '#idempay/payments/values/money.js';
import type { Process } from '../simulation.js';
import type { World } from '../world.js';
import { EPOCH_MS, nameOf } from './keys.js';

/** The other company's machine when nothing is wrong. Chances from 0 to 1. */
export const WELL = {
  /** From a charge's arrival to its outcome, at most. */
  latencyMs: 50,
  declines: 0.1,
  /** The charge is refused with nothing done (a 5xx). */
  fails: 0,
  lostRequest: 0,
  lostReply: 0,
  /** A request is on its way for longer than its sender waits. */
  late: 0,
  down: false,
  /** No connection is made: at once, or not until the sender's time-out. */
  refuses: 0,
};
export type ProcessorBehaviour = Readonly<typeof WELL>;

/** A call is late by this many of its sender's time-outs at most; a processor's promise must hold that much longer. */
export const LATEST_ARRIVAL_TIMEOUTS = 6;
/**
 * The same if rows are lost: a charge is sent a time-out before its lease ends, at the latest, and after a loss a lease and a time-out are waited
 * for. Nothing is promised of one that is on its way for longer.
 */
export const LATEST_AFTER_LOSS_TIMEOUTS = 2;

/** Charges that wait for their payers (rule P24). Chances from 0 to 1. */
export interface Waits {
  readonly chance: number;
  readonly longestMs: number;
  /** The chance that a look-up finds no record of a charge that waits. */
  readonly forgets: number;
  readonly cannotEnd: number;
  /** The chance that an ending, or a question about a pending charge, is answered by an instance of the adapter that does not know them. */
  readonly otherContract: number;
}

interface ProcessorPromise {
  /** The charges that wait; undefined if none does: then the adapter does not know endings either. */
  readonly waits: Waits | undefined;
  readonly dedupMs: number;
  readonly remembersMs: number;
  readonly tellsAmounts: boolean;
  readonly latestTimeouts: number;
}

interface KnownCharge {
  readonly at: number;
  /** A charge that was pending is known until its outcome was heard. */
  hasWaited?: boolean;
  /** When it was pending, and its payer could confirm it; to Infinity while it is so. */
  pending?: { readonly from: number; until: number };
  result: ChargeResult;
  readonly charge: Charge;
}

const OLD_CONTRACT = 1;
const NO_CONTRACT = { state: 'unknown', cause: 'an old instance' } as const;
interface KnownRefund {
  readonly refund: Refund;
  result: RefundResult;
}

/** A step of a refund that the order of sends is judged by: a send, a send that surely never left, or a look-up that found no record. */
export interface RefundStep {
  readonly key: string;
  readonly at: number;
  readonly step: 'sent' | 'not sent' | 'no record';
}

const ENDED = { state: 'declined', reason: 'ended' } as const;

export type SimulatedProcessor = ReturnType<typeof createSimulatedProcessor>;

/**
 * The other company's machine: the checker relies on its charge log. It keeps its promise on references, and not a moment longer.
 * `dedupMs`: how long a reference that comes again is not charged again; 0: it deduplicates nothing. `remembersMs`: how long it remembers a
 * reference when it is asked; then it says that it has no record. `tellsAmounts`: whether a look-up says what was charged. `waits`: charges
 * that are pending, and endings. `latestTimeouts`: by how many of its sender's time-outs a call is late at most.
 */
export function createSimulatedProcessor(
  { simulation, triggered }: Pick<World<unknown>, 'simulation' | 'triggered'>,
  { dedupMs, remembersMs, tellsAmounts, latestTimeouts, waits }: ProcessorPromise,
) {
  const charges: (Charge & { readonly sentAt: number })[] = [];
  /** Each charge that left a process, whatever became of it. */
  const sends: (Charge & { readonly sentAt: number })[] = [];
  const known = new Map<string, KnownCharge>();
  /** The refunds that were made. Each is known for ever. */
  const refunds: (Refund & { readonly sentAt: number })[] = [];
  const knownRefunds = new Map<string, KnownRefund>();
  const refundSteps: RefundStep[] = [];
  const noteStep = (key: string, step: RefundStep['step']) => refundSteps.push({ key, at: simulation.time, step });
  /** A charge of one of them is declined if it arrives while references are deduplicated. With the time of its ending. */
  const ended = new Map<string, number>();
  /** Until when something about a reference may still be on its way or at work. */
  const busyUntil = new Map<string, number>();
  const machine = {
    behaviour: WELL as ProcessorBehaviour,
    charges,
    sends,
    refunds,
    refundSteps,
    verdictOn,
    knowsSince,
    isPendingAt,
    connect,
  };

  /** A charge arrives that was sent at `sentAt`. `done` is told at the end of its work. */
  function charge(charge: Charge, sentAt: number, done: (result: ChargeResult) => void): void {
    const { key, transactionId, amount } = charge;
    const random = simulation.rng(`charge ${key}`);
    const before = known.get(key);
    if (simulation.time - (ended.get(key) ?? -Infinity) < dedupMs) {
      simulation.count('charges of an ended reference declined');
      done(ENDED);
    } else if (before && simulation.time - before.at < dedupMs) {
      simulation.count('charges deduplicated');
      done(repeatOf(before, charge));
    } else if (random.fraction() < machine.behaviour.fails) {
      simulation.count('processor failures');
      done({ state: 'unknown', cause: 'the processor failed' });
    } else {
      const record: KnownCharge = { at: simulation.time, result: { state: 'unknown', cause: 'still at work' }, charge };
      known.set(key, record);
      const declined = random.fraction() < machine.behaviour.declines;
      const worksMs = random.fraction() * machine.behaviour.latencyMs;
      stayBusy(key, worksMs);
      const decide = () => {
        record.result = declined ? { state: 'declined', reason: 'insufficient funds' } : { state: 'succeeded' };
        if (!declined) charges.push({ ...charge, sentAt });
        simulation.note(`CHARGE ${key} ${record.result.state}: ${transactionId} ${amount}`);
      };
      simulation.arrive(worksMs, undefined, () => {
        const waitsMs = waitingMsOf(key);
        if (waitsMs === undefined) decide();
        else waitForPayer(record, waitsMs, decide);
        done(record.result);
      });
    }
  }

  /**
   * Another amount under a known reference is refused, as the contract demands (`docs/reference/processor.md`). After a loss of rows Idempay may
   * send one: the charge of a lost row was still on its way when the new row's look-up found no record.
   */
  function repeatOf({ charge, result }: KnownCharge, { amount }: Money): ChargeResult {
    if (charge.amount === amount) return result;
    simulation.count('charges of another amount refused');
    return { state: 'unknown', cause: `this reference belongs to a charge of ${charge.amount}` };
  }

  /** A refund arrives. What is more than is left of the charge is declined, and another amount under a known reference is refused. */
  function giveBack(refund: Refund, sentAt: number, done: (result: RefundResult) => void): void {
    const { key, payment } = refund;
    const random = simulation.rng(key);
    const before = knownRefunds.get(key);
    if (before) {
      simulation.count('refunds deduplicated');
      done(answerOf(before, refund));
      return;
    }
    if (random.fraction() < machine.behaviour.fails) {
      done({ state: 'unknown', cause: 'the processor failed' });
      return;
    }
    const record: KnownRefund = { refund, result: { state: 'unknown', cause: 'still at work' } };
    knownRefunds.set(key, record);
    const isDeclined = random.fraction() < machine.behaviour.declines;
    const worksMs = random.fraction() * machine.behaviour.latencyMs;
    stayBusy(key, worksMs);
    const decide = () => {
      const charged = charges.find((charge) => charge.key === payment);
      const given = refunds.filter((each) => each.payment === payment).reduce((sum, each) => sum + unitsOf(each), 0);
      const isTooMuch = !charged || given + unitsOf(refund) > unitsOf(charged);
      record.result = isDeclined || isTooMuch ? { state: 'declined', reason: 'no' } : { state: 'succeeded' };
      if (record.result.state === 'succeeded') refunds.push({ ...refund, sentAt });
      simulation.note(`${key} ${record.result.state}`);
    };
    simulation.arrive(worksMs, undefined, () => {
      const waitsMs = waitingMsOf(key);
      if (waitsMs === undefined) decide();
      else {
        record.result = { state: 'pending', untilMs: EPOCH_MS + simulation.time + 2 * random.fraction() * waitsMs };
        simulation.count('refunds pending');
        stayBusy(key, waitsMs);
        simulation.arrive(waitsMs, undefined, decide);
      }
      done(record.result);
    });
  }

  function lookUpRefund(key: string, money: Money | undefined): LookUpResult {
    const record = knownRefunds.get(key);
    if (record) return money ? answerOf(record, money) : withMoney(record);
    noteStep(key, 'no record');
    return { state: 'no record' };
  }

  function withMoney({ refund: { amount, currency }, result }: KnownRefund): LookUpResult {
    const isMade = result.state === 'succeeded' || result.state === 'pending';
    return isMade ? { ...result, charged: { amount, currency } } : result;
  }

  /** Every reply about a refund names its amount, and a reply of another amount is not believed. */
  function answerOf({ refund, result }: KnownRefund, { amount }: Money): RefundResult {
    return refund.amount === amount ? result : { state: 'unknown', cause: `the answer names ${refund.amount}` };
  }

  /** The time for which a charge waits; undefined for a charge that does not wait. */
  function waitingMsOf(key: string): number | undefined {
    if (!waits) return undefined;
    const random = simulation.rng(`waiting ${key}`);
    return random.fraction() < waits.chance ? random.fraction() * waits.longestMs : undefined;
  }

  /** Lets the payer decide after this time, unless the charge is ended before. The expected end in the reply is rarely the true one. */
  function waitForPayer(record: KnownCharge, waitsMs: number, decide: () => void): void {
    const { key } = record.charge;
    const random = simulation.rng(`expected end of ${key}`);
    record.result = { state: 'pending', untilMs: EPOCH_MS + simulation.time + 2 * random.fraction() * waitsMs };
    record.hasWaited = true;
    record.pending = { from: simulation.time, until: Infinity };
    simulation.count('charges pending');
    simulation.note(`CHARGE ${key} is pending`);
    stayBusy(key, waitsMs);
    const confirm = () => {
      if (record.result.state !== 'pending') return;
      if (record.pending) record.pending.until = simulation.time;
      decide();
    };
    simulation.arrive(waitsMs, undefined, confirm);
  }

  /** Ends a charge. After the first answer with an outcome, each answer is the same. */
  function end(key: string): EndResult {
    const record = known.get(key);
    const random = simulation.rng(`ending ${key}`);
    if (waits && random.fraction() < waits.otherContract) return { state: 'other contract', cause: 'an old instance' };
    if (record?.result.state === 'unknown') return record.result;
    if (record?.result.state === 'succeeded' || record?.result.state === 'declined') return record.result;
    if (record && waits && random.fraction() < waits.cannotEnd) return { state: 'cannot be ended' };
    noteEnding(key);
    if (record?.pending) record.pending.until = Math.min(record.pending.until, simulation.time);
    if (record) record.result = ENDED;
    return ENDED;
  }

  function noteEnding(key: string): void {
    ended.set(key, ended.get(key) ?? simulation.time);
    simulation.count('charges ended');
    simulation.note(`CHARGE ${key} is ended`);
  }

  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the answers of a look-up in their order.
  function lookUp(key: string, money: Money | undefined): LookUpResult {
    const record = known.get(key);
    if (ended.has(key)) return ENDED;
    if (record?.result.state === 'pending') return lookUpWaiting(record);
    const isForgotten = record && !record.hasWaited && simulation.time - record.at >= remembersMs;
    if (isForgotten) simulation.count('references forgotten');
    if (!record || isForgotten) return { state: 'no record' };
    const charged = tellsAmounts && charges.findLast((charge) => charge.key === key);
    if (record.result.state !== 'succeeded' || !charged) return record.result;
    const { amount, currency } = charged;
    if (money && money.amount !== amount) return { state: 'unknown', cause: `the answer names ${amount}` };
    return { state: 'succeeded', charged: { amount, currency } };
  }

  /** The end that it names moves with each question. */
  function lookUpWaiting({ charge: { key, amount, currency } }: KnownCharge): LookUpResult {
    const random = simulation.rng(`asking ${key}`);
    if (waits && random.fraction() < waits.forgets) return { state: 'no record' };
    const untilMs = EPOCH_MS + simulation.time + random.fraction() * (waits?.longestMs ?? 0);
    return { state: 'pending', untilMs, ...(tellsAmounts && { charged: { amount, currency } }) };
  }

  /** True if a payer could confirm it then. */
  function isPendingAt(key: string, at: number): boolean {
    const { from, until } = known.get(key)?.pending ?? { from: Infinity, until: Infinity };
    return from <= at && at < until;
  }

  /** Since when it has a record of the reference. */
  function knowsSince(key: string): number {
    return Math.min(known.get(key)?.at ?? Infinity, ended.get(key) ?? Infinity);
  }

  function stayBusy(key: string, ms: number): void {
    busyUntil.set(key, Math.max(busyUntil.get(key) ?? 0, simulation.time + ms));
  }

  /** The outcome that an operator would be told for certain: undefined while anything may still happen. */
  function verdictOn(key: string): 'COMPLETED' | 'DECLINED' | undefined {
    if ((busyUntil.get(key) ?? 0) >= simulation.time) return undefined;
    return [...charges, ...refunds].some((each) => each.key === key) ? 'COMPLETED' : 'DECLINED';
  }

  /** The processor's port as one process has it: over a network that loses and delays. */
  function connect(process: Process, traits: ProcessorTraits) {
    const { timeoutMs } = traits;
    const knowsEndings = waits ? CONTRACT_OF_ENDINGS : CONTRACT_OF_ENDINGS - 1;
    let contract = knowsEndings;
    /** Ends what is still asked as unknown. */
    const open = new Set<() => void>();

    /** `notSent`: the answer if surely nothing was sent. */
    function ask<Result, State extends string>(
      operation: string,
      key: string,
      serve: (done: (result: Result) => void) => void,
      notSent: State,
    ): Promise<Result | { readonly state: State | 'unknown'; readonly cause: string }> {
      const { behaviour } = machine;
      const random = simulation.rng(key);
      const latencyMs = () => 1 + random.fraction() * 20;
      const what = `${process.name} ${operation} ${key}`;
      // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: what may become of one call stands in the order in which it draws from the RNG, which is the history.
      return new Promise((resolve) => {
        if (!process.alive) return;
        const asked = triggered.begin(operation, [key]);
        const close = () => tell({ state: 'unknown', cause: 'the connection was closed' });
        open.add(close);
        const tell: typeof resolve = (result) => {
          open.delete(close);
          cancel();
          resolve(result);
        };
        const refuses = !behaviour.down && random.fraction() < behaviour.refuses;
        const cause = refuses ? 'no connection in time' : 'no answer in time';
        const giveUp = () => tell({ state: refuses ? notSent : 'unknown', cause });
        const cancel = simulation.after(timeoutMs, process, giveUp, `${what}: given up`);
        if (behaviour.down || refuses) {
          const refuse = () => tell({ state: notSent, cause: 'connection refused' });
          if (behaviour.down || random.below(2) === 0) simulation.after(latencyMs(), process, refuse);
          return;
        }
        const fault = triggered.injectAt('sent', asked, process);
        if (fault === 'lost' || random.fraction() < behaviour.lostRequest) {
          simulation.note(`${what}: lost on the network`);
          return;
        }
        const lostReply = random.fraction() < behaviour.lostReply;
        const late = random.fraction() < behaviour.late;
        const latestMs = latestTimeouts * timeoutMs;
        const arrivesAfterMs = late ? random.fraction() * latestMs : Math.min(latencyMs() + (fault ?? 0), latestMs);
        if (late) simulation.count('late at the processor');
        stayBusy(key, arrivesAfterMs);
        const reply = (result: Result) => {
          const replyFault = triggered.injectAt('done', asked, process);
          if (replyFault === 'lost' || lostReply) return;
          simulation.after(latencyMs() + (replyFault ?? 0), process, () => tell(result));
        };
        simulation.arrive(arrivesAfterMs, undefined, () => serve(reply), what);
      });
    }

    const port: Processor = {
      traits,
      get contract() {
        return contract;
      },
      charge(given) {
        const sentAt = simulation.time;
        const asked = { ...given, key: nameOf(given.key) };
        if (sends.some(({ key }) => key === asked.key)) simulation.count('charges sent again');
        sends.push({ ...asked, sentAt });
        const operation = `sends ${asked.transactionId} ${asked.amount} for`;
        const serve = (done: (result: ChargeResult) => void) => charge(asked, sentAt, done);
        return ask(operation, asked.key, serve, 'not sent');
      },
      async lookUp(key, money, open) {
        const name = nameOf(key);
        const isOfOld = open && waits && simulation.rng(`instance for ${name}`).fraction() < waits.otherContract;
        const answer = (done: (result: LookUpResult) => void) => done(isOfOld ? NO_CONTRACT : lookUp(name, money));
        const told = await ask('asks the processor about', name, answer, 'unknown');
        if (told.state !== 'unknown' || isOfOld) contract = isOfOld ? OLD_CONTRACT : knowsEndings;
        return told;
      },
      async refund(given) {
        const sentAt = simulation.time;
        const asked = { ...given, key: nameOf(given.key), payment: nameOf(given.payment) };
        const { key } = asked;
        noteStep(key, 'sent');
        const serve = (done: (result: RefundResult) => void) => giveBack(asked, sentAt, done);
        const answer = await ask('gives back', key, serve, 'not sent');
        if (answer.state === 'not sent') noteStep(key, 'not sent');
        return answer;
      },
      lookUpRefund(key, _payment, money) {
        const answer = (done: (result: LookUpResult) => void) => done(lookUpRefund(nameOf(key), money));
        return ask('asks about', nameOf(key), answer, 'unknown');
      },
      async end(ending) {
        const name = nameOf(ending.key);
        const answer = (done: (result: EndResult) => void) => done(end(name));
        const told = await ask('ends', name, answer, 'unknown');
        if (told.state !== 'unknown') contract = told.state === 'other contract' ? OLD_CONTRACT : knowsEndings;
        return told;
      },
    };
    const close = () => {
      for (const end of [...open]) end();
    };
    return { ...port, close };
  }

  return machine;
}
