import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Behaviour } from '#idempay/reference-processor/behaviour.js';
import type { ChargeLine } from '#idempay/reference-processor/charge-log.js';
import { type Answer, type Ask, ask } from '../client/http-client.js';
import { REFERENCE_PROCESSOR } from '../programs.js';
import type { Exit } from './service.js';

export type { Behaviour, ChargeLine };

const JSON_TYPE = { 'Content-Type': 'application/json' };
const LOG_NAME = 'charges.ndjson';

/** How long a start may take before the test gives up on it: far longer than any real start, on a loaded machine too. */
const START_DEADLINE_MS = 20_000;
const STOP_DEADLINE_MS = 20_000;

/**
 * Below the ports that the kernel gives to outgoing connections: while the processor is down, a client that keeps trying
 * could else be given the processor's own port, and be connected to itself.
 */
const FIRST_PORT = 20_000;
const PORTS = 12_000;

const VARIABLES: Readonly<Record<keyof Behaviour, string>> = {
  latencyMs: 'PROCESSOR_LATENCY_MS',
  replyLatencyMs: 'PROCESSOR_REPLY_LATENCY_MS',
  declineRate: 'PROCESSOR_DECLINE_RATE',
  failRate: 'PROCESSOR_FAIL_RATE',
  lostReplyRate: 'PROCESSOR_LOST_REPLY_RATE',
  deduplicate: 'PROCESSOR_DEDUPLICATE',
  refuseWith: 'PROCESSOR_REFUSE_WITH',
};

export interface ReferenceProcessorOptions {
  /** Holds the charge log; without it a temporary one, which `close` removes. */
  readonly folder?: string;
  readonly port?: number;
  readonly behaviour?: Partial<Behaviour>;
  /** Further environment variables; these win. */
  readonly environment?: Readonly<Record<string, string>>;
  /** A command that becomes the program named after it: the process id stays the processor's. */
  readonly launcher?: readonly string[];
}

/** The reference processor as a process of its own, on a port of 127.0.0.1 that stays the same through restarts. */
export interface ReferenceProcessor {
  readonly url: string;
  readonly port: number;
  /** Path of the charge log. */
  readonly chargeLog: string;
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** Resolves when the process that runs, or ran last, has ended, however it ended. */
  readonly ended: Promise<Exit>;
  /** Changes the behaviour from now on, also of the processes that `restart` starts. */
  behave(patch: Partial<Behaviour>): Promise<void>;
  /** What the log file holds, in order: the judge of what was charged. A torn last line does not count. */
  charges(): Promise<ChargeLine[]>;
  /** Those of one idempotency key. */
  chargesOf(key: string): Promise<ChargeLine[]>;
  /** SIGKILL: nothing of the process runs any more when this resolves. */
  kill(): Promise<Exit>;
  /** SIGTERM, and the exit. */
  stop(): Promise<Exit>;
  /** Starts it again with the same port and log, and the behaviour it had, changed by the patch. Kills it if it runs. */
  restart(patch?: Partial<Behaviour>): Promise<void>;
  /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
  /** Kills it, paused or not, and removes its temporary folder. */
  close(): Promise<void>;
}

/** Starts the processor and waits until its port is open. Throws with its exit and output when it ends before that. */
export async function startReferenceProcessor(options: ReferenceProcessorOptions = {}): Promise<ReferenceProcessor> {
  const temporary = options.folder === undefined ? await mkdtemp(join(tmpdir(), 'idempay-processor-')) : undefined;
  const chargeLog = join(options.folder ?? (temporary as string), LOG_NAME);
  const port = options.port || (await portOutOfTheWay());
  const url = `http://127.0.0.1:${port}`;
  let behaviour: Partial<Behaviour> = { ...options.behaviour };

  const start = () => {
    const environment = { PROCESSOR_PORT: `${port}`, CHARGE_LOG: chargeLog, ...variablesOf(behaviour) };
    return startProcess({ ...environment, ...options.environment }, options.launcher ?? []);
  };
  const removeFolder = () => (temporary ? rm(temporary, { recursive: true, force: true }) : undefined);
  const charges = () => readChargeLog(chargeLog);

  let running = await start().catch(async (error: unknown) => {
    await removeFolder();
    throw error;
  });
  const kill = () => {
    running.child.kill('SIGKILL');
    return running.ended;
  };

  return {
    url,
    port,
    chargeLog,
    get pid() {
      return running.child.pid as number;
    },
    get ended() {
      return running.ended;
    },
    async behave(patch) {
      const answer = await changeBehaviour(url, patch);
      if (answer.status !== 200) throw new Error(`PATCH /behaviour answered ${answer.status}: ${answer.text}`);
      behaviour = { ...behaviour, ...patch };
    },
    charges,
    chargesOf: async (key) => (await charges()).filter((line) => line.reference === key),
    kill,
    async stop() {
      running.child.kill('SIGTERM');
      const late = rejectAfter(STOP_DEADLINE_MS, () => 'the reference processor did not end after SIGTERM');
      return Promise.race([running.ended, late]);
    },
    async restart(patch = {}) {
      await kill();
      behaviour = { ...behaviour, ...patch };
      running = await start();
    },
    pause: () => {
      running.child.kill('SIGSTOP');
    },
    resume: () => {
      running.child.kill('SIGCONT');
    },
    async close() {
      await kill();
      await removeFolder();
    },
  };
}

/** The lines of a charge log; none when there is no file. A last line without its end does not count. */
export async function readChargeLog(path: string): Promise<ChargeLine[]> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  const lines = text.split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as ChargeLine);
}

export const USUAL_CHARGE = { transactionId: 'TXN1795170621886000522918', amount: '100.50', currency: 'USD' };

/** `POST /charges`, as Idempay sends it; `body` is sent as JSON text unless it is a string already. */
export function sendCharge(
  url: string,
  reference: string,
  body: unknown = USUAL_CHARGE,
  more: Partial<Ask> = {},
): Promise<Answer> {
  return ask(`${url}/charges`, {
    ...more,
    method: 'POST',
    headers: { ...JSON_TYPE, 'Idempotency-Key': reference, ...more.headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** `GET /charges/{reference}`. */
export function lookUpCharge(url: string, reference: string, more: Partial<Ask> = {}): Promise<Answer> {
  return ask(`${url}/charges/${encodeURIComponent(reference)}`, more);
}

/** `PATCH /behaviour`, on a connection of its own: one that is kept may be to a process that was killed. */
export function changeBehaviour(url: string, patch: unknown): Promise<Answer> {
  return ask(`${url}/behaviour`, {
    method: 'PATCH',
    headers: JSON_TYPE,
    body: JSON.stringify(patch),
    agent: new Agent(),
  });
}

interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Exit>;
}

async function startProcess(
  environment: Readonly<Record<string, string>>,
  launcher: readonly string[],
): Promise<Running> {
  const [command = process.execPath, ...args] = [...launcher, process.execPath, REFERENCE_PROCESSOR];
  const child = spawn(command, args, {
    env: { PATH: process.env.PATH, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output: string[] = [];
  const ended = once(child, 'close').then(([code, signal]): Exit => ({ code, signal }));

  const listening = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        output.push(line);
        if (line.includes('"msg":"listening"')) resolve();
      });
    }
  });
  const late = rejectAfter(START_DEADLINE_MS, () => 'the reference processor did not listen in time');
  const early = ended.then((exit) => {
    throw new Error(`the reference processor ended before it listened: ${JSON.stringify(exit)}`);
  });
  try {
    await Promise.race([listening, early, late]);
  } catch (cause) {
    child.kill('SIGKILL');
    throw new Error(`${(cause as Error).message}\n${output.join('\n')}`, { cause });
  }
  return { child, ended };
}

function variablesOf(behaviour: Partial<Behaviour>): Record<string, string> {
  const members = Object.entries(behaviour) as [keyof Behaviour, unknown][];
  return Object.fromEntries(members.map(([member, value]) => [VARIABLES[member], `${value}`]));
}

/** A port that nobody listens on at this moment. */
export async function portOutOfTheWay(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const probe = createServer().listen(port, '127.0.0.1');
    // `once` rejects when an error comes first: the port is in use.
    const isFree = await once(probe, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}

function rejectAfter(ms: number, message: () => string): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(message())), ms).unref();
  });
}
