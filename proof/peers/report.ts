import { markdownTable } from '../../testkit/markdown-table.js';
import { isRefusal, isSettled, isSuccess, PATIENCE_MS, type Payment, SCENARIOS, type Scenario } from './payers.js';
import type { Peer } from './peers.js';
import type { Outages } from './scenarios.js';

/** The answers to the clients of one server, and the charges. */
export interface Trial {
  readonly peer: Peer;
  readonly deduplicates: boolean;
  /** Those that were sent at least once. */
  readonly payments: readonly Payment[];
  /** The key of each charge. */
  readonly charges: readonly string[];
  /** The server says that it does not know, and leaves them to an operator. */
  readonly forOperator: ReadonlySet<Payment>;
  readonly outages: Outages;
  /** Ends of server processes that nobody caused. */
  readonly ownEnds: readonly string[];
  /** The longest remaining life of the records that Redis has of open keys; undefined if there are none. */
  readonly lockSeconds: number | undefined;
}

type Column = readonly [title: string, cell: (trial: Trial) => string];

const TRIAL: readonly Column[] = [
  ['server', ({ peer }) => peer.name],
  ['processor deduplicates', ({ deduplicates }) => (deduplicates ? 'yes' : 'no')],
];

/** Tables in Markdown: who charges twice, who leaves payments without an outcome, and what an outage of Redis costs. */
export const report = (trials: readonly Trial[]) =>
  [chargedTwiceTable(trials), openTable(trials), outageTable(trials)].filter(Boolean).join('\n\n');

function chargedTwiceTable(trials: readonly Trial[]): string {
  const columns: Column[] = [
    ['payments', ({ payments }) => `${payments.length}`],
    ...SCENARIOS.map((scenario): Column => [scenario, (trial) => chargedTwiceIn(scenario, trial)]),
    ['success without a charge', (trial) => bold(trial.payments.filter(isPaidWithoutCharge(trial)))],
    ['two results for a key', ({ payments }) => bold(payments.filter(hasTwoReceipts))],
  ];
  return `Keys that were charged more than once, by scenario:\n\n${table(trials, columns)}`;
}

function openTable(trials: readonly Trial[]): string {
  const columns: Column[] = [
    ['stuck in 409', (trial) => withCharged(trial, openOf(trial).filter(isStuck))],
    // The same failure each time, although the processor is up again.
    ['same failure for ever', (trial) => withCharged(trial, openOf(trial).filter(isFailing))],
    ['record lives for', remainingLife],
    ['left to an operator', (trial) => withCharged(trial, [...trial.forOperator]).replaceAll('*', '')],
    ['slowest outcome after a crash', ({ payments }) => `${(slowestAfterCrash(payments) / 1_000).toFixed(1)} s`],
    // Although nothing was wrong with the request.
    ['refused: take another key', ({ payments }) => bold(payments.filter(isRefusedWrongly))],
    ['other body, same key', ({ payments }) => tally(of('other body', payments).map(secondAnswer))],
  ];
  const title = `Payments without an outcome, repeated for ${PATIENCE_MS / 1_000} s after everything was up again (of them charged):`;
  return `${title}\n\n${table(trials, columns)}`;
}

/** An empty text if no server has a Redis that can go down. */
function outageTable(trials: readonly Trial[]): string {
  const withOutages = trials.filter(({ outages }) => outages.killed);
  if (withOutages.length === 0) return '';
  const columns: Column[] = [
    ...outage('killed'),
    ...outage('stopped'),
    ['processes that ended by themselves', ({ ownEnds }) => bold(ownEnds)],
  ];
  return `Requests that were sent while Redis was down:\n\n${table(withOutages, columns)}`;
}

/** The promises of this service; the other results are only reported. */
export const isBroken = (trial: Trial) =>
  trial.payments.some((payment) => hasTwoReceipts(payment) || chargesOf(trial, payment) > 1);

const of = (scenario: Scenario, payments: readonly Payment[]) =>
  payments.filter((payment) => payment.scenario === scenario);

const chargesOf = ({ charges }: Trial, { key }: Payment) => charges.filter((reference) => reference === key).length;

function chargedTwiceIn(scenario: Scenario, trial: Trial): string {
  if (!trial.peer.stores.includes('redis') && (scenario === 'Redis down' || scenario === 'FLUSHALL')) return '-';
  return bold(of(scenario, trial.payments).filter((payment) => chargesOf(trial, payment) > 1));
}

const isPaidWithoutCharge = (trial: Trial) => (payment: Payment) =>
  payment.answers.some(isSuccess) && chargesOf(trial, payment) === 0;

const hasTwoReceipts = ({ answers }: Payment) => new Set(answers.flatMap(({ receipt }) => receipt ?? [])).size > 1;

const openOf = ({ payments, forOperator }: Trial) =>
  payments.filter((payment) => !isSettled(payment) && !forOperator.has(payment));

const isStuck = ({ answers }: Payment) => answers.at(-1)?.status === 409;
const isFailing = (payment: Payment) => !isStuck(payment);

const isRefusedWrongly = ({ scenario, answers }: Payment) => scenario !== 'other body' && answers.some(isRefusal);

function withCharged(trial: Trial, payments: readonly Payment[]): string {
  const charged = payments.filter((payment) => chargesOf(trial, payment) > 0).length;
  return payments.length === 0 ? '0' : `${bold(payments)} (${charged})`;
}

function remainingLife(trial: Trial): string {
  if (openOf(trial).length === 0) return '-';
  // Nobody removes a row of a table.
  if (trial.peer.stores.join() === 'postgres') return 'for ever';
  return trial.lockSeconds === undefined ? '-' : `${(trial.lockSeconds / 3_600).toFixed(1)} h more`;
}

/** From the first request to the outcome, in milliseconds. */
function slowestAfterCrash(payments: readonly Payment[]): number {
  const times = of('crash', payments).map(({ answers }) => {
    const outcome = answers.find(isSuccess);
    return outcome ? outcome.sentAtMs + outcome.tookMs - Math.min(...answers.map(({ sentAtMs }) => sentAtMs)) : 0;
  });
  return Math.max(0, ...times);
}

function secondAnswer({ answers: [first, second] }: Payment): string {
  if (!second || !isSuccess(second)) return `refused, ${second?.status}`;
  return second.receipt === first?.receipt ? 'the first result' : 'paid again';
}

function outage(name: 'killed' | 'stopped'): Column[] {
  const answersIn = ({ payments, outages }: Trial) => {
    const [fromMs, toMs] = outages[name] ?? [0, 0];
    return payments.flatMap(({ answers }) => answers.filter(({ sentAtMs }) => sentAtMs >= fromMs && sentAtMs < toMs));
  };
  const hangsIn = (trial: Trial) => answersIn(trial).filter(({ status }) => status === 'hang');
  const longest = (trial: Trial) => Math.max(0, ...answersIn(trial).map(({ tookMs }) => tookMs)) / 1_000;
  return [
    [`${name}: longest answer`, (trial) => (hangsIn(trial).length > 0 ? 'none' : `${longest(trial).toFixed(2)} s`)],
    ['hangs', (trial) => bold(hangsIn(trial))],
    ['answers', (trial) => tally(answersIn(trial).map(({ status }) => `${status}`))],
  ];
}

/** Such as `503 x 412, 200 x 3`. */
function tally(words: readonly string[]): string {
  const counts = [...new Set(words)].map((word) => [word, words.filter((each) => each === word).length] as const);
  const sorted = counts.sort(([, one], [, other]) => other - one);
  return sorted.map(([word, count]) => (counts.length === 1 ? word : `${word} x ${count}`)).join(', ') || 'none';
}

/** How many there are; none is the good result. */
const bold = ({ length }: readonly unknown[]) => (length === 0 ? '0' : `**${length}**`);

function table(trials: readonly Trial[], columns: readonly Column[]): string {
  const all = [...TRIAL, ...columns];
  return markdownTable(
    all.map(([title]) => title),
    trials.map((trial) => all.map(([, cell]) => cell(trial))),
  );
}
