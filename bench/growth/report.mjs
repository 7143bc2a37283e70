// The steps that were measured last, as tables and as a plot.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { markdownTable } from '../markdown.mjs';
import { median } from '../statistics.mjs';

const run = promisify(execFile);
const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));
const DOCUMENT = fileURLToPath(new URL('../../docs/performance.md', import.meta.url));
const [BEGIN, END] = ['<!-- bench:growth -->', '<!-- end of growth -->'];
const IMAGE = fileURLToPath(new URL('../../docs/images/growth.svg', import.meta.url));
const PLOT = fileURLToPath(new URL('../scripts/growth.gnuplot', import.meta.url));
const FILE = /^growth-.*\.json$/;
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

/** Prints the tables, and puts them and the plot where docs/performance.md has them. */
export async function reportGrowth() {
  const steps = (await savedSteps()).filter(({ first }) => first);
  const paragraphs = [];
  for (const deployment of ['embedded', 'distributed']) {
    const rows = steps.filter((step) => step.deployment === deployment).sort((a, b) => a.count - b.count);
    if (rows.length > 0) paragraphs.push(...tablesOf(deployment, rows));
  }
  console.log(paragraphs.join('\n\n'));
  await draw(steps);
  const document = await readFile(DOCUMENT, 'utf8');
  const [before, after] = [document.indexOf(BEGIN) + BEGIN.length, document.indexOf(END)];
  await writeFile(DOCUMENT, `${document.slice(0, before)}\n\n${paragraphs.join('\n\n')}\n\n${document.slice(after)}`);
}

async function savedSteps() {
  const files = (await readdir(RESULTS)).filter((file) => FILE.test(file));
  return Promise.all(files.map(async (file) => JSON.parse(await readFile(join(RESULTS, file), 'utf8'))));
}

function tablesOf(deployment, steps) {
  const stores = deployment === 'embedded' ? [] : ['redis', 'postgres'];
  const filled = steps.filter(({ count }) => count > 0);
  const title = `${deployment === 'embedded' ? 'Embedded' : 'Distributed'}, ${steps.at(-1).at.slice(0, 10)}:`;
  return [title, rateTable(steps, stores), byteTable(filled), ...sweepTable(filled)];
}

function rateTable(steps, stores) {
  const names = { service: 'CPU us', redis: 'of Redis', postgres: 'of PostgreSQL' };
  const parts = ['service', ...stores];
  const cpuHead = parts.map((part) => names[part]);
  const cpu = (costs) => parts.map((part) => Math.round(costs[part]));
  return markdownTable(
    ['payments', 'first/s', ...cpuHead, 'repeats/s', ...cpuHead, 'read p50 ms', 'p99 ms', 'start ms', 'resident MB'],
    steps.map(({ count, first, repeat, reads, startMs, residentMb }) => [
      ...[count, first.perSecond, ...cpu(first), repeat.perSecond, ...cpu(repeat)],
      ...[reads.p50Ms, reads.p99Ms, startMs, residentMb],
    ]),
  );
}

function byteTable(steps) {
  return markdownTable(
    ['payments', 'bytes of a payment', 'bytes of a key', 'MB on the disk (SQLite, or Redis)'],
    steps.map(({ count, bytes }) => [
      ...[count, Math.round(bytes.paymentBytes / bytes.payments), Math.round(bytes.keyBytes / bytes.keys)],
      (bytes.fileBytes ?? bytes.redisDiskBytes) / 1e6,
    ]),
  );
}

function sweepTable(steps) {
  if (!steps.some(({ sweeps }) => sweeps)) return [];
  const table = markdownTable(
    ['payments', 'removed', 'of', 'in s', 'p99 ms without', 'beside it', 'worst second without', 'beside it'],
    steps.flatMap(({ count, sweeps }) =>
      Object.entries(sweeps ?? {}).map(([what, sweep]) => {
        const { removed, seconds, without, besideIt } = summaryOf(sweep);
        return [
          count,
          removed,
          SWEPT[what],
          seconds,
          median(without),
          median(besideIt),
          Math.max(...without),
          Math.max(...besideIt),
        ];
      }),
    ),
  );
  return [table];
}

/** `left` was read at the end of each second, so a second that ended with fewer is one of the sweep. */
function summaryOf({ left, p99MsBySecond }) {
  const swept = p99MsBySecond.map((_, second) => left[second] < (left[second - 1] ?? left[0]));
  const warm = p99MsBySecond.map((p99Ms, second) => ({ p99Ms, second })).slice(WARM_UP_SECONDS);
  const of = (isSwept) => warm.filter(({ second }) => Boolean(swept[second]) === isSwept).map(({ p99Ms }) => p99Ms);
  return {
    removed: left[0] - left.at(-1),
    seconds: swept.filter(Boolean).length,
    without: of(false),
    besideIt: of(true),
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
  // One step alone shows no growth.
  const having = (part, least) => {
    const names = ['embedded', 'distributed'].filter(
      (name) => steps.filter((step) => step.deployment === name && step[part]).length >= least,
    );
    return `'${names.join(' ')}'`;
  };
  const variables = `grown=${having('first', 2)}; swept=${having('sweeps', 1)}; image='${IMAGE}'`;
  await run('gnuplot', ['-e', `${tables.join('; ')}; ${variables}`, PLOT]);
}

function nameOf(count) {
  return count < 1_000_000 ? String(count) : `${count / 1_000_000}M`;
}
