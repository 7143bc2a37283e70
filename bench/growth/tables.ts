import type { Run } from '../results.js';
import { capital, median, roundedTable } from '../statistics.js';
import { whenOf } from '../tables.js';
import type { Costs, GrowthRow, Sweep } from './measures.js';

/** After the start of the service its engine compiles. */
const WARM_UP_SECONDS = 5;
const SWEPT = { keys: 'expired keys', retention: 'old payments' };
const PARTS = { service: 'CPU us', redis: 'of Redis', postgres: 'of PostgreSQL' };

/** The measures of one deployment, as paragraphs. */
export function growthTables({ deployment, rows }: Run<GrowthRow>): string[] {
  const steps = rows.toSorted((a, b) => a.count - b.count);
  const filled = steps.filter(({ count }) => count > 0);
  const title = `${capital(deployment)}, ${whenOf(rows)}:`;
  const tables = [rateTable(steps, deployment === 'embedded' ? ['service'] : ['service', 'redis', 'postgres'])];
  if (filled.length > 0) tables.push(byteTable(filled), sweepTable(filled));
  return [title, ...tables];
}

function rateTable(steps: readonly GrowthRow[], parts: readonly (keyof typeof PARTS)[]): string {
  const cpuHead = parts.map((part) => PARTS[part]);
  const cpu = ({ cpuUs }: Costs) => parts.map((part) => Math.round(cpuUs[part] ?? 0));
  return roundedTable(
    ['payments', 'first/s', ...cpuHead, 'repeats/s', ...cpuHead, 'read p50 ms', 'p99 ms', 'start ms', 'resident MB'],
    steps.map(({ count, first, repeat, reads, startMs, residentMb }) => [
      ...[count, first.perSecond, ...cpu(first), repeat.perSecond, ...cpu(repeat)],
      ...[reads.p50Ms, reads.p99Ms, startMs, residentMb],
    ]),
  );
}

function byteTable(steps: readonly GrowthRow[]): string {
  return roundedTable(
    ['payments', 'bytes of a payment', 'bytes of a key', 'MB on the disk (SQLite, or Redis)'],
    steps.map(({ count, bytes }) => [
      ...[count, Math.round(bytes.paymentBytes / bytes.payments), Math.round(bytes.keyBytes / bytes.keys)],
      bytes.onDisk / 1e6,
    ]),
  );
}

function sweepTable(steps: readonly GrowthRow[]): string {
  const rows = steps.flatMap(({ count, sweeps }) =>
    sweeps ? (['keys', 'retention'] as const).map((what) => ({ count, what, ...summaryOf(sweeps[what]) })) : [],
  );
  return roundedTable(
    ['payments', 'removed', 'of', 'in s', 'p99 ms without', 'during it', 'worst second without', 'during it'],
    rows.map(({ count, what, removed, seconds, without, during }) => [
      ...[count, removed, SWEPT[what], seconds, median(without), median(during)],
      ...[Math.max(...without), Math.max(...during)],
    ]),
  );
}

/** `left` was read at the end of each second, so a second that ended with fewer is one of the sweep. */
function summaryOf({ left, p99MsBySecond }: Sweep) {
  const countAt = (second: number) => left[second] ?? Number.NaN;
  const isSwept = (second: number) => countAt(second) < countAt(Math.max(0, second - 1));
  const seconds = p99MsBySecond.map((p99Ms, second) => ({ p99Ms, second, isSwept: isSwept(second) }));
  const warm = seconds.slice(WARM_UP_SECONDS);
  const of = (wanted: boolean) => warm.filter((each) => each.isSwept === wanted).map(({ p99Ms }) => p99Ms);
  return {
    removed: countAt(0) - (left.at(-1) ?? Number.NaN),
    seconds: seconds.filter((each) => each.isSwept).length,
    without: of(false),
    during: of(true),
  };
}
