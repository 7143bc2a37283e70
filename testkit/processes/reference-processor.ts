import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { decorated } from '#idempay/platform/decorated.js';
import type { Behaviour } from '#idempay/reference-processor/behaviour.js';
import {
  type ChargeLine,
  isRefundLine,
  type LogLine,
  openChargeLog,
  type RefundLine,
} from '#idempay/reference-processor/charge-log.js';
import { createCharges } from '#idempay/reference-processor/charges.js';
import { createRefunds } from '#idempay/reference-processor/refunds.js';
import { createServer } from '#idempay/reference-processor/server.js';
import { readSettings } from '#idempay/reference-processor/settings.js';
import { type Answer, type Ask, ask } from '../client/http-client.js';
import { gate } from '../concurrency.js';
import { REFERENCE_PROCESSOR } from '../programs.js';
import { freePort } from '../servers/server-process.js';
import { type Environment, startProgram } from './service.js';

export type { Behaviour, ChargeLine };

interface Options {
  readonly port?: number;
  readonly behaviour?: Partial<Behaviour>;
  readonly environment?: Environment;
}

export type ProcessorInProcess = Awaited<ReturnType<typeof manage>>['processor'];
export type ReferenceProcessor = Awaited<ReturnType<typeof startReferenceProcessor>>;

/** The reference processor in the process of the test, on a port of 127.0.0.1 that stays the same through restarts. */
export async function serveReferenceProcessor(options: Options = {}) {
  const { processor, running } = await manage(options, serve);
  return {
    ...processor,
    /** Connections are cut, and what was at work goes on, as if the network had failed. */
    cut: () => running().cut(),
    /** Charges are made and logged from now on, and their replies wait for the call of what it returns. */
    holdReplies: () => running().holdReplies(),
  };
}

/**
 * The reference processor as a process of its own, for tests that signal it, kill it or look at its exit. Throws with its
 * exit and output when it ends before it listens.
 */
export async function startReferenceProcessor(options: Options = {}) {
  const start = (environment: Environment) => startProgram(REFERENCE_PROCESSOR, environment);
  const { processor, running } = await manage(options, start);
  return {
    ...processor,
    get pid() {
      return running().pid;
    },
    get ended() {
      return running().ended;
    },
    stop: () => running().stop(),
    /** SIGSTOP: it takes connections, as the kernel does that, and answers nothing. */
    pause: () => running().signal('SIGSTOP'),
    resume: () => running().signal('SIGCONT'),
  };
}

/** In memory, if the machine has such a folder: a charge must not wait for a disk that other tests keep busy. It outlives the process. */
const LOGS = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

async function manage<Running extends { kill(): Promise<unknown> }>(
  options: Options,
  start: (environment: Environment) => Promise<Running>,
) {
  const folder = await mkdtemp(join(LOGS, 'idempay-processor-'));
  const chargeLog = join(folder, 'charges.ndjson');
  const port = options.port || (await freePort());
  const url = `http://127.0.0.1:${port}`;
  let behaviour = options.behaviour ?? {};
  const startAgain = () =>
    start({ PROCESSOR_PORT: `${port}`, CHARGE_LOG: chargeLog, ...variablesOf(behaviour), ...options.environment });
  const removeFolder = () => rm(folder, { recursive: true, force: true });

  const charges = async (): Promise<ChargeLine[]> =>
    (await readChargeLog(chargeLog)).flatMap((line) => (isRefundLine(line) || line.status === 'pending' ? [] : [line]));

  let running = await startAgain().catch(async (error: unknown) => {
    await removeFolder();
    throw error;
  });
  const processor = {
    url,
    port,
    chargeLog,
    async behave(patch: Partial<Behaviour>) {
      const answer = await changeBehaviour(url, patch);
      if (answer.status !== 200) throw new Error(`PATCH /behaviour answered ${answer.status}: ${answer.text}`);
      behaviour = { ...behaviour, ...patch };
    },
    /** The charges in the log file that have an outcome, in the order of their outcomes: the evidence of all charges. */
    charges,
    chargesOf: async (key: string) => (await charges()).filter(({ reference }) => reference === key),
    /** The lines of the log about refunds, in their order. */
    refunds: async (): Promise<RefundLine[]> => (await readChargeLog(chargeLog)).filter(isRefundLine),
    /** The refunds of a charge that have an outcome. */
    refundsOf: async (key: string) =>
      (await readChargeLog(chargeLog))
        .filter(isRefundLine)
        .filter(({ charge, status }) => charge === key && status !== 'pending'),
    /** All lines of the log about a charge or a refund: a pending one has another with its outcome. */
    linesOf: async (key: string) => (await readChargeLog(chargeLog)).filter(({ reference }) => reference === key),
    /** Connections are cut, nobody listens, and what was at work is never charged. */
    async kill() {
      await running.kill();
    },
    /** Starts it again with the same port and log, and the behaviour it had, changed by the patch. Kills it if it runs. */
    async restart(patch: Partial<Behaviour> = {}) {
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

async function serve(environment: Environment) {
  const { host, port, chargeLog, behaviour } = readSettings(environment);
  const log = await openChargeLog(chargeLog);
  let killed = false;
  const mortal = decorated(log, {
    // A process that was killed writes nothing more.
    append: (next) => (line) => (killed ? new Promise<void>(() => {}) : next(line)),
  });
  let replies = Promise.resolve();
  const charges = decorated(createCharges(mortal, Math.random), {
    charge:
      (next) =>
      async (...charge) => {
        const held = replies;
        const result = await next(...charge);
        await held;
        return result;
      },
  });
  const refunds = createRefunds(mortal, charges, Math.random);
  const app = createServer({ charges, refunds }, behaviour, Math.random, pino({ level: 'silent' }));
  await app.listen({ host, port });
  return {
    cut: () => app.server.closeAllConnections(),
    holdReplies() {
      const { opened, open } = gate();
      replies = opened;
      return () => {
        replies = Promise.resolve();
        open();
      };
    },
    async kill() {
      killed = true;
      if (!app.server.listening) return;
      const closed = once(app.server, 'close');
      app.server.close();
      app.server.closeAllConnections();
      await closed;
      await log.close();
    },
  };
}

/** A last line without its end does not count. */
async function readChargeLog(path: string): Promise<(LogLine | RefundLine)[]> {
  const lines = (await readFile(path, 'utf8')).split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as LogLine | RefundLine);
}

function variablesOf(behaviour: Partial<Behaviour>): Environment {
  const nameOf = (member: string) => `PROCESSOR_${member.replace(/[A-Z]/g, '_$&').toUpperCase()}`;
  return Object.fromEntries(Object.entries(behaviour).map(([member, value]) => [nameOf(member), `${value}`]));
}

export const USUAL_CHARGE = { transactionId: 'TXN1795170621886000522918', amount: '100.50', currency: 'USD' };

/** `POST /charges`, as Idempay sends it; `body` is sent as JSON text unless it is a string already. */
export function sendCharge(url: string, reference: string, body: unknown = USUAL_CHARGE, more: Ask = {}) {
  return ask(`${url}/charges`, {
    ...more,
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': reference },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** `POST /refunds`, as Idempay sends it. */
export function sendRefund(url: string, reference: string, body: unknown) {
  return ask(`${url}/refunds`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': reference },
    body: JSON.stringify(body),
  });
}

export const lookUpRefund = (url: string, reference: string, charge: string) =>
  ask(`${url}/refunds/${encodeURIComponent(reference)}?charge=${encodeURIComponent(charge)}`);

export const lookUpCharge = (url: string, reference: string, more: Ask = {}) =>
  ask(`${url}/charges/${encodeURIComponent(reference)}`, more);

/** `PATCH /behaviour`, on a connection of its own: one that is kept may be to a process that was killed. */
export function changeBehaviour(url: string, patch: unknown): Promise<Answer> {
  return ask(`${url}/behaviour`, {
    method: 'PATCH',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(patch),
    agent: new Agent(),
  });
}
