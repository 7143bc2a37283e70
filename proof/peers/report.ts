import type { OutageAnswers } from './check-trial.js';
import { type Payment, SCENARIOS, type Scenario } from './payers.js';
import { PATIENCE_MS } from './scenarios.js';
import type { Trial } from './trial.js';

type Column = readonly [title: string, cell: (trial: Trial) => string];

const TRIAL: readonly Column[] = [
  ['server', ({ peer }) => peer.name],
  ['processor deduplicates', ({ deduplicates }) => (deduplicates ? 'yes' : 'no')],
];

/** Three tables in Markdown: who charges twice, who leaves payments without an outcome, and what an outage of Redis costs. */
export function report(trials: readonly Trial[]): string {
  return [
    'Keys that were charged more than once, by scenario:',
    table(trials, [
      ...TRIAL,
      ['payments', ({ payments }) => `${payments}`],
      ...SCENARIOS.map((scenario): Column => [scenario, (trial) => chargedTwice(trial, scenario)]),
      ['success without a charge', ({ paidWithoutCharge }) => bold(paidWithoutCharge)],
      ['two results for a key', ({ twoReceipts }) => bold(twoReceipts)],
    ]),
    `Payments without an outcome, repeated for ${PATIENCE_MS / 1_000} s after everything was up again (of them charged):`,
    table(trials, [
      ...TRIAL,
      ['stuck in 409', (trial) => withCharged(trial, trial.stuck)],
      ['same failure for ever', (trial) => withCharged(trial, trial.failedForEver)],
      ['record lives for', remainingLife],
      ['left to an operator', (trial) => withCharged(trial, trial.forOperator, String)],
      ['slowest outcome after a crash', ({ slowestOutcomeMs }) => `${(slowestOutcomeMs / 1_000).toFixed(1)} s`],
      ['refused: take another key', ({ refused }) => bold(refused)],
      ['other body, same key', ({ otherBody }) => otherBody],
    ]),
    'Requests that were sent while Redis was away:',
    table(
      trials.filter(({ killed }) => killed),
      [
        ...TRIAL,
        ...outage('killed', ({ killed }) => killed),
        ...outage('stopped', ({ stopped }) => stopped),
        ['processes that ended by themselves', ({ ownEnds }) => bold(ownEnds.length)],
      ],
    ),
  ].join('\n\n');
}

function chargedTwice(trial: Trial, scenario: Scenario): string {
  const isSkipped = (scenario === 'Redis away' || scenario === 'FLUSHALL') && !trial.peer.stores.includes('redis');
  return isSkipped ? '-' : bold(trial.chargedTwice.get(scenario) ?? 0);
}

function withCharged(trial: Trial, payments: readonly Payment[], show: (count: number) => string = bold): string {
  return payments.length === 0 ? '0' : `${show(payments.length)} (${trial.charged(payments)})`;
}

/** Of the records that keep payments from being repeated. */
function remainingLife({ stuck, failedForEver, lockSeconds }: Trial): string {
  if (stuck.length + failedForEver.length === 0 || lockSeconds === undefined) return '-';
  return `${(lockSeconds / 3_600).toFixed(1)} h more`;
}

function outage(name: string, answersOf: (trial: Trial) => OutageAnswers | undefined): Column[] {
  const cell = (show: (answers: OutageAnswers) => string) => (trial: Trial) => {
    const answers = answersOf(trial);
    return answers ? show(answers) : '-';
  };
  return [
    [
      `${name}: longest answer`,
      cell(({ hangs, longestMs }) => (hangs > 0 ? 'none' : `${(longestMs / 1_000).toFixed(2)} s`)),
    ],
    ['hangs', cell(({ hangs }) => bold(hangs))],
    ['answers', cell(({ statuses }) => statuses)],
  ];
}

/** Zero is the good result. */
function bold(count: number): string {
  return count === 0 ? '0' : `**${count}**`;
}

function table(trials: readonly Trial[], columns: readonly Column[]): string {
  const rows = trials.map((trial) => columns.map(([, cell]) => cell(trial)));
  const lines = [columns.map(([title]) => title), columns.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}
