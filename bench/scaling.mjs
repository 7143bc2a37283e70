// `npm run bench -- scaling`: what an operation costs each part of the deployment, and whether that is still so with more
// processes and more Redis masters. docs/scaling.md plans with these figures.
//
//   npm run bench -- scaling               every topology beside the model; ends with 1 where a cell is off by more than a fifth.
//                                          CPU times are compared with those of the smallest of its kind, measured just before
//   npm run bench -- scaling 3 2           three processes, two masters
//   npm run bench -- scaling embedded      the embedded deployment
//   npm run bench -- scaling plan 1000     what so many payments a second need, by the model
//   npm run bench -- scaling model         measures the model anew: embedded, one process with one master, and with a Cluster
//
//   SCALING_OPERATIONS  of each kind, 12000
//
// Each process has 32 connections that are never idle, so its batches are as large with many processes as with one. What runs
// without any request is measured first, and taken off.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { markdownTable } from './markdown.mjs';
import { CELLS, measureTopology } from './scaling/measures.mjs';
import { planFor } from './scaling/plan.mjs';

const MODEL = fileURLToPath(new URL('./scaling/model.json', import.meta.url));
const EMBEDDED = { deployment: 'embedded', processes: 1, masters: 0 };
const SMALLEST = { deployment: 'distributed', processes: 1, masters: 1 };
/** Where calls of a turn do not share a command (decision 0063). */
const SMALLEST_CLUSTER = { deployment: 'distributed', processes: 1, masters: 2 };
const MODELLED = { embedded: EMBEDDED, distributed: SMALLEST, cluster: SMALLEST_CLUSTER };
const TOPOLOGIES = [
  EMBEDDED,
  ...[
    [1, 1],
    [2, 1],
    [3, 1],
    [1, 2],
    [1, 3],
    [3, 3],
  ].map(([processes, masters]) => ({ ...SMALLEST, processes, masters })),
];
const MOST_OFF = 0.2;

const [first, second] = process.argv.slice(3);

if (first === 'model') await renewModel();
else if (first === 'plan') console.log(planFor(Number(second), await readModel()));
else await compare(chosen());
process.exit();

function chosen() {
  if (!first) return TOPOLOGIES;
  return [first === 'embedded' ? EMBEDDED : { ...SMALLEST, processes: Number(first), masters: Number(second ?? 1) }];
}

async function readModel() {
  return JSON.parse(await readFile(MODEL, 'utf8'));
}

async function renewModel() {
  const model = { at: new Date().toISOString() };
  for (const [kind, topology] of Object.entries(MODELLED)) model[kind] = await measureTopology(topology);
  await writeFile(MODEL, `${JSON.stringify(model, roundedNumber, 2)}\n`);
  for (const [kind, topology] of Object.entries(MODELLED)) print(topology, model[kind].costs, () => '');
}

async function compare(topologies) {
  const model = await readModel();
  let [cells, off] = [0, 0];
  for (const topology of topologies) {
    const kind = topology.masters > 1 ? 'cluster' : topology.deployment;
    const now = topology === EMBEDDED ? undefined : await measureTopology(MODELLED[kind]);
    const expected = withCpuOf(now?.costs, model[kind].costs);
    const { costs } = await measureTopology(topology);
    print(topology, costs, (operation, cell, value) => {
      cells += 1;
      if (!isOff(value, expected[operation][cell], CELLS[cell].least)) return '';
      off += 1;
      return ` (not ${shown(expected[operation][cell])})`;
    });
  }
  console.log(
    `\n${off} of ${cells} cells are off by more than ${MOST_OFF * 100} %; they show what was expected as well.`,
  );
  if (off > 0) process.exitCode = 1;
}

/** CPU times as the smallest topology has them in the same minutes: what else the machine does changes all of them. */
function withCpuOf(measured, costs) {
  if (!measured) return costs;
  return Object.fromEntries(
    Object.entries(costs).map(([operation, cells]) => {
      const cpu = Object.entries(measured[operation]).filter(([cell]) => cell.endsWith('Us'));
      return [operation, { ...cells, ...Object.fromEntries(cpu) }];
    }),
  );
}

/** Differences below `least` are those of the measuring. */
function isOff(value, expected, least) {
  return Math.abs(value - expected) > Math.max(least, MOST_OFF * expected);
}

function print({ deployment, processes, masters }, costs, remark) {
  console.log(`\n${deployment}, ${processes} processes, ${masters} Redis masters: for each operation\n`);
  const cells = Object.keys(Object.values(costs)[0]);
  const table = markdownTable(
    ['operation', ...cells.map((cell) => CELLS[cell].head)],
    Object.entries(costs).map(([operation, values]) => [
      operation,
      ...cells.map((cell) => `${shown(values[cell])}${remark(operation, cell, values[cell])}`),
    ]),
  );
  console.log(table);
}

function shown(value) {
  return String(Number(value.toFixed(Math.abs(value) < 10 ? 2 : 0)));
}

function roundedNumber(_name, value) {
  return typeof value === 'number' ? Number(value.toPrecision(4)) : value;
}
