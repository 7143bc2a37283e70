// `npm run bench -- soak`: steady load for an hour, and whether what must stay flat did: memory, open files, and the write-ahead log.
// Keys live for five minutes, so that they expire, and their entries are removed, all along.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { scrape, sumOf } from '../testkit/client/metrics.js';
import type { Opened } from '../testkit/opened.js';
import { pause } from '../testkit/time/until.js';
import { DEPLOYMENTS, type Deployment, deploymentOf, type Options } from './options.js';
import { type Row, writeResults } from './results.js';
import { openService } from './servers.js';
import { generateKeys, startRounds } from './soak-rounds.js';
import { roundedTable } from './statistics.js';

const KEY_LIFE = { IDEMPOTENCY_TTL_SECONDS: '300' };
/** A shorter run is a trial: it judges nothing. */
const WHOLE_MINUTES = 60;
const SAMPLES = 240;
/** As many as the embedded service remembers at most: memory that fills once is no leak. */
const REMEMBERED_KEYS = 100_000;
const MEBIBYTE = 1024 * 1024;
/** The share of the run that is warm-up: until then caches fill, keys begin to expire, and the engine compiles. */
const WARM_UP = 0.25;
/** A leak of one percent an hour is not seen; one that ends a process within days is. */
const GROWTH_ALLOWED = 1.1;
const NAMES = {
  residentMiB: 'resident memory, MiB',
  heapMiB: 'JavaScript heap, MiB',
  openFiles: 'open files',
  walMiB: 'write-ahead log, MiB',
};

type Sample = Readonly<Record<keyof typeof NAMES, number>>;
type SoakedService = Awaited<ReturnType<typeof openService>>;

interface SoakRow extends Row {
  readonly minutes: number;
  readonly title: string;
  readonly table: string;
}

/** If no deployment is named, both at once, each with stores of its own. */
export async function soak(options: Options, opened: Opened, [name]: readonly string[]): Promise<void> {
  const deployments = name === undefined ? DEPLOYMENTS : [deploymentOf(name)];
  const areFlat = await Promise.all(deployments.map((deployment) => soakDeployment(deployment, options, opened)));
  // In less time caches are still filling.
  if (options.soakMinutes >= WHOLE_MINUTES && !areFlat.every(Boolean)) process.exitCode = 1;
}

async function soakDeployment(deployment: Deployment, options: Options, opened: Opened): Promise<boolean> {
  const { soakMinutes: minutes, soakRoundsPerSecond } = options;
  const service = await openService(opened, deployment, { settings: KEY_LIFE });
  await generateKeys(service.url, REMEMBERED_KEYS);
  const rounds = startRounds(service.url, soakRoundsPerSecond);
  const samples: Sample[] = [];
  try {
    const beganAt = performance.now();
    for (let taken = 1; taken <= SAMPLES; taken += 1) {
      const dueAt = beganAt + (taken / SAMPLES) * minutes * 60_000;
      await Promise.race([pause(dueAt - performance.now()), rounds.failure]);
      samples.push(await sampleOf(service));
    }
  } finally {
    await rounds.stop();
  }
  const title = `${rounds.started()} rounds of ten requests in ${minutes} minutes, every answer as it should be.`;
  const { isFlat, table } = judge(samples);
  console.log(`${deployment}: ${title}\n\n${table}\n`);
  const measuredAt = new Date().toISOString();
  const row: SoakRow = { name: 'soak', measuredAt, minutes, title, table };
  console.log(`Written to ${await writeResults({ kind: 'soak', deployment, rows: [row] })}\n`);
  return isFlat;
}

async function sampleOf({ url, postgres }: SoakedService): Promise<Sample> {
  const samples = await scrape(url);
  const readingOf = (name: string) => {
    if (!samples.some((sample) => sample.name === name)) throw new Error(`/metrics does not show ${name}`);
    return sumOf(samples, name);
  };
  const walBytes = postgres ? await sizeOf(join(postgres.data, 'pg_wal')) : readingOf('idempay_store_wal_bytes');
  return {
    residentMiB: readingOf('idempay_process_resident_memory_bytes') / MEBIBYTE,
    heapMiB: readingOf('idempay_process_heap_used_bytes') / MEBIBYTE,
    openFiles: readingOf('idempay_process_open_fds'),
    walMiB: walBytes / MEBIBYTE,
  };
}

/**
 * Flat: the lowest reading of the last quarter of the run is no higher than the lowest one of the second quarter. The engine collects the
 * old generation rarely, every few minutes at this rate, so only the lowest says what lives.
 */
function judge(samples: readonly Sample[]): { isFlat: boolean; table: string } {
  const quarter = Math.floor(samples.length * WARM_UP);
  const [early, late] = [samples.slice(quarter, 2 * quarter), samples.slice(-quarter)];
  const rows = (Object.keys(NAMES) as (keyof Sample)[]).map((name) => {
    const [before, after] = [lowestOf(early, name), lowestOf(late, name)];
    const most = Math.max(...samples.map((sample) => sample[name]));
    return { name, before, after, most, isFlat: after <= before * GROWTH_ALLOWED };
  });
  const table = roundedTable(
    ['lowest', 'second quarter', 'last quarter', 'most of all', 'flat'],
    rows.map(({ name, before, after, most, isFlat }) => [NAMES[name], before, after, most, isFlat ? 'yes' : '**no**']),
  );
  return { isFlat: rows.every((row) => row.isFlat), table };
}

function lowestOf(samples: readonly Sample[], name: keyof Sample): number {
  return Math.min(...samples.map((sample) => sample[name]));
}

async function sizeOf(folder: string): Promise<number> {
  const files = await readdir(folder);
  // PostgreSQL removes a segment of its log at any time.
  const sizes = await Promise.all(
    files.map((file) =>
      stat(join(folder, file)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
