// The servers that a round compares: the service, a bare Fastify, and what others would take instead of the service.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { newSecret, sha256Of } from '#idempay/access/api-keys.js';
import { openMeter } from './costs.mjs';
import { createDatabase, startPostgres, startRedis } from './servers.mjs';
import { startPeer, startProcessor, startServer } from './service.mjs';

const run = promisify(execFile);
const PEERS = fileURLToPath(new URL('../proof/peers/', import.meta.url));
/** Small servers of `npm run peers`. The first two always take part, the others on demand. */
const ALWAYS = ['node-idempotency', 'unique-key'];
const ON_DEMAND = ['express-idempotency', 'powertools'];

/**
 * @typedef {import('./service.mjs').Server & {
 *   meter: import('./costs.mjs').Meter, paymentPath: string, issuesKeys: boolean
 * }} Contestant
 */

/**
 * What runs is handed to `keep` at once, so that it is ended whatever happens next.
 * @param {'embedded' | 'distributed'} deployment
 * @param {string} folder  for the data of the service
 * @param {{ also: string[], before?: string }} more  names of BENCH_ALSO, and the folder of BENCH_BEFORE
 * @param {<T extends { stop: () => Promise<void> }>(starting: Promise<T>) => Promise<T>} keep
 * @returns {Promise<Record<string, Contestant>>} by name; with `, HTTP` after it the server that charges at the reference
 *   processor instead of simulating the charge
 */
export async function startContestants(deployment, folder, { also, before }, keep) {
  const redis = await keep(startRedis());
  const postgres = await keep(startPostgres());
  // The service and a peer both have a table of payments.
  const peersDatabase = await createDatabase(postgres, 'peers');
  const processor = await keep(startProcessor(join(folder, 'charges.ndjson')));
  const where = (name, stores = { REDIS_URL: redis.url, DATABASE_URL: postgres.url }) =>
    deployment === 'distributed' ? stores : { DATA_DIR: join(folder, `${name}-data`) };
  const idempay = (name, settings) => startServer('dist/main.js', { ...where(name), ...settings });
  const peer = (name, settings) =>
    startPeer(name, { REDIS_URL: redis.url, DATABASE_URL: peersDatabase.url, ...settings });
  const overHttp = { PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS: '10000' };

  const ours = { paymentPath: '/api/payment', issuesKeys: true };
  const theirs = { paymentPath: '/payments', issuesKeys: false };
  const started = {};
  const add = async (name, start, about, database = about === theirs ? peersDatabase : postgres) => {
    const server = await keep(start());
    const meter = await openMeter({ service: [server], redis: [redis], postgres: [database], processor: [processor] });
    await keep(Promise.resolve({ stop: meter.close }));
    started[name] = { ...server, meter, ...about };
  };

  const nothing = { ...ours, issuesKeys: false };
  await add('bare', () => startServer('bench/bare-fastify.mjs'), nothing);
  await add('bare, HTTP', () => startServer('bench/bare-fastify.mjs', overHttp), nothing);
  if (deployment === 'distributed') {
    const { NAIVE_AUTO_PIPELINING = '' } = process.env;
    await add(
      'naive',
      () => startServer('bench/naive-port.mjs', { REDIS_URL: redis.url, NAIVE_AUTO_PIPELINING }),
      ours,
    );
  }
  await add('ours', () => idempay('ours', {}), ours);
  await add('ours, HTTP', () => idempay('http', overHttp), ours);
  await add('ours, delayed', () => idempay('delayed', DELAYED), ours);
  if (before) {
    // Its scripts and tables may differ from ours.
    const database = await createDatabase(postgres, 'before');
    const stores = { REDIS_URL: `${redis.url}/1`, DATABASE_URL: database.url };
    const earlier = (name, settings) =>
      startServer(resolve(before, 'dist/main.js'), { ...where(name, stores), ...settings });
    await add('before', () => earlier('before', {}), ours, database);
    await add('before, HTTP', () => earlier('before-http', overHttp), ours, database);
    await add('before, delayed', () => earlier('before-delayed', DELAYED), ours, database);
  }
  await installPeers();
  for (const name of [...ALWAYS, ...ON_DEMAND.filter((each) => also.includes(each))]) {
    await add(name, () => peer(name, {}), theirs);
    await add(`${name}, HTTP`, () => peer(name, overHttp), theirs);
  }
  if (also.includes('secured')) {
    const { headers, settings } = await secretKey(folder);
    await add('secured', () => idempay('secured', settings), { ...ours, headers });
  }
  for (const [name, settings] of Object.entries(TRACED)) {
    if (!also.includes(name)) continue;
    const sink = await keep(startServer('bench/trace-sink.mjs'));
    await add(name, () => idempay(name, { OTEL_EXPORTER_OTLP_ENDPOINT: sink.url, ...settings }), ours);
  }
  return started;
}

/** With any delay a payment takes two commits. This is the shortest one; the simulated processor takes no CPU time meanwhile. */
const DELAYED = { PROCESSOR_DELAY_MS: '1' };

const TRACED = {
  traced: {},
  sampled: { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' },
};

/** Their libraries are not among the product's dependencies. */
async function installPeers() {
  if (existsSync(join(PEERS, 'node_modules'))) return;
  process.stderr.write('installing the libraries of proof/peers\n');
  await run('npm', ['ci', '--silent', '--ignore-scripts', '--prefix', PEERS]);
}

async function secretKey(folder) {
  const [file, secret] = [join(folder, 'api-keys.json'), newSecret()];
  const entry = { name: 'bench', scopes: ['payments:read', 'payments:write'], sha256: sha256Of(secret) };
  await writeFile(file, JSON.stringify([entry]));
  return {
    settings: { AUTH: 'required', API_KEYS_FILE: file },
    headers: { Authorization: `Bearer ${secret}` },
  };
}
