// From the rounds of runs to tables. A ratio is taken within a round, because the servers of one round met the same minute.
import type { Deployment } from './options.js';
import type { Answered, LatencyRow, RateRow, Round, Row, Run } from './results.js';
import { median, roundedTable, type Spread, spread, sumOf } from './statistics.js';

const HTTP_ROW = 'first payment over HTTP';
const SHORT_ROWS = ['first payment', HTTP_ROW, 'repeat', 'read by id', 'list 304', 'generate-key'];
const SHORT_NAMES = { embedded: 'embedded', distributed: 'distributed, one process' };
/** Servers that are not the service: what they keep their keys in. */
const STORES: Readonly<Record<string, readonly string[]>> = { bare: [], relay: [], naive: ['redis'] };

type Targets = Readonly<Record<Deployment, number>>;

/** The project's targets on two quiet processors: requests a second, as a part of a bare Fastify's in the same round. */
const OF_BARE: Readonly<Record<string, Targets>> = {
  'first payment': { embedded: 0.52, distributed: 0.28 },
  // The same target twice: once without any call of a processor, once without the CPU time of the processor itself.
  'first payment in two commits': { embedded: 0.36, distributed: 0.2 },
  'first payment over HTTP, its cost apart': { embedded: 0.36, distributed: 0.2 },
  repeat: { embedded: 0.9, distributed: 0.8 },
  'list 304': { embedded: 0.92, distributed: 0.8 },
  'read by id': { embedded: 0.85, distributed: 0.65 },
  'generate-key': { embedded: 0.68, distributed: 0.58 },
};
/** The 99th percentile at half of the capacity, milliseconds. */
const P99_AT_HALF_MS: Targets = { embedded: 5, distributed: 10 };

type RateRun = Run<RateRow>;
type Ratio = Spread & { readonly name: string; readonly target: number | undefined };

/**
 * The ratio of every row to the bare Fastify, and for the row over HTTP also without what the processor itself took, with what
 * one would reach that only makes the call.
 */
export function ratiosOf({ deployment, rows }: Pick<RateRun, 'deployment' | 'rows'>): readonly Ratio[] {
  return rows.flatMap((row) => {
    const ratio = (name: string, rateOf: (round: Round) => number): Ratio => ({
      name,
      ...spread(row.rounds.map((round) => rateOf(round) / round.bare.requestsPerSecond)),
      target: OF_BARE[name]?.[deployment],
    });
    const all = [ratio(row.name, ({ ours }) => ours.requestsPerSecond)];
    if (row.name === HTTP_ROW) {
      all.push(ratio(`${HTTP_ROW}, its cost apart`, ({ ours }) => rateWithoutProcessor(ours)));
      all.push(
        ratio('relay over HTTP, its cost apart', ({ relay }) => (relay ? rateWithoutProcessor(relay) : Number.NaN)),
      );
    }
    return all;
  });
}

/** Computed: as many as the same CPU time would be enough for, if the processor ran elsewhere. */
function rateWithoutProcessor({ requestsPerSecond, costs: { cpuUs } }: Answered): number {
  const all = sumOf(cpuUs);
  return (requestsPerSecond * all) / (all - (cpuUs.processor ?? 0));
}

/** One run for each deployment. */
export function ratioTable(runs: readonly RateRun[]): string {
  const head = runs.flatMap(({ deployment }) => [`${deployment}: of bare Fastify`, 'lowest - highest', 'target']);
  const ratios = runs.map(ratiosOf);
  const names = [...new Set(ratios.flat().map(({ name }) => name))];
  return roundedTable(
    ['row', ...head],
    names.map((name) => [name, ...ratios.flatMap((all) => ratioCells(all.find((each) => each.name === name)))]),
  );
}

/** The days on which rows were measured, and the commits that were measured. */
export function whenOf(rows: readonly Row[]): string {
  const days = new Set(rows.map(({ measuredAt }) => measuredAt.slice(0, 10)));
  const commits = new Set(rows.flatMap(({ commit }) => (commit === undefined ? [] : [`commit ${commit}`])));
  return [...days, ...commits].toSorted().join(', ');
}

/** How many targets of the ratios are met, and which are not. */
export function targetSentence(runs: readonly RateRun[]): string {
  const judged = runs.flatMap((run) =>
    ratiosOf(run).flatMap(({ name, median: reached, target }) =>
      target === undefined
        ? []
        : [{ name: `${name} (${run.deployment}, ${reached.toFixed(2)})`, isMet: reached >= target }],
    ),
  );
  const missed = judged.filter(({ isMet }) => !isMet).map(({ name }) => name);
  const met = `${judged.length - missed.length} of these ${judged.length} targets of the project are met.`;
  return missed.length === 0 ? met : `${met} Missed: ${missed.join(', ')}.`;
}

/** Requests a second of the rows that say most. */
export function shortTable(runs: readonly RateRun[]): string {
  return roundedTable(
    ['requests a second', ...runs.map(({ deployment }) => SHORT_NAMES[deployment])],
    SHORT_ROWS.map((name) => [
      name,
      ...runs.map(({ rows }) => {
        const row = rows.find((each) => each.name === name);
        return row && median(row.rounds.map(({ ours }) => ours.requestsPerSecond));
      }),
    ]),
  );
}

/** How many times as many requests the service answers as each peer in the same round. */
export function peerTable(runs: readonly RateRun[]): string {
  const lines = new Map<string, Map<Deployment, Spread>>();
  for (const { deployment, rows } of runs) {
    for (const { name, rounds } of rows) {
      for (const peer of partsOf(rounds).filter((part) => part !== 'ours' && part !== 'bare')) {
        const line = `${name}, next to ${peer}`;
        const ratios = rounds.map(
          ({ ours, [peer]: theirs }) => ours.requestsPerSecond / (theirs?.requestsPerSecond ?? 0),
        );
        lines.set(line, (lines.get(line) ?? new Map()).set(deployment, spread(ratios)));
      }
    }
  }
  return roundedTable(
    ['row', ...runs.flatMap(({ deployment }) => [`${deployment}: times`, 'lowest - highest'])],
    Array.from(lines, ([line, ratios]) => [
      line,
      ...runs.flatMap(({ deployment }) => ratioCells(ratios.get(deployment)).slice(0, 2)),
    ]),
  );
}

function partsOf([first]: readonly Round[]): string[] {
  return Object.keys(first ?? {});
}

function ratioCells(ratio: (Spread & { readonly target?: number | undefined }) | undefined): [string, string, string] {
  if (!ratio) return ['', '', ''];
  const { median: middle, lowest, highest, target } = ratio;
  const range = `${lowest.toFixed(2)} - ${highest.toFixed(2)}`;
  return [`**${middle.toFixed(2)}**`, range, target === undefined ? '' : verdict(target, middle >= target)];
}

const verdict = (target: number, isMet: boolean) => `${target}, ${isMet ? 'met' : 'missed'}`;

/** The cost of one request, by process. */
export function costTable({ deployment, rows }: RateRun): string {
  const ofProcesses = ['Redis', 'PostgreSQL', 'processor', 'wrk'];
  return roundedTable(
    ['row', 'server', 'requests/s', 'p50 / p99 ms', 'CPU us: server', ...ofProcesses, 'busy'],
    rows.flatMap((row) =>
      partsOf(row.rounds)
        .toSorted((one, other) => Number(other === 'ours') - Number(one === 'ours'))
        .map((part) => costLine(row, part, deployment)),
    ),
  );
}

function costLine({ name, rounds }: RateRow, part: string, deployment: Deployment) {
  const runs = rounds.flatMap(({ [part]: run }) => run ?? []);
  const of = (read: (run: Answered) => number) => median(runs.map(read));
  const cpu = (process: string) => of(({ costs }) => costs.cpuUs[process] ?? 0);
  const uses = STORES[part] ?? (deployment === 'distributed' ? ['redis', 'postgres'] : []);
  return [
    part === 'ours' ? name : '',
    part,
    of(({ requestsPerSecond }) => requestsPerSecond),
    `${of(({ p50Ms }) => p50Ms).toFixed(1)} / ${of(({ p99Ms }) => p99Ms).toFixed(1)}`,
    cpu('service'),
    ...['redis', 'postgres'].map((store) => (uses.includes(store) ? cpu(store) : '')),
    name === HTTP_ROW && part !== 'bare' ? cpu('processor') : '',
    cpu('generator'),
    `${Math.round(100 * of(busy))} %`,
  ];
}

const STORE_COLUMNS: Readonly<Record<Deployment, Readonly<Record<string, (costs: Answered['costs']) => number>>>> = {
  embedded: {
    'SQLite: commits': ({ service }) => service?.commits ?? 0,
  },
  distributed: {
    'Redis: commands': (costs) => roundTrips(costs, 'redis'),
    'Redis: reads of its sockets': ({ redis }) => redis?.reads ?? 0,
    'PostgreSQL: statements': (costs) => roundTrips(costs, 'postgresql'),
    'PostgreSQL: bytes of log': ({ postgres }) => postgres?.walBytes ?? 0,
  },
};

/** The work of the stores for one request of the service. */
export function storeTable(runs: readonly RateRun[]): string {
  const names = [...new Set(runs.flatMap(({ rows }) => rows.map(({ name }) => name)))];
  const cells = (name: string) =>
    runs.flatMap(({ deployment, rows }) => {
      const row = rows.find((each) => each.name === name);
      return Object.values(STORE_COLUMNS[deployment]).map(
        (read) => row && hundredths(median(row.rounds.map(({ ours }) => read(ours.costs)))),
      );
    });
  return roundedTable(
    ['row', ...runs.flatMap(({ deployment }) => Object.keys(STORE_COLUMNS[deployment]))],
    names.map((name) => [name, ...cells(name)]),
  );
}

function roundTrips({ service }: Answered['costs'], store: string): number {
  return sumOf(service?.roundTrips, (operation) => operation.startsWith(store));
}

/** Smaller values are from outside the row: sweeps, and readings of the meter. */
const hundredths = (value: number) => Math.round(value * 100) / 100;

/** Part of the machine's processor time that was used. */
function busy({ requestsPerSecond, costs, processors }: Answered): number {
  return (requestsPerSecond * sumOf(costs.cpuUs)) / (processors * 1e6);
}

/** At a fixed rate: what the half and the rest of the requests waited. */
export function latencyTable(runs: readonly Run<LatencyRow>[]): string {
  const lines = runs.flatMap(({ deployment, rows }) =>
    rows.flatMap((row) => {
      const ours = latencyLine(row, deployment, 'ours', P99_AT_HALF_MS[deployment]);
      return row.rounds[0]?.before ? [ours, latencyLine(row, `${deployment}, before`, 'before', undefined)] : [ours];
    }),
  );
  const quantiles = ['p50 ms', 'p99 ms', 'lowest - highest', 'p99.9 ms', 'bare Fastify: p99 ms', 'target of p99'];
  return roundedTable(['row', 'of capacity', 'requests/s', ...quantiles], lines);
}

function latencyLine({ kind, part, rounds }: LatencyRow, name: string, version: 'ours' | 'before', target?: number) {
  const latencies = rounds.flatMap((round) => round[version] ?? []);
  const p99 = spread(latencies.map(({ p99Ms }) => p99Ms));
  return [
    `${kind}, ${name}`,
    part,
    median(rounds.map(({ rate }) => rate)),
    median(latencies.map(({ p50Ms }) => p50Ms)).toFixed(1),
    `**${p99.median.toFixed(1)}**`,
    `${p99.lowest.toFixed(1)} - ${p99.highest.toFixed(1)}`,
    median(latencies.map(({ p999Ms }) => p999Ms)).toFixed(1),
    median(rounds.map(({ bareP99Ms }) => bareP99Ms)).toFixed(1),
    target !== undefined && part === 'half' ? verdict(target, p99.median < target) : '',
  ];
}
