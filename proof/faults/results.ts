import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Violation } from '../../testkit/history/history.js';
import type { DeploymentName } from './run.js';
import type { Tally } from './tally.js';

/** Of the machine that ran it, beside the repository's own files and ignored by it. */
const FOLDER = join('proof', 'results');
const RESULTS = join(FOLDER, 'faults.ndjson');

/** What a run needs to be gone on with, and what is kept of one that has ended. */
export interface RunRecord {
  readonly deployment: DeploymentName;
  readonly seed: number;
  readonly minutes: number;
  readonly startedAt: string;
  readonly tally: Tally;
}

export function saveState(record: RunRecord): void {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(stateFile(record.deployment), JSON.stringify(record));
}

/** Of the run of this deployment that was interrupted last. */
export function readState(deployment: DeploymentName): RunRecord | undefined {
  const file = stateFile(deployment);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as RunRecord) : undefined;
}

export function removeState(deployment: DeploymentName): void {
  rmSync(stateFile(deployment), { force: true });
}

/** Appends one line; the file is never rewritten. */
export function appendResult(record: RunRecord, complete: boolean): string {
  mkdirSync(FOLDER, { recursive: true });
  const line = { ...record, endedAt: new Date().toISOString(), complete, commit: commit(), node: process.version };
  appendFileSync(RESULTS, `${JSON.stringify(line)}\n`);
  return RESULTS;
}

/** Each violation with its whole history. */
export function writeViolations({ deployment, seed }: RunRecord, violations: readonly Violation[]): string {
  mkdirSync(FOLDER, { recursive: true });
  const file = join(FOLDER, `violations-${deployment}-${seed}-${Date.now()}.ndjson`);
  writeFileSync(file, violations.map((violation) => `${JSON.stringify(violation)}\n`).join(''));
  return file;
}

function stateFile(deployment: DeploymentName): string {
  return join(FOLDER, `faults-${deployment}.state.json`);
}

function commit(): string | undefined {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}
