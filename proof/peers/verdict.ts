import type { ChargeLine } from '../../testkit/processes/reference-processor.js';
import { isRefusal, isSettled, isSuccess, type Payment, type Scene, type Told } from './payers.js';
import type { Course, Window } from './scenario.js';

export interface Verdict {
  /** Payments that were sent at least once. */
  readonly payments: number;
  /** Keys that were charged more than once, by what they went through. */
  readonly chargedTwice: ReadonlyMap<Scene, number>;
  /** Told success, and not charged at all. */
  readonly paidWithoutCharge: number;
  /** Keys that were told two different successes. */
  readonly twoReceipts: number;
  /** Told to use another key, though nothing was wrong with the request. */
  readonly refused: number;
  /** Still "in progress" at the end. */
  readonly stuck: readonly Payment[];
  /** A failure, repeated for ever, although the processor is well again. */
  readonly failedForEver: readonly Payment[];
  /** The server itself says that it does not know, and leaves them to an operator. */
  readonly forOperator: readonly Payment[];
  readonly charged: (payments: readonly Payment[]) => number;
  /** From the first request to the outcome, of the payments that went through the crashes. */
  readonly slowestOutcomeMs: number;
  readonly killed: Answers | undefined;
  readonly stopped: Answers | undefined;
  readonly otherBody: string;
}

/** What requests were told that were sent while Redis was away. */
export interface Answers {
  readonly count: number;
  readonly hangs: number;
  readonly longestMs: number;
  /** Such as `503 x 412, 200 x 3`. */
  readonly statuses: string;
}

/** Holds what clients were told against what was charged. */
export async function judge(evidence: {
  readonly payments: readonly Payment[];
  readonly charges: readonly ChargeLine[];
  readonly course: Course;
  readonly isForOperator: (key: string) => Promise<boolean>;
}): Promise<Verdict> {
  const { charges, course } = evidence;
  const payments = evidence.payments.filter(({ told }) => told.length > 0);
  const counts = new Map<string, number>();
  for (const { reference } of charges) counts.set(reference, (counts.get(reference) ?? 0) + 1);
  const chargesOf = ({ key }: Payment) => counts.get(key) ?? 0;

  const open = payments.filter((payment) => !isSettled(payment));
  const forOperator = new Set<Payment>();
  for (const payment of open) if (await evidence.isForOperator(payment.key)) forOperator.add(payment);
  const failed = open.filter((payment) => !forOperator.has(payment) && lastStatus(payment) !== 409);

  return {
    payments: payments.length,
    chargedTwice: countByScene(payments.filter((payment) => chargesOf(payment) > 1)),
    paidWithoutCharge: payments.filter((payment) => wasToldSuccess(payment) && chargesOf(payment) === 0).length,
    twoReceipts: payments.filter((payment) => receiptsOf(payment).size > 1).length,
    refused: payments.filter(
      ({ scene, told }) => scene !== 'other body' && told.some(({ status }) => isRefusal(status)),
    ).length,
    stuck: open.filter((payment) => !forOperator.has(payment) && !failed.includes(payment)),
    failedForEver: failed,
    forOperator: [...forOperator],
    charged: (some) => some.filter((payment) => chargesOf(payment) > 0).length,
    slowestOutcomeMs: Math.max(0, ...payments.filter(({ scene }) => scene === 'crash').map(timeToOutcome)),
    killed: course.killed && answersWithin(payments, course.killed),
    stopped: course.stopped && answersWithin(payments, course.stopped),
    otherBody: otherBody(payments),
  };
}

function wasToldSuccess({ told }: Payment): boolean {
  return told.some(({ status }) => isSuccess(status));
}

function receiptsOf({ told }: Payment): Set<string> {
  return new Set(told.flatMap(({ receipt }) => receipt ?? []));
}

function lastStatus({ told }: Payment): Told['status'] | undefined {
  return told.at(-1)?.status;
}

function timeToOutcome({ told }: Payment): number {
  const outcome = told.find(({ status }) => isSuccess(status));
  return outcome && told[0] ? outcome.sentAtMs + outcome.tookMs - Math.min(...told.map((each) => each.sentAtMs)) : 0;
}

function countByScene(payments: readonly Payment[]): Map<Scene, number> {
  const counts = new Map<Scene, number>();
  for (const { scene } of payments) counts.set(scene, (counts.get(scene) ?? 0) + 1);
  return counts;
}

function answersWithin(payments: readonly Payment[], [fromMs, toMs]: Window): Answers {
  const told = payments.flatMap((each) => each.told).filter(({ sentAtMs }) => sentAtMs >= fromMs && sentAtMs < toMs);
  return {
    count: told.length,
    hangs: told.filter(({ status }) => status === 'hang').length,
    longestMs: Math.max(0, ...told.map(({ tookMs }) => tookMs)),
    statuses: tally(told.map(({ status }) => `${status}`)),
  };
}

/** What the second body was told: it is the second answer of each payment in that scene. */
function otherBody(payments: readonly Payment[]): string {
  const answers = payments
    .filter(({ scene }) => scene === 'other body')
    .map(({ told: [first, second] }) => {
      if (!second || !isSuccess(second.status)) return `refused, ${second?.status}`;
      return second.receipt === first?.receipt ? 'the first result' : 'paid again';
    });
  return tally(answers);
}

function tally(words: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  const sorted = [...counts].sort(([, one], [, other]) => other - one);
  return sorted.map(([word, count]) => (counts.size === 1 ? word : `${word} x ${count}`)).join(', ') || 'none';
}
