import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Behaviour } from '#idempay/reference-processor/behaviour.js';
import { type ChargeLine, openChargeLog } from '#idempay/reference-processor/charge-log.js';
import { createCharges } from '#idempay/reference-processor/charges.js';
import { createServer } from '#idempay/reference-processor/server.js';
import { readSettings } from '#idempay/reference-processor/settings.js';
import { type Answer, type Ask, ask } from '../client/http-client.js';
import { REFERENCE_PROCESSOR } from '../programs.js';
import { type Exit, startProgram } from './service.js';

export type { Behaviour, ChargeLine };

const LOG_NAME = 'charges.ndjson';

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

type Environment = Readonly<Record<string, string>>;

interface Options {
  readonly port?: number;
  readonly behaviour?: Partial<Behaviour>;
}

/** The reference processor in the process of the test, on a port of 127.0.0.1 that stays the same through restarts. */
export interface ProcessorInProcess {
  readonly url: string;
  readonly port: number;
  /** Path of the charge log. */
  readonly chargeLog: string;
  /** Changes the behaviour from now on, also after a restart. */
  behave(patch: Partial<Behaviour>): Promise<void>;
  /** What the log file holds, in order: the evidence of what was charged. A torn last line does not count. */
  charges(): Promise<ChargeLine[]>;
  /** Those of one idempotency key. */
  chargesOf(key: string): Promise<ChargeLine[]>;
  /** Connections are cut, nobody listens, and what was at work is never charged. */
  kill(): Promise<unknown>;
  /** Starts it again with the same port and log, and the behaviour it had, changed by the patch. Kills it if it runs. */
  restart(patch?: Partial<Behaviour>): Promise<void>;
  /** Kills it, paused or not, and removes its temporary folder. */
  close(): Promise<void>;
}

/** The reference processor as a process of its own, for tests that signal it, kill it or look at its exit. */
export interface ReferenceProcessor extends ProcessorInProcess {
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** Resolves when the process that runs, or ran last, has ended, however it ended. */
  readonly ended: Promise<Exit>;
  /** SIGTERM, and the exit. */
  stop(): Promise<Exit>;
  /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
  pause(): void;
  resume(): void;
}

export async function serveReferenceProcessor(options: Options = {}): Promise<ProcessorInProcess> {
  const { processor } = await manage(options, serve);
  return processor;
}

/** Throws with its exit and output when it ends before it listens. `environment` wins over everything else. */
export async function startReferenceProcessor(
  options: Options & { readonly environment?: Environment; readonly launcher?: readonly string[] } = {},
): Promise<ReferenceProcessor> {
  const { processor, running } = await manage(options, (environment) =>
    startProgram(REFERENCE_PROCESSOR, { ...environment, ...options.environment }, options.launcher),
  );
  return {
    ...processor,
    get pid() {
      return running().pid;
    },
    get ended() {
      return running().ended;
    },
    stop: () => running().stop(),
    pause: () => running().signal('SIGSTOP'),
    resume: () => running().signal('SIGCONT'),
  };
}

async function manage<Running extends { kill(): Promise<unknown> }>(
  options: Options,
  start: (environment: Environment) => Promise<Running>,
): Promise<{ processor: ProcessorInProcess; running(): Running }> {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-processor-'));
  const chargeLog = join(folder, LOG_NAME);
  const port = options.port || (await portOutOfTheWay());
  const url = `http://127.0.0.1:${port}`;
  let behaviour: Partial<Behaviour> = { ...options.behaviour };
  const startAgain = () => start({ PROCESSOR_PORT: `${port}`, CHARGE_LOG: chargeLog, ...variablesOf(behaviour) });
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  const charges = () => readChargeLog(chargeLog);

  let running = await startAgain().catch(async (error: unknown) => {
    await removeFolder();
    throw error;
  });
  const processor: ProcessorInProcess = {
    url,
    port,
    chargeLog,
    async behave(patch) {
      const answer = await changeBehaviour(url, patch);
      if (answer.status !== 200) throw new Error(`PATCH /behaviour answered ${answer.status}: ${answer.text}`);
      behaviour = { ...behaviour, ...patch };
    },
    charges,
    chargesOf: async (key) => (await charges()).filter((line) => line.reference === key),
    kill: () => running.kill(),
    async restart(patch = {}) {
      await running.kill();
      behaviour = { ...behaviour, ...patch };
      running = await startAgain();
    },
    async close() {
      await running.kill();
      await removeFolder();
    },
  };
  return { processor, running: () => running };
}

/** As `reference-processor/main.ts` does. */
async function serve(environment: Environment): Promise<{ kill(): Promise<unknown> }> {
  const { host, port, chargeLog, behaviour } = readSettings(environment);
  const log = await openChargeLog(chargeLog);
  let killed = false;
  // A process that was killed writes nothing more.
  const append = (line: ChargeLine) => (killed ? new Promise<void>(() => {}) : log.append(line));
  const charges = createCharges({ ...log, append }, Math.random);
  const app = createServer(charges, behaviour, Math.random, pino({ level: 'silent' }));
  await app.listen({ host, port });
  return {
    kill() {
      killed = true;
      if (!app.server.listening) return Promise.resolve();
      const closed = once(app.server, 'close');
      app.server.close();
      app.server.closeAllConnections();
      return closed;
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
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': reference, ...more.headers },
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
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(patch),
    agent: new Agent(),
  });
}

function variablesOf(behaviour: Partial<Behaviour>): Record<string, string> {
  const members = Object.entries(behaviour) as [keyof Behaviour, unknown][];
  return Object.fromEntries(members.map(([member, value]) => [VARIABLES[member], `${value}`]));
}

/** A port that nobody listens on at this moment. */
export async function portOutOfTheWay(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const probe = createTcpServer().listen(port, '127.0.0.1');
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
