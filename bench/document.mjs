// `npm run bench -- document`: the newest results of each row as tables between the markers of docs/performance.md, and as plots.
// A part without results stays as it is, so a run may be renewed alone. Needs gnuplot.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { draw, newestResults, requireGnuplot } from './results.mjs';
import { median, spread } from './statistics.mjs';
import {
  costTable,
  latencyTable,
  peerTable,
  ratiosOf,
  ratioTable,
  shortTable,
  storeTable,
  targetSentence,
} from './tables.mjs';

const DOCUMENT = fileURLToPath(new URL('../docs/performance.md', import.meta.url));
/** What was tried for less is not shown, nor what was run beside an earlier version. */
const LEAST = { rounds: 3, seconds: 2, minutes: 60 };
const NOTHING = 'NaN';
const LABEL_WIDTH = 11;

await requireGnuplot();
const isLongEnough = ({ rounds, seconds, minutes }) => {
  if (minutes !== undefined) return minutes >= LEAST.minutes;
  return rounds.length >= LEAST.rounds && seconds >= LEAST.seconds && !rounds[0].before;
};
const rates = await newestResults('rates', isLongEnough);
const latency = await newestResults('latency', isLongEnough);

const parts = {
  short: rates.length > 0 && [shortTable(rates)],
  ratios: rates.length > 0 && [
    ratioTable(rates),
    targetSentence(rates),
    measuredWhen(rates),
    imageOf('ratios', 'Ratio of every row, with its lowest and highest round and its target'),
  ],
  peers: rates.length > 0 && [peerTable(rates)],
  costs: rates.length > 0 && [
    ...rates.flatMap((run) => [`${capital(run.deployment)}:`, costTable(run)]),
    storeTable(rates),
    ...rates.map(({ deployment }) => imageOf(`costs-${deployment}`, `CPU time of a request by process, ${deployment}`)),
  ],
  latency: latency.length > 0 && [
    latencyTable(latency),
    measuredWhen(latency),
    imageOf('latency', 'Latencies at half and at 80 % of the capacity'),
  ],
  ...(await tablesOf('trickle')),
  ...(await tablesOf('overload')),
  ...(await tablesOf('soak', isLongEnough)),
};

let text = await readFile(DOCUMENT, 'utf8');
for (const [name, paragraphs] of Object.entries(parts)) {
  if (paragraphs) text = replacePart(text, name, paragraphs.join('\n\n'));
}
await writeFile(DOCUMENT, text);
if (rates.length > 0) {
  await drawRatios(rates);
  await drawCosts(rates);
}
if (latency.length > 0) await drawLatency(latency);
const written = Object.keys(parts).filter((name) => parts[name]);
console.log(`Written to docs/performance.md: ${written.join(', ') || 'nothing, there are no results of whole runs'}`);

/** Tables that were made by the run itself. */
async function tablesOf(kind, isWhole) {
  const runs = await newestResults(kind, isWhole);
  const paragraphs = runs.flatMap((run) =>
    run.rows.flatMap(({ title, table }) => [`${capital(run.deployment)}. ${title}`, table]),
  );
  return { [kind]: runs.length > 0 && [...paragraphs, measuredWhen(runs)] };
}

function measuredWhen(runs) {
  return runs
    .map(({ deployment, machine, rows }) => {
      const days = [...new Set(rows.map(({ measuredAt }) => measuredAt.slice(0, 10)))].toSorted();
      const extents = [...new Set(rows.filter(({ rounds }) => rounds).map(extentOf))];
      const how = [...days, `Node.js ${machine.node.slice(1)}`, `${machine.processors} processors`, ...extents];
      return `${capital(deployment)}: ${how.join(', ')}.`;
    })
    .join(' ');
}

function imageOf(name, says) {
  return `![${says}](images/${name}.svg)`;
}

function extentOf({ rounds, seconds }) {
  return `${rounds.length} rounds of ${seconds} s`;
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}

function replacePart(all, name, content) {
  const [begin, end] = [`<!-- bench:${name} -->`, `<!-- end of ${name} -->`];
  const [from, to] = [all.indexOf(begin), all.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/performance.md has no part between ${begin} and ${end}`);
  return `${all.slice(0, from + begin.length)}\n\n${content}\n\n${all.slice(to)}`;
}

/** A line for each row: the ratios of both deployments, with their targets. */
function drawRatios(runs) {
  const ofEach = ['embedded', 'distributed'].map((deployment) =>
    ratiosOf(runs.find((run) => run.deployment === deployment) ?? { rows: [] }),
  );
  const names = [...new Set(ofEach.flat().map(({ name }) => name))];
  const lines = names.map((name, index) => [
    index,
    label(name),
    ...ofEach.flatMap((ratios) => {
      const found = ratios.find((each) => each.name === name);
      return [found?.median, found?.lowest, found?.highest, found?.target].map((value) => value?.toFixed(3) ?? NOTHING);
    }),
  ]);
  const columns = ['median', 'lowest', 'highest', 'target'];
  return draw('ratios.gnuplot', 'ratios', [['row', 'name', ...columns, ...columns], ...lines]);
}

/** A line for each row and deployment: CPU time of each process for a request, and of the bare Fastify. */
async function drawCosts(runs) {
  for (const { deployment, rows } of runs) {
    // Beside the embedded deployment Redis and PostgreSQL run for the peers.
    const stores = deployment === 'distributed' ? ['redis', 'postgres'] : [];
    const lines = rows
      .filter(({ name }) => !name.includes('connections'))
      .map(({ name, rounds }) => {
        const of = (part, process) => median(rounds.map((round) => round[part].costs.cpuUs[process] ?? 0)).toFixed(2);
        return [
          label(name),
          of('ours', 'service'),
          ...['redis', 'postgres'].map((store) => (stores.includes(store) ? of('ours', store) : 0)),
          of('ours', 'processor'),
          of('bare', 'service'),
        ];
      });
    const columns = ['row', 'service', 'redis', 'postgres', 'processor', 'bare'];
    await draw('costs.gnuplot', `costs-${deployment}`, [columns, ...lines], { deployment });
  }
}

function drawLatency(runs) {
  const lines = runs.flatMap(({ deployment, rows }) =>
    rows.map(({ kind, part, rounds }) => {
      const p99 = spread(rounds.map(({ p99Ms }) => p99Ms));
      const of = (read) => median(rounds.map(read)).toFixed(3);
      const values = [of(({ p50Ms }) => p50Ms), p99.median.toFixed(3), p99.lowest.toFixed(3), p99.highest.toFixed(3)];
      return [label(`${deployment} ${kind} ${part}`), ...values, of(({ p999Ms }) => p999Ms)];
    }),
  );
  return draw('latency.gnuplot', 'latency', [['row', 'p50', 'p99', 'lowest', 'highest', 'p99.9'], ...lines]);
}

/** A text for gnuplot, in lines as short as the words allow. */
function label(text) {
  const lines = [];
  for (const word of text.split(' ')) {
    const longer = [...lines.slice(-1), word].join(' ');
    if (lines.length > 0 && longer.length <= LABEL_WIDTH) lines.splice(-1, 1, longer);
    else lines.push(word);
  }
  return `"${lines.join('\\n')}"`;
}
