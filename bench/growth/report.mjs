// The steps that were measured last, as tables and as a plot.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { printMarkdown } from '../open-loop.mjs';
import { median } from '../statistics.mjs';

const run = promisify(execFile);
const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));
const IMAGE = fileURLToPath(new URL('../../docs/images/growth.svg', import.meta.url));
const PLOT = fileURLToPath(new URL('../scripts/growth.gnuplot', import.meta.url));
const FILE = /^growth-.*\.json$/;
const MEBIBYTE = 1024 * 1024;
/** After the start of the service: its engine compiles. */
const WARM_UP_SECONDS = 5;
const SWEPT = { keys: 'expired keys', retention: 'old payments' };

/** Beside what was measured of the same step before. */
export async function saveStep(measured) {
  await mkdir(RESULTS, { recursive: true });
  const file = join(RESULTS, `growth-${measured.deployment}-${measured.count}.json`);
  const before = existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : {};
  await writeFile(file, `${JSON.stringify({ ...before, ...measured }, null, 2)}\n`);
}

export async function reportGrowth() {
  const steps = (await savedSteps()).filter(({ first }) => first);
  for (const deployment of ['embedded', 'distributed']) {
    const rows = steps.filter((step) => step.deployment === deployment).sort((a, b) => a.count - b.count);
    if (rows.length > 0) printTables(deployment, rows);
  }
  const isWhole = ['embedded', 'distributed'].every((deployment) =>
    steps.some((step) => step.deployment === deployment && step.sweeps && step.first),
  );
  if (isWhole) await draw(steps);
  else console.log('\nThe plot needs a step with sweeps of both deployments.');
}

async function savedSteps() {
  const files = (await readdir(RESULTS)).filter((file) => FILE.test(file));
  return Promise.all(files.map(async (file) => JSON.parse(await readFile(join(RESULTS, file), 'utf8'))));
}

function printTables(deployment, steps) {
  const isEmbedded = deployment === 'embedded';
  console.log(`\n${deployment}, ${steps.map(({ at }) => at.slice(0, 10)).at(-1)}\n`);
  const stores = isEmbedded ? [] : ['redis', 'postgres'];
  const cpuHead = (what) => [`CPU us of ${what}`, ...stores.map((store) => `its ${store}`)];
  const cpu = (costs) => ['service', ...stores].map((part) => costs[part]);
  printMarkdown(
    [
      'payments',
      'first/s',
      ...cpuHead('a first payment'),
      'repeats/s',
      ...cpuHead('a repeat'),
      'p50 ms of a read',
      'p99 ms',
      'start ms',
      'resident MB',
    ],
    steps.map((step) => [
      step.count.toLocaleString('en'),
      ...[step.first.perSecond, ...cpu(step.first)],
      ...[step.repeat.perSecond, ...cpu(step.repeat)],
      ...[step.reads.p50Ms, step.reads.p99Ms, step.startMs, step.residentMb],
    ]),
  );
  for (const { count, unanalyzed } of steps.filter((step) => step.unanalyzed)) {
    const costs = cpu(unanalyzed).map((us) => us.toFixed(0));
    console.log(
      `Without statistics, ${count} payments: ${unanalyzed.perSecond.toFixed(0)} first/s, CPU us ${costs.join(', ')}`,
    );
  }
  console.log();
  printMarkdown(
    ['payments', 'bytes of a payment', 'bytes of a key', isEmbedded ? 'MiB of the file' : 'MiB on the disk of Redis'],
    steps
      .filter(({ count }) => count > 0)
      .map(({ count, bytes }) => [
        count.toLocaleString('en'),
        Math.round(bytes.paymentBytes / bytes.payments),
        Math.round(bytes.keyBytes / bytes.keys),
        (bytes.fileBytes ?? bytes.redisDiskBytes) / MEBIBYTE,
      ]),
  );
  console.log();
  printMarkdown(
    ['payments', 'removed', 'in s', 'p99 ms without', 'p99 ms beside it', 'worst second beside it'],
    steps.flatMap(({ count, sweeps }) =>
      Object.entries(sweeps ?? {}).map(([what, sweep]) => {
        const { removed, seconds, p99WithoutMs, p99BesideMs, worstMs } = summaryOf(sweep);
        return [
          count.toLocaleString('en'),
          `${removed.toLocaleString('en')} ${SWEPT[what]}`,
          seconds,
          p99WithoutMs,
          p99BesideMs,
          worstMs,
        ];
      }),
    ),
  );
}

/** `left` was read at the end of each second, so a second that ended with fewer is one of the sweep. */
function summaryOf({ left, p99MsBySecond }) {
  const swept = p99MsBySecond.map((_, second) => left[second] < (left[second - 1] ?? left[0]));
  const warm = p99MsBySecond.map((p99Ms, second) => ({ p99Ms, second })).slice(WARM_UP_SECONDS);
  const of = (isSwept) => warm.filter(({ second }) => Boolean(swept[second]) === isSwept).map(({ p99Ms }) => p99Ms);
  return {
    removed: left[0] - left.at(-1),
    seconds: swept.filter(Boolean).length,
    p99WithoutMs: median(of(false)),
    p99BesideMs: median(of(true)),
    worstMs: Math.max(...of(true)),
  };
}

async function draw(steps) {
  await mkdir(RESULTS, { recursive: true });
  const line = (...values) => values.map((value) => (typeof value === 'number' ? value.toFixed(3) : value)).join(' ');
  const tables = [];
  for (const deployment of ['embedded', 'distributed']) {
    const of = steps.filter((step) => step.deployment === deployment).sort((a, b) => a.count - b.count);
    const total = ({ service, redis = 0, postgres = 0 }) => service + redis + postgres;
    const growth = of.map((step) =>
      line(nameOf(step.count), total(step.first), total(step.repeat), step.reads.p99Ms, step.startMs),
    );
    const last = of.at(-1)?.sweeps ?? {
      keys: { p99MsBySecond: [], left: [] },
      retention: { p99MsBySecond: [], left: [] },
    };
    const seconds = last.keys.p99MsBySecond.map((p99Ms, second) =>
      line(
        second + 0.5,
        p99Ms,
        last.retention.p99MsBySecond[second] ?? 0,
        last.keys.left[second] ?? 0,
        last.retention.left[second] ?? 0,
      ),
    );
    for (const [name, lines] of Object.entries({ growth, sweeps: seconds })) {
      const table = join(RESULTS, `growth-${deployment}-${name}.dat`);
      await writeFile(table, `${lines.join('\n')}\n`);
      tables.push(`${deployment}_${name}='${table}'`);
    }
  }
  await run('gnuplot', ['-e', `${tables.join('; ')}; image='${IMAGE}'`, PLOT]);
}

function nameOf(count) {
  return count < 1_000_000 ? String(count) : `${count / 1_000_000}M`;
}
