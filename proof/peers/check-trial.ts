import type { ChargeLine } from '../../testkit/processes/reference-processor.js';
import { isRefusal, isSettled, isSuccess, type Payment, type Scenario } from './payers.js';
import type { Outages, Window } from './scenarios.js';

export interface TrialResult {
  /** Payments that were sent at least once. */
  readonly payments: number;
  /** Keys that were charged more than once. */
  readonly chargedTwice: ReadonlyMap<Scenario, number>;
  /** Answered with success, and not charged at all. */
  readonly paidWithoutCharge: number;
  /** Keys with two different successes. */
  readonly twoReceipts: number;
  /** Refused, though nothing was wrong with the request. */
  readonly refused: number;
  /** Still "in progress" at the end. */
  readonly stuck: readonly Payment[];
  /** The same failure each time, although the processor is up again. */
  readonly failedForEver: readonly Payment[];
  /** The server says that it does not know, and leaves them to an operator. */
  readonly forOperator: readonly Payment[];
  readonly charged: (payments: readonly Payment[]) => number;
  /** From the first request to the outcome, of the payments of the crash scenario. */
  readonly slowestOutcomeMs: number;
  readonly killed: OutageAnswers | undefined;
  readonly stopped: OutageAnswers | undefined;
  /** Answers to the second body. */
  readonly otherBody: string;
}

/** Answers to requests that were sent while Redis was away. */
export interface OutageAnswers {
  readonly hangs: number;
  readonly longestMs: number;
  /** Such as `503 x 412, 200 x 3`. */
  readonly statuses: string;
}

/** Compares what clients were answered with what was charged. */
export async function checkTrial(evidence: {
  readonly payments: readonly Payment[];
  readonly charges: readonly ChargeLine[];
  readonly outages: Outages;
  readonly isForOperator: (key: string) => Promise<boolean>;
}): Promise<TrialResult> {
  const { killed, stopped } = evidence.outages;
  const payments = evidence.payments.filter(({ answers }) => answers.length > 0);
  const charges = countsOf(evidence.charges.map(({ reference }) => reference));
  const chargesOf = ({ key }: Payment) => charges.get(key) ?? 0;

  const open = payments.filter((payment) => !isSettled(payment));
  const forOperator = new Set<Payment>();
  for (const payment of open) if (await evidence.isForOperator(payment.key)) forOperator.add(payment);
  const others = open.filter((payment) => !forOperator.has(payment));
  const isStuck = ({ answers }: Payment) => answers.at(-1)?.status === 409;

  return {
    payments: payments.length,
    chargedTwice: countsOf(payments.filter((each) => chargesOf(each) > 1).map(({ scenario }) => scenario)),
    paidWithoutCharge: payments.filter((each) => each.answers.some(isSuccess) && chargesOf(each) === 0).length,
    twoReceipts: payments.filter(({ answers }) => new Set(answers.flatMap(({ receipt }) => receipt ?? [])).size > 1)
      .length,
    refused: payments.filter(({ scenario, answers }) => scenario !== 'other body' && answers.some(isRefusal)).length,
    stuck: others.filter(isStuck),
    failedForEver: others.filter((payment) => !isStuck(payment)),
    forOperator: [...forOperator],
    charged: (some) => some.filter((payment) => chargesOf(payment) > 0).length,
    slowestOutcomeMs: Math.max(0, ...payments.filter(({ scenario }) => scenario === 'crash').map(timeToOutcome)),
    killed: killed && answersWithin(payments, killed),
    stopped: stopped && answersWithin(payments, stopped),
    otherBody: tally(payments.filter(({ scenario }) => scenario === 'other body').map(secondAnswer)),
  };
}

function timeToOutcome({ answers }: Payment): number {
  const outcome = answers.find(isSuccess);
  return outcome ? outcome.sentAtMs + outcome.tookMs - Math.min(...answers.map(({ sentAtMs }) => sentAtMs)) : 0;
}

function answersWithin(payments: readonly Payment[], [fromMs, toMs]: Window): OutageAnswers {
  const answers = payments.flatMap((each) => each.answers);
  const during = answers.filter(({ sentAtMs }) => sentAtMs >= fromMs && sentAtMs < toMs);
  return {
    hangs: during.filter(({ status }) => status === 'hang').length,
    longestMs: Math.max(0, ...during.map(({ tookMs }) => tookMs)),
    statuses: tally(during.map(({ status }) => `${status}`)),
  };
}

function secondAnswer({ answers: [first, second] }: Payment): string {
  if (!second || !isSuccess(second)) return `refused, ${second?.status}`;
  return second.receipt === first?.receipt ? 'the first result' : 'paid again';
}

function tally(words: readonly string[]): string {
  const counts = countsOf(words);
  const sorted = [...counts].sort(([, one], [, other]) => other - one);
  return sorted.map(([word, count]) => (counts.size === 1 ? word : `${word} x ${count}`)).join(', ') || 'none';
}

function countsOf<Word>(words: readonly Word[]): Map<Word, number> {
  const counts = new Map<Word, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
