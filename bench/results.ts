// Files of results: one for each run, not in the repository. `npm run bench -- document` reads them.
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../testkit/programs.js';
import type { Costs } from './costs.js';
import { DEPLOYMENTS, type Deployment } from './options.js';
import type { WrkResult } from './wrk.js';

const FOLDER = join('bench', 'results');

export type Kind = 'rates' | 'latency' | 'soak' | 'growth';

export interface Row {
  readonly name: string;
  /** ISO 8601. */
  readonly measuredAt: string;
  /** The version that was measured; written with the results. */
  readonly commit?: string;
}

/** The results of one server in one round. */
export type Answered = WrkResult & { readonly processors: number; readonly costs: Costs };

/** The results of each server in one round. */
export type Round = { readonly ours: Answered; readonly bare: Answered } & Readonly<Record<string, Answered>>;

export interface RateRow extends Row {
  readonly connections: number;
  readonly seconds: number;
  readonly rounds: readonly Round[];
}

export type Latencies = Readonly<Record<'p50Ms' | 'p99Ms' | 'p999Ms', number>>;

export interface LatencyRow extends Row {
  readonly kind: 'first payment' | 'repeat';
  /** The part of the capacity that was sent: `half` or `80 %`. */
  readonly part: string;
  readonly seconds: number;
  readonly rounds: LatencyRound[];
}

export interface LatencyRound {
  readonly rate: number;
  readonly ours: Latencies;
  readonly before?: Latencies;
  readonly bareP99Ms: number;
}

export interface Run<R extends Row> {
  readonly kind: Kind;
  readonly deployment: Deployment;
  readonly rows: readonly R[];
}

export type SavedRun<R extends Row> = Run<R> & {
  readonly machine: Readonly<{ node: string; processor?: string; processors: number }>;
};

/**
 * May be called after each row with the same `startedAt`, so that a run that is cut short leaves what it has measured.
 * Returns the file, relative to the repository.
 */
export async function writeResults<R extends Row>(run: Run<R>, startedAt = new Date()): Promise<string> {
  await mkdir(join(ROOT, FOLDER), { recursive: true });
  const name = join(FOLDER, `${startedAt.toISOString().replaceAll(':', '-')}-${run.kind}-${run.deployment}.json`);
  const machine = { node: process.version, processor: cpus()[0]?.model, processors: availableParallelism() };
  const commit = commitOfThisTree();
  const rows = run.rows.map((row) => ({ commit, ...row }));
  await writeFile(join(ROOT, name), `${JSON.stringify({ ...run, rows, startedAt, machine }, null, 2)}\n`);
  return name;
}

/** The abbreviated commit of the sources, followed by `-changed` if they differ from it. */
export function commitOfThisTree(): string {
  return git('describe', '--always', '--abbrev=8', '--exclude=*', '--dirty=-changed');
}

export function git(...parameters: readonly string[]): string {
  return execFileSync('git', parameters, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

/** The newest result of each row of each deployment, because a run may be made in pieces. A row that is not whole does not count. */
export async function newestResults<R extends Row>(
  kind: Kind,
  isWhole: (row: R) => boolean,
): Promise<readonly SavedRun<R>[]> {
  const found = await readdir(join(ROOT, FOLDER)).catch(() => []);
  const byDeployment = new Map<Deployment, SavedRun<R>>();
  for (const name of found.filter((each) => each.endsWith(`.json`)).toSorted()) {
    const saved = JSON.parse(await readFile(join(ROOT, FOLDER, name), 'utf8')) as SavedRun<R>;
    if (saved.kind !== kind) continue;
    const older = byDeployment.get(saved.deployment)?.rows ?? [];
    // A newer row takes the place of the older one.
    const rows = new Map([...older, ...saved.rows.filter(isWhole)].map((row) => [row.name, row]));
    byDeployment.set(saved.deployment, { ...saved, rows: [...rows.values()] });
  }
  return DEPLOYMENTS.map((deployment) => byDeployment.get(deployment)).filter(
    (run): run is SavedRun<R> => run !== undefined && run.rows.length > 0,
  );
}
