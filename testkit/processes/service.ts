import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { SERVICE } from '../programs.js';
import { patience } from '../time/patience.js';

/** A start that takes longer is killed. */
const START_DEADLINE_MS = 40_000;

/** A drain that waits for connections takes as long, and then cuts them. */
export const DRAIN_LIMIT_MS = 25_000;

export type Exit = Readonly<{ code: number | null; signal: NodeJS.Signals | null }>;

export interface LogLine {
  level: number;
  msg?: string;
  [field: string]: unknown;
}

/** A process of the built service, as a user runs it, on a free port of 127.0.0.1. */
export type Service = Awaited<ReturnType<typeof startProgram>>;
export type Environment = Readonly<Record<string, string>>;

/** `launcher` is a command that becomes the program named after it, such as `nsenter`: the process id stays the service's. */
export function startService(environment: Environment, launcher: readonly string[] = []): Promise<Service> {
  return startProgram(SERVICE, { HOST: '127.0.0.1', PORT: '0', ...environment }, launcher);
}

export const schemeOf = ({ TLS_CERT_FILE }: Environment) => (TLS_CERT_FILE ? 'https' : 'http');

/** Waits until the program logs that it listens. Throws with its whole output when it ends before that. */
export async function startProgram(program: string, environment: Environment, launcher: readonly string[] = []) {
  const { child, ended } = spawnProgram(program, environment, launcher);
  const logs: LogLine[] = [];
  const output: string[] = [];
  const deadline = setTimeout(() => child.kill('SIGKILL'), patience(START_DEADLINE_MS));
  const port = await new Promise<number>((resolve, reject) => {
    const read = (line: string) => {
      output.push(line);
      const entry = parseLog(line);
      if (entry) logs.push(entry);
      if (entry?.msg === 'listening') resolve(entry.port as number);
    };
    for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', read);
    ended.then((exit) => {
      reject(new Error(`ended before it listened: ${JSON.stringify(exit)}\n${output.join('\n')}`));
    }, reject);
  }).finally(() => clearTimeout(deadline));

  const end = (name: NodeJS.Signals) => {
    child.kill(name);
    return ended;
  };
  return {
    url: `${schemeOf(environment)}://127.0.0.1:${port}`,
    port,
    pid: child.pid as number,
    logs,
    /** All lines that it wrote. */
    output,
    ended,
    signal: (name: NodeJS.Signals): void => void child.kill(name),
    stop: () => end('SIGTERM'),
    /** Nothing of the process runs any more when this resolves. */
    kill: () => end('SIGKILL'),
  };
}

/**
 * Runs the service until it ends by itself; for starts that must be refused. One that is not refused is killed, and one
 * that wrote what `signalAfter` matches gets a SIGTERM.
 */
export async function runToExit(
  environment: Environment,
  { signalAfter, parameters = [] }: { signalAfter?: RegExp; parameters?: readonly string[] } = {},
): Promise<Exit & { output: string }> {
  const usual = { HOST: '127.0.0.1', PORT: '0' };
  const { child, ended } = spawnProgram(SERVICE, { ...usual, ...environment }, [], parameters);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk;
      if (signalAfter?.test(output)) child.kill('SIGTERM');
    });
  }
  const deadline = setTimeout(() => child.kill('SIGKILL'), patience(START_DEADLINE_MS));
  const exit = await ended.finally(() => clearTimeout(deadline));
  return { ...exit, output };
}

export function spawnProgram(
  program: string,
  environment: Readonly<Record<string, string | undefined>>,
  launcher: readonly string[] = [],
  parameters: readonly string[] = [],
) {
  const [command = process.execPath, ...args] = [...launcher, process.execPath, program, ...parameters];
  const env = { PATH: process.env.PATH, ...environment };
  const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close').then(([code, signal]): Exit => ({ code, signal }));
  return { child, ended };
}

function parseLog(line: string): LogLine | undefined {
  try {
    return JSON.parse(line) as LogLine;
  } catch {
    return undefined;
  }
}
