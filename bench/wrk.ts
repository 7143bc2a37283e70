// Runs wrk, the load generator: a process of its own, so that its CPU time is not counted as the service's.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ROOT } from '../testkit/programs.js';

const run = promisify(execFile);
/** One thread of wrk saturates the service from one core; more would only take the other core from it. */
const THREADS = '1';

export interface Load {
  /** File in `bench/scripts`. */
  readonly script: string;
  /** For the script. */
  readonly args?: readonly string[];
  /** For scripts that do not build their own requests. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Extent {
  readonly seconds: number;
  readonly connections: number;
}

export interface WrkResult {
  readonly requests: number;
  readonly requestsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Tokens that the script handed out or collected. */
  readonly used: number;
}

/** The line of `scripts/report.lua`. */
interface Report extends Readonly<Record<'requests' | 'durationUs' | 'p50Us' | 'p99Us' | 'used', number>> {
  readonly errors: Readonly<Record<string, number>>;
}

/** Throws a sentence when wrk is missing. */
export async function requireWrk(): Promise<void> {
  try {
    // With this parameter wrk prints its usage and fails; only its absence is a problem.
    await run('wrk', ['-v']);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') return;
    throw new Error('The benchmark needs wrk on the PATH: apt-get install wrk', { cause });
  }
}

/** One run against one server. Throws when any request failed: a rate of errors is no rate. */
export async function runWrk(url: string, load: Load, { seconds, connections }: Extent): Promise<WrkResult> {
  const { script, args = [], path = '/', headers = {} } = load;
  const headerOptions = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const { stdout } = await run('wrk', [
    ...['-t', THREADS, '-c', String(connections), '-d', `${seconds}s`, '--timeout', '10s'],
    ...headerOptions,
    ...['-s', join(ROOT, 'bench', 'scripts', script), `${url}${path}`],
    ...['--', ...args],
  ]);
  const line = /^BENCH (.*)$/m.exec(stdout)?.[1];
  if (!line) throw new Error(`wrk reported nothing:\n${stdout}`);
  const { requests, durationUs, p50Us, p99Us, used, errors } = JSON.parse(line) as Report;
  if (Object.values(errors).some((count) => count > 0)) {
    throw new Error(`requests to ${url} failed in ${script} ${args.slice(0, 2).join(' ')}: ${JSON.stringify(errors)}`);
  }
  return {
    requests,
    requestsPerSecond: requests / (durationUs / 1e6),
    p50Ms: p50Us / 1000,
    p99Ms: p99Us / 1000,
    used,
  };
}
