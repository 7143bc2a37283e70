// `npm run bench -- scaling`: what an operation costs each part of the deployment, and whether that is still so with more
// processes and more Redis masters. docs/engineering/scaling.md plans with these figures.
//
//   npm run bench -- scaling               every topology next to the model; ends with 1 if a cell is off by more than a fifth.
//                                          CPU times are compared with the smallest topology of its kind, measured just before
//   npm run bench -- scaling 3 2           three processes, two masters
//   npm run bench -- scaling embedded      the embedded deployment
//   npm run bench -- scaling plan 1000     what this number of payments a second needs, by the model
//   npm run bench -- scaling model         measures the model anew: embedded, one process with one master, and with a Cluster
//
// Each process has 32 connections that are never idle, so its batches are as large with many processes as with one. The cost without any
// request is measured first, and taken off.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Opened } from '../testkit/opened.js';
import { ROOT } from '../testkit/programs.js';
import type { Options } from './options.js';
import { commitOfThisTree } from './results.js';
import {
  CELLS,
  type CellName,
  type Cells,
  type Costs,
  type Model,
  measureTopology,
  type Shape,
} from './scaling/measures.js';
import { planFor } from './scaling/plan.js';
import { roundedTable } from './statistics.js';

const MODEL = join(ROOT, 'bench', 'scaling', 'model.json');
const distributed = (processes: number, masters: number): Shape => ({ deployment: 'distributed', processes, masters });
const EMBEDDED: Shape = { deployment: 'embedded', processes: 1, masters: 0 };
/** In a Cluster calls of a turn do not share a command (decision 0063). */
const MODELLED = { embedded: EMBEDDED, distributed: distributed(1, 1), cluster: distributed(1, 2) };
const TOPOLOGIES = [
  EMBEDDED,
  distributed(1, 1),
  distributed(2, 1),
  distributed(3, 1),
  distributed(1, 2),
  distributed(1, 3),
  distributed(3, 3),
];
const MOST_OFF = 0.2;

export async function measureScaling(options: Options, opened: Opened, parameters: readonly string[]): Promise<void> {
  const [first, second = '1'] = parameters;
  if (first === 'model') return renewModel(opened, options);
  if (first === 'plan') return console.log(planFor(Number(second), await readModel()));
  if (first !== undefined) {
    await compare(opened, [first === 'embedded' ? EMBEDDED : distributed(Number(first), Number(second))], options);
    return;
  }
  if ((await compare(opened, TOPOLOGIES, options)) > 0) process.exitCode = 1;
}

async function readModel(): Promise<Model> {
  return JSON.parse(await readFile(MODEL, 'utf8')) as Model;
}

async function renewModel(opened: Opened, options: Options): Promise<void> {
  const model: Record<string, unknown> = { at: new Date().toISOString(), commit: commitOfThisTree() };
  for (const [kind, shape] of Object.entries(MODELLED)) {
    const measured = await measureTopology(opened, shape, options);
    model[kind] = measured;
    print(shape, measured.costs, () => '');
  }
  const rounded = (_name: string, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(4)) : value);
  await writeFile(MODEL, `${JSON.stringify(model, rounded, 2)}\n`);
}

/** Prints the topologies, and returns how many cells are off. */
async function compare(opened: Opened, shapes: readonly Shape[], options: Options): Promise<number> {
  const model = await readModel();
  let [cells, off] = [0, 0];
  for (const shape of shapes) {
    const kind = shape.masters > 1 ? 'cluster' : shape.deployment;
    const now = shape === EMBEDDED ? undefined : await measureTopology(opened, MODELLED[kind], options);
    const expected = now ? withCpuOf(now.costs, model[kind].costs) : model[kind].costs;
    const { costs } = await measureTopology(opened, shape, options);
    print(shape, costs, (operation, cell, value) => {
      const wanted = expected[operation]?.[cell] ?? 0;
      cells += 1;
      if (!isOff(value, wanted, CELLS[cell].least)) return '';
      off += 1;
      return ` (not ${shown(wanted)})`;
    });
  }
  const most = MOST_OFF * 100;
  console.log(`\n${off} of ${cells} cells are off by more than ${most} %; they show what was expected as well.`);
  return off;
}

/** CPU times as the smallest topology has them in the same minutes: what else the machine does changes all of them. */
function withCpuOf(measured: Costs, costs: Costs): Costs {
  return Object.fromEntries(
    Object.entries(costs).map(([operation, cells]): [string, Cells] => {
      const cpu = Object.entries(measured[operation] ?? {}).filter(([cell]) => cell.endsWith('Us'));
      return [operation, { ...cells, ...Object.fromEntries(cpu) }];
    }),
  );
}

/** Differences below `least` come from the measuring. */
function isOff(value: number, expected: number, least: number): boolean {
  return Math.abs(value - expected) > Math.max(least, MOST_OFF * expected);
}

type Remark = (operation: string, cell: CellName, value: number) => string;

function print({ deployment, processes, masters }: Shape, costs: Costs, remark: Remark): void {
  console.log(`\n${deployment}, ${processes} processes, ${masters} Redis masters: for each operation\n`);
  const cells = Object.keys(Object.values(costs)[0] ?? {}) as CellName[];
  const table = roundedTable(
    ['operation', ...cells.map((cell) => CELLS[cell].head)],
    Object.entries(costs).map(([operation, values]) => [
      operation,
      ...cells.map((cell) => `${shown(values[cell] ?? 0)}${remark(operation, cell, values[cell] ?? 0)}`),
    ]),
  );
  console.log(table);
}

function shown(value: number): string {
  return String(Number(value.toFixed(Math.abs(value) < 10 ? 2 : 0)));
}
