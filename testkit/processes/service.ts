import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { SERVICE } from '../programs.js';

/** How long a start may take before the test gives up on it: far longer than any real start, on a loaded machine too. */
const START_DEADLINE_MS = 20_000;
const STOP_DEADLINE_MS = 20_000;

export interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface LogLine {
  level: number;
  msg?: string;
  [field: string]: unknown;
}

/** A process of the built service, as a user runs it, on a free port of 127.0.0.1. */
export interface Service {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  readonly logs: readonly LogLine[];
  /** Resolves when the process has ended, however it ended. */
  readonly ended: Promise<Exit>;
  signal(name: NodeJS.Signals): void;
  /** SIGTERM, and the exit. */
  stop(): Promise<Exit>;
  /** SIGKILL: nothing of the process runs any more when this resolves. */
  kill(): Promise<Exit>;
}

type Environment = Readonly<Record<string, string>>;

/** `launcher` is a command that becomes the program named after it, such as `nsenter`: the process id stays the service's. */
export function startService(environment: Environment, launcher: readonly string[] = []): Promise<Service> {
  return startProgram(SERVICE, { HOST: '127.0.0.1', PORT: '0', ...environment }, launcher);
}

/** Waits until the program logs that it listens. Throws with its whole output when it ends before that. */
export async function startProgram(
  program: string,
  environment: Environment,
  launcher: readonly string[] = [],
): Promise<Service> {
  const child = spawnProgram(program, environment, launcher);
  const logs: LogLine[] = [];
  const output: string[] = [];
  const ended = exitOf(child);

  const listening = new Promise<number>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) continue;
      createInterface({ input: stream }).on('line', (line) => {
        output.push(line);
        const parsed = parseLog(line);
        if (!parsed) return;
        logs.push(parsed);
        if (parsed.msg === 'listening') resolve(parsed.port as number);
      });
    }
  });
  const early = ended.then((exit) => {
    throw new Error(`ended before it listened: ${JSON.stringify(exit)}\n${output.join('\n')}`);
  });
  const late = rejectAfter(START_DEADLINE_MS, () => `did not listen in time\n${output.join('\n')}`);
  const port = await Promise.race([listening, early, late]).catch((error: unknown) => {
    child.kill('SIGKILL');
    throw error;
  });

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    pid: child.pid as number,
    logs,
    ended,
    signal: (name) => child.kill(name),
    stop() {
      child.kill('SIGTERM');
      return Promise.race([ended, rejectAfter(STOP_DEADLINE_MS, () => 'did not end after SIGTERM')]);
    },
    kill() {
      child.kill('SIGKILL');
      return ended;
    },
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
  const child = spawnProgram(SERVICE, { HOST: '127.0.0.1', PORT: '0', ...environment }, [], parameters);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      output += chunk;
      if (signalAfter?.test(output)) child.kill('SIGTERM');
    });
  }
  const deadline = setTimeout(() => child.kill('SIGKILL'), START_DEADLINE_MS);
  const exit = await exitOf(child);
  clearTimeout(deadline);
  return { ...exit, output };
}

function spawnProgram(
  program: string,
  environment: Environment,
  launcher: readonly string[],
  parameters: readonly string[] = [],
): ChildProcess {
  const [command = process.execPath, ...args] = [...launcher, process.execPath, program, ...parameters];
  return spawn(command, args, { env: { PATH: process.env.PATH, ...environment }, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function exitOf(child: ChildProcess): Promise<Exit> {
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal };
}

function parseLog(line: string): LogLine | undefined {
  try {
    return JSON.parse(line) as LogLine;
  } catch {
    return undefined;
  }
}

function rejectAfter(ms: number, message: () => string): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(message())), ms).unref();
  });
}
