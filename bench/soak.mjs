// `npm run bench -- soak`: steady load for an hour, and a plot of what must stay flat: memory, open files, and the write-ahead log.
//
//   npm run bench -- soak                  both deployments at once, each with stores of its own
//   npm run bench -- soak embedded         one of them
//
//   SOAK_MINUTES  60      SOAK_ROUNDS_PER_SECOND  60, of ten requests each (paced-clients.mjs)
//
// Keys live for five minutes, so that they expire, and their entries are removed, all along. Needs gnuplot.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { markdownTable } from './markdown.mjs';
import { startService } from './open-loop.mjs';
import { deploymentOf } from './options.mjs';
import { everyCall, generateKeys, startRounds } from './paced-clients.mjs';
import { draw, requireGnuplot, writeResults } from './results.mjs';

const KEY_LIFE = { IDEMPOTENCY_TTL_SECONDS: '300' };
const SAMPLES = 240;
/** As many as the embedded service remembers at most: memory that fills once is no leak. */
const REMEMBERED_KEYS = 100_000;
const MEBIBYTE = 1024 * 1024;
/** Of the run: until then caches fill, keys begin to expire, and the engine compiles. */
const WARM_UP = 0.25;
/** A leak of one percent an hour is not seen; one that ends a process within days is. */
const GROWTH_ALLOWED = 1.1;
const NAMES = {
  residentMiB: 'resident memory, MiB',
  heapMiB: 'JavaScript heap, MiB',
  openFiles: 'open files',
  walMiB: 'write-ahead log, MiB',
};

const minutes = Number(process.env.SOAK_MINUTES || 60);
const roundsPerSecond = Number(process.env.SOAK_ROUNDS_PER_SECOND || 60);
/** A trial must not replace the hour that the docs show. */
const isTrial = minutes < 60;
const deployments = process.argv[3] ? [deploymentOf(process.argv[3])] : ['embedded', 'distributed'];

await requireGnuplot();
const verdicts = await Promise.all(deployments.map(soak));
process.exit(verdicts.every(Boolean) ? 0 : 1);

async function soak(deployment) {
  const service = await startService(deployment, KEY_LIFE);
  await generateKeys(service.url, REMEMBERED_KEYS);
  const rounds = startRounds(service.url, roundsPerSecond, everyCall);
  const samples = [];
  try {
    const beganAt = performance.now();
    for (let taken = 0; taken < SAMPLES; taken += 1) {
      const dueMs = beganAt + ((taken + 1) / SAMPLES) * minutes * 60_000 - performance.now();
      await Promise.race([delay(dueMs), rounds.failure]);
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      samples.push({
        minute: (performance.now() - beganAt) / 60_000,
        residentMiB: valueIn(metrics, 'idempay_process_resident_memory_bytes') / MEBIBYTE,
        heapMiB: valueIn(metrics, 'idempay_process_heap_used_bytes') / MEBIBYTE,
        openFiles: valueIn(metrics, 'idempay_process_open_fds'),
        walMiB: (await walBytes(service, metrics)) / MEBIBYTE,
      });
    }
  } finally {
    await rounds.stop();
  }
  await service.stopAll();
  await draw(
    'soak.gnuplot',
    `soak-${deployment}`,
    [Object.keys(samples[0]), ...samples.map((sample) => Object.values(sample).map((value) => value.toFixed(3)))],
    { deployment },
    isTrial,
  );
  return judge(deployment, samples, rounds.started());
}

/** Bytes of the write-ahead log now. */
function walBytes({ postgres }, metrics) {
  return postgres ? sizeOf(join(postgres.data, 'pg_wal')) : valueIn(metrics, 'idempay_store_wal_bytes');
}

/**
 * Flat: the lowest of the last quarter of the run is no higher than that of the second one. The engine collects the old
 * generation rarely, every few minutes at this rate, so only the lowest says what lives.
 */
async function judge(deployment, samples, rounds) {
  const quarter = Math.floor(samples.length * WARM_UP);
  const early = samples.slice(quarter, 2 * quarter);
  const late = samples.slice(-quarter);
  const rows = Object.keys(samples[0])
    .filter((name) => name !== 'minute')
    .map((name) => {
      const [before, after] = [early, late].map((part) => Math.min(...part.map((sample) => sample[name])));
      const most = Math.max(...samples.map((sample) => sample[name]));
      return { name, before, after, most, flat: after <= before * GROWTH_ALLOWED };
    });
  const title = `${rounds} rounds of ten requests in ${minutes} minutes, every answer as it should be.`;
  const table = markdownTable(
    ['lowest', 'second quarter', 'last quarter', 'most of all', 'flat'],
    rows.map(({ name, before, after, most, flat }) => [NAMES[name], before, after, most, flat ? 'yes' : '**no**']),
  );
  console.log(`${deployment}: ${title}\n\n${table}\n`);
  await writeResults({
    kind: 'soak',
    deployment,
    rows: [{ name: 'soak', measuredAt: new Date(), minutes, title, table }],
  });
  return rows.every(({ flat }) => flat);
}

/** Of a series without labels. */
function valueIn(metrics, name) {
  const line = metrics.split('\n').find((each) => each.startsWith(`${name} `));
  if (line === undefined) throw new Error(`/metrics does not show ${name}`);
  return Number(line.slice(name.length + 1));
}

async function sizeOf(folder) {
  const files = await readdir(folder);
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
