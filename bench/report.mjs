// From rounds to a table and a file.
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));

/** Medians over the rounds; of ratios too, because the servers of one round met the same minute. */
export function summarize(name, rounds) {
  const servers = Object.keys(rounds[0]);
  const ratioTo = (peer) => median(rounds.map((round) => round.ours.requestsPerSecond / round[peer].requestsPerSecond));
  return {
    name,
    ratios: Object.fromEntries(servers.filter((server) => server !== 'ours').map((peer) => [peer, ratioTo(peer)])),
    servers: Object.fromEntries(servers.map((server) => [server, summaryOf(rounds.map((round) => round[server]))])),
    rounds,
  };
}

function summaryOf(runs) {
  const medianOf = (read) => median(runs.map(read));
  return {
    requestsPerSecond: medianOf((run) => run.requestsPerSecond),
    p50Ms: medianOf((run) => run.p50Ms),
    p99Ms: medianOf((run) => run.p99Ms),
    cpuUsPerRequest: Object.fromEntries(
      Object.keys(runs[0].cpuUsPerRequest).map((name) => [name, medianOf((run) => run.cpuUsPerRequest[name])]),
    ),
  };
}

export function printTable(rows) {
  console.table(Object.fromEntries(rows.map((row) => [row.name, ratioCells(row)])));
  console.table(Object.fromEntries(rows.flatMap(serverLines)));
  console.log(
    "Ratios are medians of the rounds. CPU is microseconds a request: of all threads of the row's server, and",
  );
  console.log('of the stores while that server was under load.');
}

function ratioCells({ ratios }) {
  return {
    'of bare Fastify': rounded(ratios.bare, 2),
    ...(ratios.secured && { 'of ours with an API key': rounded(ratios.secured, 2) }),
    ...(ratios.traced && { 'of ours with traces': rounded(ratios.traced, 2) }),
    ...(ratios.sampled && { 'of ours with 1 % of traces': rounded(ratios.sampled, 2) }),
    ...(ratios.naive && { 'of naive port': rounded(ratios.naive, 2) }),
  };
}

function serverLines({ name, servers }) {
  return Object.entries(servers).map(([server, { requestsPerSecond, p50Ms, p99Ms, cpuUsPerRequest }]) => [
    `${name}: ${server}`,
    {
      'req/s': rounded(requestsPerSecond, 0),
      'p50 ms': rounded(p50Ms, 2),
      'p99 ms': rounded(p99Ms, 2),
      'CPU us': rounded(cpuUsPerRequest.server, 1),
      ...(cpuUsPerRequest.redis !== undefined && {
        'Redis us': rounded(cpuUsPerRequest.redis, 1),
        'PostgreSQL us': rounded(cpuUsPerRequest.postgres, 1),
      }),
    },
  ]);
}

/** Numbers stay numbers, because console.table puts texts in quotation marks. */
function rounded(value, decimals) {
  return Number(value.toFixed(decimals));
}

/** @returns {Promise<string>} the file, relative to the repository */
export async function writeResults(startedAt, options, rows) {
  await mkdir(RESULTS, { recursive: true });
  const name = `${startedAt.toISOString().replaceAll(':', '-')}-${options.deployment}.json`;
  const machine = { node: process.version, processor: cpus()[0]?.model, processors: cpus().length };
  await writeFile(join(RESULTS, name), `${JSON.stringify({ startedAt, options, machine, rows }, null, 2)}\n`);
  return join('bench', 'results', name);
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
