// `npm run bench`: a deployment beside its peers, in one run. Only the ratios mean anything: the same row moves by a fifth
// within minutes on a shared machine, but all servers of a round meet the same minute.
//
//   npm run bench                  the embedded deployment, without and with an API key, beside a bare Fastify
//   npm run bench -- distributed   the distributed one, on its own Redis and PostgreSQL, beside that and a naive port
//
//   npm run bench -- trickle [deployment]     good clients beside 2,000 connections that trickle heads and bodies
//   npm run bench -- overload [deployment]    three times the load that it can carry
//   npm run bench -- soak [deployment]        an hour of steady load, with plots
//
//   BENCH_SECONDS      length of one run, 2      BENCH_ROUNDS  rounds per row, 5
//   BENCH_CONNECTIONS  open at a time, 64        BENCH_DEPLOYMENT  instead of the argument
//   BENCH_ROW          only rows whose name begins like one of these, comma-separated (and the first, which leaves payments
//                      for the others; `read` needs `list` before it)
//   BENCH_TRACES=1     also the service with traces, of all requests and of one in a hundred, to a collector that takes them
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newSecret, sha256Of } from '#idempay/access/api-keys.js';
import { temporaryFolder } from './processes.mjs';
import { printTable, summarize, writeResults } from './report.mjs';
import { describeRows } from './rows.mjs';
import { startPostgres, startRedis } from './servers.mjs';
import { startServer } from './service.mjs';
import { requireWrk, runWrk } from './wrk.mjs';

/** Enough for the compiler of the engine to have seen every hot path. */
const WARM_UP_SECONDS = 1;
/** The order within a round: the peers first, so that whatever drifts meets all in turn. */
const ORDER = ['bare', 'naive', 'ours', 'secured', 'traced', 'sampled'];

const options = {
  deployment: process.argv[2] ?? (process.env.BENCH_DEPLOYMENT || 'embedded'),
  seconds: wholeNumber('BENCH_SECONDS', 2),
  rounds: wholeNumber('BENCH_ROUNDS', 5),
  connections: wholeNumber('BENCH_CONNECTIONS', 64),
};

const wanted = (process.env.BENCH_ROW ?? '').split(',');

/** Runs of their own, with clients of their own: the argument after their name is the deployment. */
const LOADS = {
  trickle: () => import('./trickle.mjs'),
  overload: () => import('./overload.mjs'),
  soak: () => import('./soak.mjs'),
};

try {
  await (LOADS[process.argv[2]] ?? compareRates)();
} catch (problem) {
  console.error(`The benchmark failed: ${problem.message}`);
  process.exitCode = 1;
}

async function compareRates() {
  await requireWrk();
  const startedAt = new Date();
  const rows = await measureAll();
  printTable(rows);
  console.log(`Written to ${await writeResults(startedAt, options, rows)}`);
}

async function measureAll() {
  const folder = await temporaryFolder();
  const started = [];
  try {
    const { servers, stores } = await start(folder, started);
    const measured = [];
    for (const [index, row] of describeRows({ servers, folder, connections: options.connections }).entries()) {
      if (index > 0 && !wanted.some((beginning) => row.name.startsWith(beginning))) continue;
      process.stderr.write(`${row.name}\n`);
      measured.push(await measureRow(servers, stores, row));
    }
    return measured;
  } finally {
    for (const each of started.reverse()) await each.stop();
  }
}

/** What runs is pushed to `started` at once, so that it is ended whatever happens next. */
async function start(folder, started) {
  const keep = async (starting) => {
    const each = await starting;
    started.push(each);
    return each;
  };
  switch (options.deployment) {
    case 'embedded': {
      const bare = await keep(startServer('bench/bare-fastify.mjs'));
      const ours = await keep(startServer('dist/main.js', { DATA_DIR: join(folder, 'data') }));
      const secured = await keep(startSecured(folder, { DATA_DIR: join(folder, 'secured-data') }));
      const traced = await startTraced(keep, (name) => ({ DATA_DIR: join(folder, `${name}-data`) }));
      return { servers: { bare, ours, secured, ...traced }, stores: {} };
    }
    case 'distributed': {
      const redis = await keep(startRedis());
      const postgres = await keep(startPostgres());
      const { NAIVE_AUTO_PIPELINING = '' } = process.env;
      const bare = await keep(startServer('bench/bare-fastify.mjs'));
      const naive = await keep(startServer('bench/naive-port.mjs', { REDIS_URL: redis.url, NAIVE_AUTO_PIPELINING }));
      const stores = { REDIS_URL: redis.url, DATABASE_URL: postgres.url };
      const ours = await keep(startServer('dist/main.js', stores));
      const secured = await keep(startSecured(folder, stores));
      const traced = await startTraced(keep, () => stores);
      return { servers: { bare, naive, ours, secured, ...traced }, stores: { redis, postgres } };
    }
    default:
      throw new Error(`there is no deployment '${options.deployment}'; there are embedded and distributed`);
  }
}

/** The service again, with traces; nothing where nobody asked for it. */
async function startTraced(keep, storesOf) {
  if (!process.env.BENCH_TRACES) return {};
  const sink = await keep(startServer('bench/trace-sink.mjs'));
  const start = (name, more) =>
    keep(startServer('dist/main.js', { OTEL_EXPORTER_OTLP_ENDPOINT: sink.url, ...storesOf(name), ...more }));
  const ratio = { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' };
  return { traced: await start('traced', {}), sampled: await start('sampled', ratio) };
}

/** The service again, with an API key on every request. */
async function startSecured(folder, stores) {
  const [file, secret] = [join(folder, 'api-keys.json'), newSecret()];
  const entry = { name: 'bench', scopes: ['payments:read', 'payments:write'], sha256: sha256Of(secret) };
  await writeFile(file, JSON.stringify([entry]));
  const server = await startServer('dist/main.js', { AUTH: 'required', API_KEYS_FILE: file, ...stores });
  return { ...server, headers: { Authorization: `Bearer ${secret}` } };
}

/** A warm-up, then rounds of one run for each server. */
async function measureRow(servers, stores, row) {
  await measureRound(servers, stores, row, WARM_UP_SECONDS);
  const rounds = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rounds.push(await measureRound(servers, stores, row, options.seconds));
  }
  return summarize(row.name, rounds);
}

async function measureRound(servers, stores, row, seconds) {
  const loads = await row.loads(seconds);
  const results = {};
  for (const name of ORDER) {
    if (loads[name]) results[name] = await measureRun(servers[name], stores, loads[name], seconds);
  }
  await row.verify(results);
  return results;
}

async function measureRun(server, stores, load, seconds) {
  const processes = Object.entries({ server, ...stores });
  const before = processes.map(([, { cpuUs }]) => cpuUs());
  const result = await runWrk(server.url, load, { seconds, connections: options.connections });
  const cpuUsPerRequest = Object.fromEntries(
    processes.map(([name, { cpuUs }], index) => [name, (cpuUs() - before[index]) / result.requests]),
  );
  return { ...result, cpuUsPerRequest };
}

function wholeNumber(name, fallback) {
  const text = process.env[name];
  if (!text) return fallback;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  console.error(`${name} must be a whole number above 0, not '${text}'`);
  process.exit(1);
}
