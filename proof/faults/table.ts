import { CRASH_POINTS } from '#idempay/crash-points.js';
import { blowsOn, sigkillsOf, type Tally } from './tally.js';

/** What a run has done and found, for reading. */
export function tableOf(tally: Tally): string {
  const blows = Object.entries(tally.blows).sort(([, one], [, other]) => other.count - one.count);
  const width = Math.max(...blows.map(([name]) => name.length), 20);
  const lines = blows.map(([name, { count, longestAwayMs }]) => {
    return `${name.padEnd(width)}  ${number(count)}  ${number(Math.round(longestAwayMs))}`;
  });
  const points = Object.entries(tally.crashPoints).sort(([one], [other]) => one.localeCompare(other));
  const unreached = CRASH_POINTS.filter((point) => !(point in tally.crashPoints));
  const { service, processor, redis, postgres } = tally.sigkills;
  return [
    `${'blow'.padEnd(width)}  ${'times'.padStart(9)}  longest ms until a payment sent after it succeeded`,
    ...lines,
    '',
    `SIGKILLs            ${number(sigkillsOf(tally))}  services ${service}, processor ${processor}, Redis ${redis}, PostgreSQL ${postgres}`,
    `  at crash points   ${number(points.reduce((sum, [, times]) => sum + times, 0))}  ${points.map(([name, times]) => `${name} ${times}`).join(', ')}`,
    `  not reached       ${number(unreached.length)}  ${unreached.join(', ')}`,
    `Redis faults        ${number(blowsOn(tally, 'redis'))}`,
    `PostgreSQL faults   ${number(blowsOn(tally, 'postgres'))}`,
    `requests            ${number(tally.requests)}  ${rate(tally)}; answers ${answersOf(tally)}`,
    `keys                ${number(tally.keys)}  ${tally.charges} charges; an operator's verdicts: ${tally.verdicts ?? 0}; forgotten before they were paid: ${tally.forgottenKeys}`,
    `reads               ${number(tally.reads)}  304: ${tally.notModified}`,
    `writes              ${number(tally.writes)}`,
    `longest without an outcome after healing, ms  ${Math.round(tally.longestStuckMs)}`,
    ...tally.impossible.map((sentence) => `not possible here: ${sentence}`),
    `violations          ${number(tally.violations)}`,
  ].join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en-US').padStart(9);
}

function rate({ requests, elapsedMs, rounds, sessions }: Tally): string {
  const minutes = elapsedMs / 60_000;
  return `in ${minutes.toFixed(1)} min, ${sessions} sessions, ${rounds} rounds: ${Math.round(requests / minutes / 60)}/s`;
}

/** Status 0: no answer. */
function answersOf({ answers }: Tally): string {
  return Object.entries(answers)
    .map(([status, times]) => `${status === '0' ? 'none' : status} ${times}`)
    .join(', ');
}
