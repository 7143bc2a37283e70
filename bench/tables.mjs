// From the rounds of runs to tables. A ratio is taken within a round, because the servers of one round met the same minute.
import { markdownTable } from './markdown.mjs';
import { median, spread } from './statistics.mjs';
import { OF_BARE, OF_PEERS, P99_AT_HALF_MS } from './targets.mjs';

const HTTP_ROW = 'first payment over HTTP';
const SHORT_ROWS = ['first payment', HTTP_ROW, 'repeat', 'read by id', 'list 304', 'generate-key'];
const SHORT_NAMES = { embedded: 'embedded', distributed: 'distributed, one process' };
/** What the peers keep their keys in; the others are the service. */
const STORES = {
  bare: [],
  relay: [],
  naive: ['redis'],
  'node-idempotency': ['redis'],
  'express-idempotency': ['redis'],
  powertools: ['redis'],
  'unique-key': ['postgres'],
};

/**
 * The ratio of every row to the bare Fastify, and for the row over HTTP also without what the processor itself took, with what
 * one would reach that only makes the call.
 * @param {import('./results.mjs').Run} run
 */
export function ratiosOf({ deployment, rows }) {
  return rows.flatMap((row) => {
    const ratio = (rateOf) => spread(row.rounds.map((round) => rateOf(round) / round.bare.requestsPerSecond));
    const all = [{ name: row.name, ...ratio(({ ours }) => ours.requestsPerSecond) }];
    if (row.name === HTTP_ROW) {
      const apart = `${HTTP_ROW}, its cost apart`;
      all.push({ name: apart, ...ratio(({ ours }) => rateWithoutProcessor(ours)) });
      if (row.rounds[0].relay) {
        all.push({ name: 'relay over HTTP, its cost apart', ...ratio(({ relay }) => rateWithoutProcessor(relay)) });
      }
    }
    return all.map((each) => ({ ...each, target: OF_BARE[each.name]?.[deployment] }));
  });
}

/** Computed: as many as the same CPU time would be enough for, if the processor ran elsewhere. */
function rateWithoutProcessor({ requestsPerSecond, costs: { cpuUs } }) {
  const all = sumOf(cpuUs);
  return (requestsPerSecond * all) / (all - cpuUs.processor);
}

/** @param {import('./results.mjs').Run[]} runs  one for each deployment */
export function ratioTable(runs) {
  const head = runs.flatMap(({ deployment }) => [`${deployment}: of bare Fastify`, 'lowest - highest', 'target']);
  const ratios = runs.map(ratiosOf);
  const names = [...new Set(ratios.flat().map(({ name }) => name))];
  return markdownTable(
    ['row', ...head],
    names.map((name) => [name, ...ratios.flatMap((all) => ratioCells(all.find((each) => each.name === name)))]),
  );
}

/** How many targets of the ratios are met, and which are not. */
export function targetSentence(runs) {
  const judged = runs.flatMap((run) =>
    ratiosOf(run)
      .filter(({ target }) => target !== undefined)
      .map(({ name, median: reached, target }) => ({
        name: `${name} (${run.deployment}, ${reached.toFixed(2)})`,
        isMet: reached >= target,
      })),
  );
  const missed = judged.filter(({ isMet }) => !isMet).map(({ name }) => name);
  const met = `${judged.length - missed.length} of these ${judged.length} targets of the project are met.`;
  return missed.length === 0 ? met : `${met} Missed: ${missed.join(', ')}.`;
}

/** Requests a second of the rows that say most. */
export function shortTable(runs) {
  return markdownTable(
    ['requests a second', ...runs.map(({ deployment }) => SHORT_NAMES[deployment])],
    SHORT_ROWS.map((name) => [
      name,
      ...runs.map(({ rows }) => {
        const row = rows.find((each) => each.name === name);
        return row ? median(row.rounds.map(({ ours }) => ours.requestsPerSecond)) : '';
      }),
    ]),
  );
}

/** Of each peer, in the rows in which it takes part. */
export function peerTable(runs) {
  const head = runs.flatMap(({ deployment }) => [`${deployment}: times`, 'lowest - highest', 'target']);
  const found = new Map();
  for (const { deployment, rows } of runs) {
    for (const { name, rounds } of rows) {
      for (const peer of Object.keys(rounds[0]).filter((part) => part !== 'ours' && part !== 'bare')) {
        const ratio = spread(rounds.map((round) => round.ours.requestsPerSecond / round[peer].requestsPerSecond));
        const line = `${name}, beside ${peer}`;
        found.set(line, {
          ...found.get(line),
          [deployment]: { ...ratio, target: OF_PEERS[name]?.[peer]?.[deployment] },
        });
      }
    }
  }
  return markdownTable(
    ['row', ...head],
    Array.from(found, ([line, ratios]) => [line, ...runs.flatMap(({ deployment }) => ratioCells(ratios[deployment]))]),
  );
}

function ratioCells(ratio) {
  if (!ratio) return ['', '', ''];
  const { median: middle, lowest, highest, target } = ratio;
  return [
    `**${middle.toFixed(2)}**`,
    `${lowest.toFixed(2)} - ${highest.toFixed(2)}`,
    verdict(target, middle >= target),
  ];
}

function verdict(target, isMet) {
  return target === undefined ? '' : `${target}, ${isMet ? 'met' : 'missed'}`;
}

/** What one request costs, by process. */
export function costTable({ deployment, rows }) {
  const ofProcesses = ['Redis', 'PostgreSQL', 'processor', 'wrk'];
  return markdownTable(
    ['row', 'server', 'requests/s', 'p50 / p99 ms', 'CPU us: server', ...ofProcesses, 'busy'],
    rows.flatMap((row) =>
      Object.keys(row.rounds[0])
        .toSorted((one, other) => (other === 'ours') - (one === 'ours'))
        .map((part) => costLine(row, part, deployment)),
    ),
  );
}

function costLine({ name, rounds }, part, deployment) {
  const of = (read) => median(rounds.map((round) => read(round[part])));
  const cpu = (process) => of(({ costs }) => costs.cpuUs[process] ?? 0);
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

/** What one request of the service asks of the stores. */
export function storeTable(runs) {
  const columns = {
    embedded: {
      'SQLite: commits': ({ service }) => service.commits ?? 0,
    },
    distributed: {
      'Redis: commands': ({ service }) => roundTrips(service, 'redis'),
      'Redis: reads of its sockets': ({ redis }) => redis.reads,
      'PostgreSQL: statements': ({ service }) => roundTrips(service, 'postgresql'),
      'PostgreSQL: bytes of log': ({ postgres }) => postgres.walBytes,
    },
  };
  const names = [...new Set(runs.flatMap(({ rows }) => rows.map(({ name }) => name)))];
  const cells = (name) =>
    runs.flatMap(({ deployment, rows }) => {
      const row = rows.find((each) => each.name === name);
      return Object.values(columns[deployment]).map((read) =>
        row ? hundredths(median(row.rounds.map(({ ours }) => read(ours.costs)))) : '',
      );
    });
  return markdownTable(
    ['row', ...runs.flatMap(({ deployment }) => Object.keys(columns[deployment]))],
    names.map((name) => [name, ...cells(name)]),
  );
}

function roundTrips({ roundTrips: counts }, store) {
  return sumOf(counts, (operation) => operation.startsWith(store));
}

/** What is less comes from beside the row: sweeps, and readings of the meter. */
function hundredths(value) {
  return Math.round(value * 100) / 100;
}

/** Part of the machine's processor time that was used. */
function busy({ requestsPerSecond, costs, processors }) {
  return (requestsPerSecond * sumOf(costs.cpuUs)) / (processors * 1e6);
}

function sumOf(numbers = {}, isWanted = () => true) {
  return Object.entries(numbers).reduce((sum, [name, value]) => (isWanted(name) ? sum + value : sum), 0);
}

/** At a fixed rate: what the half and the rest of the requests waited. */
export function latencyTable(runs) {
  const lines = runs.flatMap(({ deployment, rows }) =>
    rows.flatMap(({ kind, part, rounds }) => {
      const of = (read) => median(rounds.map(read));
      const line = (name, latenciesOf, isJudged) => {
        const p99 = spread(rounds.map((round) => latenciesOf(round).p99Ms));
        return [
          `${kind}, ${name}`,
          part,
          of(({ rate }) => rate),
          of((round) => latenciesOf(round).p50Ms).toFixed(1),
          `**${p99.median.toFixed(1)}**`,
          `${p99.lowest.toFixed(1)} - ${p99.highest.toFixed(1)}`,
          of((round) => latenciesOf(round).p999Ms).toFixed(1),
          of(({ bareP99Ms }) => bareP99Ms).toFixed(1),
          isJudged ? verdict(P99_AT_HALF_MS[deployment], p99.median < P99_AT_HALF_MS[deployment]) : '',
        ];
      };
      const ours = line(deployment, (round) => round, part === 'half');
      return rounds[0].before ? [ours, line(`${deployment}, before`, ({ before }) => before, false)] : [ours];
    }),
  );
  return markdownTable(
    [
      'row',
      'of capacity',
      'requests/s',
      'p50 ms',
      'p99 ms',
      'lowest - highest',
      'p99.9 ms',
      'bare Fastify: p99 ms',
      'target of p99',
    ],
    lines,
  );
}
