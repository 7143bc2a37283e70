import type { Payment, Scene } from './payers.js';
import { PATIENCE_MS } from './scenario.js';
import type { Trial } from './trial.js';
import type { Answers } from './verdict.js';

const SCENES: readonly Scene[] = ['duplicates', 'crash', 'lost reply', 'Redis away', 'FLUSHALL', 'other body'];

/** Three tables in Markdown: who charges twice, who is left without an outcome, and what a Redis that is away costs. */
export function report(trials: readonly Trial[]): string {
  return [
    'Keys that were charged more than once, by what they went through:',
    table(
      ['server', 'processor deduplicates', 'payments', ...SCENES, 'success without a charge', 'two results for a key'],
      trials.map((trial) => [
        ...beginning(trial),
        `${trial.payments}`,
        ...SCENES.map((scene) => (isSkipped(trial, scene) ? '-' : bold(trial.chargedTwice.get(scene) ?? 0))),
        bold(trial.paidWithoutCharge),
        bold(trial.twoReceipts),
      ]),
    ),
    `Payments without an outcome, repeated for ${PATIENCE_MS / 1_000} s after everything was well again (of them charged):`,
    table(
      [
        'server',
        'processor deduplicates',
        'stuck in 409',
        'same failure for ever',
        'record lives for',
        'left to an operator',
        'slowest outcome after a crash',
        'told to take another key',
        'other body, same key',
      ],
      trials.map((trial) => [
        ...beginning(trial),
        withCharged(trial, trial.stuck),
        withCharged(trial, trial.failedForEver),
        remainingLife(trial),
        withCharged(trial, trial.forOperator, String),
        `${(trial.slowestOutcomeMs / 1_000).toFixed(1)} s`,
        bold(trial.refused),
        trial.otherBody,
      ]),
    ),
    'Requests that were sent while Redis was away:',
    table(
      [
        'server',
        'processor deduplicates',
        'killed: longest answer',
        'hangs',
        'answers',
        'stopped: longest answer',
        'hangs',
        'answers',
        'processes that ended by themselves',
      ],
      trials
        .filter(({ killed }) => killed)
        .map((trial) => [...beginning(trial), ...answers(trial.killed), ...answers(trial.stopped), bold(trial.deaths)]),
    ),
  ].join('\n\n');
}

function beginning({ peer, deduplicates }: Trial): [string, string] {
  return [peer.name, deduplicates ? 'yes' : 'no'];
}

function isSkipped({ peer }: Trial, scene: Scene): boolean {
  return (scene === 'Redis away' || scene === 'FLUSHALL') && !peer.stores.includes('redis');
}

function withCharged(trial: Trial, payments: readonly Payment[], show: (count: number) => string = bold): string {
  return payments.length === 0 ? '0' : `${show(payments.length)} (${trial.charged(payments)})`;
}

/** Of the records that keep payments from being repeated. */
function remainingLife({ stuck, failedForEver, lockSeconds }: Trial): string {
  if (stuck.length + failedForEver.length === 0 || lockSeconds === undefined) return '-';
  return `${(lockSeconds / 3_600).toFixed(1)} h more`;
}

function answers(told: Answers | undefined): string[] {
  if (!told) return ['-', '-', '-'];
  const longest = told.hangs > 0 ? 'none' : `${(told.longestMs / 1_000).toFixed(2)} s`;
  return [longest, bold(told.hangs), told.statuses];
}

/** Zero is what all hope for. */
function bold(count: number): string {
  return count === 0 ? '0' : `**${count}**`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
