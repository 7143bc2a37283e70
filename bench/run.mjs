// `npm run bench`: the embedded deployment beside a bare Fastify, in one run. Only the ratios mean anything: the same row
// moves by a fifth within minutes on a shared machine, but both servers of a round meet the same minute.
//
//   BENCH_SECONDS      length of one run, 2      BENCH_ROUNDS  rounds per row, 5
//   BENCH_CONNECTIONS  open at a time, 64
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describeRows } from './rows.mjs';
import { startServer } from './service.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

/** Enough for the compiler of the engine to have seen every hot path. */
const WARM_UP_SECONDS = 1;
const RESULTS = fileURLToPath(new URL('./results/', import.meta.url));

const options = {
  seconds: wholeNumber('BENCH_SECONDS', 2),
  rounds: wholeNumber('BENCH_ROUNDS', 5),
  connections: wholeNumber('BENCH_CONNECTIONS', 64),
};

try {
  await requireWrk();
  const startedAt = new Date();
  const rows = await measureAll();
  console.table(Object.fromEntries(rows.map(tableRow)));
  console.log('Ratios are medians of the rounds, ours to the bare Fastify; CPU is of all threads of the process.');
  console.log(`Written to ${await writeResults(startedAt, rows)}`);
} catch (problem) {
  console.error(`The benchmark failed: ${problem.message}`);
  process.exitCode = 1;
}

async function measureAll() {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-bench-'));
  const servers = {};
  try {
    servers.peer = await startServer('bench/bare-fastify.mjs');
    servers.ours = await startServer('dist/main.js', { DATA_DIR: join(folder, 'data') });
    const target = { url: servers.ours.url, peerUrl: servers.peer.url, folder, connections: options.connections };
    const measured = [];
    for (const row of describeRows(target)) {
      process.stderr.write(`${row.name}\n`);
      measured.push(await measureRow(servers, row));
    }
    return measured;
  } finally {
    for (const server of Object.values(servers)) await server.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A warm-up, then rounds of one run each; the peer first, so that whatever drifts meets both in turn. */
async function measureRow(servers, row) {
  await measureRound(servers, row, WARM_UP_SECONDS);
  const rounds = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rounds.push(await measureRound(servers, row, options.seconds));
  }
  return {
    name: row.name,
    ratio: median(rounds.map(({ ours, peer }) => ours.requestsPerSecond / peer.requestsPerSecond)),
    ours: summary(rounds.map(({ ours }) => ours)),
    peer: summary(rounds.map(({ peer }) => peer)),
    rounds,
  };
}

async function measureRound(servers, row, seconds) {
  const loads = await row.loads(seconds);
  const peer = await measureRun(servers.peer, loads.peer, seconds);
  const ours = await measureRun(servers.ours, loads.ours, seconds);
  await row.verify(ours);
  return { ours, peer };
}

async function measureRun(server, load, seconds) {
  const before = server.cpuUs();
  const result = await runWrk(server.url, load, { seconds, connections: options.connections });
  return { ...result, cpuUsPerRequest: (server.cpuUs() - before) / result.requests };
}

function summary(runs) {
  const medianOf = (field) => median(runs.map((run) => run[field]));
  return {
    requestsPerSecond: medianOf('requestsPerSecond'),
    p50Ms: medianOf('p50Ms'),
    p99Ms: medianOf('p99Ms'),
    cpuUsPerRequest: medianOf('cpuUsPerRequest'),
  };
}

function tableRow({ name, ratio, ours, peer }) {
  return [
    name,
    {
      ratio: rounded(ratio, 2),
      'req/s': rounded(ours.requestsPerSecond, 0),
      'peer req/s': rounded(peer.requestsPerSecond, 0),
      'p50 ms': rounded(ours.p50Ms, 2),
      'peer p50': rounded(peer.p50Ms, 2),
      'p99 ms': rounded(ours.p99Ms, 2),
      'peer p99': rounded(peer.p99Ms, 2),
      'CPU us': rounded(ours.cpuUsPerRequest, 1),
      'peer CPU us': rounded(peer.cpuUsPerRequest, 1),
    },
  ];
}

/** Numbers stay numbers, because console.table puts texts in quotation marks. */
function rounded(value, decimals) {
  return Number(value.toFixed(decimals));
}

async function writeResults(startedAt, rows) {
  await mkdir(RESULTS, { recursive: true });
  const name = `${startedAt.toISOString().replaceAll(':', '-')}.json`;
  const machine = { node: process.version, processor: cpus()[0]?.model, processors: cpus().length };
  await writeFile(join(RESULTS, name), `${JSON.stringify({ startedAt, options, machine, rows }, null, 2)}\n`);
  return join('bench', 'results', name);
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function wholeNumber(name, fallback) {
  const text = process.env[name];
  if (!text) return fallback;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  console.error(`${name} must be a whole number above 0, not '${text}'`);
  process.exit(1);
}
