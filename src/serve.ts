import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { KeyFileError } from './access/api-keys.js';
import { createApp } from './app.js';
import { ConfigError, type DeploymentSettings, doubtsAbout, readConfig } from './config.js';
import { CertificateError } from './http/connections/certificate-files.js';
import { CONNECTION_LIMITS } from './http/connections/connection-limits.js';
import { createListener } from './http/connections/listener.js';
import { reasonOf, StoreUnavailable } from './platform/faults.js';
import { createLogger, endProcess } from './platform/logger.js';
import { isOpenToOthers } from './platform/loopback.js';
import { VERSION } from './platform/version.js';
import { databaseName } from './stores/postgres/connection/url.js';
import { redisName } from './stores/redis/connection/url.js';
import { CannotOpen } from './stores/shared/deployment.js';
import { openTraces, TracesNotInstalled } from './traces/open.js';
import { WebhooksFileError } from './webhooks/endpoint-file.js';

/** A process group gets a signal twice: from the terminal and from npm (rule G4). */
const SAME_SIGNAL_MS = 2_000;
/** Long enough to write the answers to waiting requests, short enough that nothing new is tried on a broken store. */
const BROKEN_DRAIN_MS = 1_000;

/** Their messages are sentences for the person who started it. */
const START_REFUSALS = [ConfigError, CannotOpen, KeyFileError, WebhooksFileError, CertificateError, TracesNotInstalled];

/** Serves until a signal, and ends the process: with 0 after a drain, with 1 and a sentence when it cannot serve. */
export async function serve(): Promise<void> {
  try {
    await serveUntilSignal();
  } catch (error) {
    console.error(sentenceFor(error));
    process.exit(1);
  }
}

async function serveUntilSignal(): Promise<void> {
  const config = readConfig(process.env);
  const traces = await openTraces(config.traces, () => logger);
  const logger = await createLogger(config.logLevel, traces?.logFields);
  const stop = stopSignal();
  for (const doubt of doubtsAbout(process.env)) logger.warn(doubt);

  const { access, host, deployment, processor } = config;
  const listener = createListener(logger, config.certificateFiles, {
    ...CONNECTION_LIMITS,
    maxConnections: config.maxConnections,
  });
  const port = await listener.listen(host, config.port);
  logger.info(
    { version: VERSION, host, port, tls: config.certificateFiles !== undefined },
    'starting: only probes are answered',
  );

  // A start may wait for a store; nothing was promised to anybody yet, so a signal may end it anywhere.
  const app = await Promise.race([createApp(config, logger, listener, traces), stop]);
  if (typeof app === 'string') {
    logger.info({ signal: app }, 'ended before the start was complete');
    return endProcess(logger, 0);
  }
  app.broken.then(async (error) => {
    logBroken(logger, error);
    await Promise.race([app.drain(BROKEN_DRAIN_MS).catch(() => {}), delay(2 * BROKEN_DRAIN_MS)]);
    return endProcess(logger, 1);
  });

  await app.serve();
  logger.info({ version: VERSION, host, port, ...nameStores(deployment), processor: app.processorName }, 'listening');
  if (access.kind === 'none') {
    const callers = isOpenToOthers(config) ? 'everybody who reaches the port' : 'every program on this machine';
    logger.warn(`${callers} may do everything: set AUTH=required`);
  }
  if (processor.kind === 'simulated') {
    const advice = processor.isNamed ? '' : ': set PROCESSOR_URL to the processor that moves it';
    logger.warn(`payments are simulated and move no money${advice}`);
  }

  const signal = await stop;
  logger.info({ signal }, 'draining');
  app.endReadiness();
  await delay(config.drainDelayMs);
  await app.drain();
  logger.info('drained');
  return endProcess(logger, 0);
}

function logBroken(logger: Logger, error: Error): void {
  // Another process has made a payment of the other kind since this one started: a new start is refused with the same sentence.
  if (error instanceof CannotOpen) {
    logger.fatal(error.message);
    return;
  }
  // A fault of the disk is expected; anything else that ends the writer thread is a mistake of ours, with its stack.
  const detail = error instanceof StoreUnavailable ? { reason: reasonOf(error) } : { err: error };
  logger.fatal(detail, 'the store is broken; the process ends, and a new start recovers');
}

/** For the log: the places of all stores, without user and password. */
function nameStores(deployment: DeploymentSettings): Readonly<Record<string, string>> {
  switch (deployment.kind) {
    case 'embedded':
      return { deployment: deployment.kind, dataDir: resolve(deployment.dataDir) };
    case 'distributed': {
      const { kind, redis, databaseUrl } = deployment;
      return { deployment: kind, redis: redisName(redis), database: databaseName(databaseUrl) };
    }
  }
}

/** Resolves at the first SIGTERM or SIGINT. A later one, when it is not the same again, ends the process at once. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((end) => {
    let firstAt: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (firstAt !== undefined && performance.now() - firstAt > SAME_SIGNAL_MS) process.exit(1);
        firstAt ??= performance.now();
        end(signal);
      });
    }
  });
}

function sentenceFor(error: unknown): string {
  if (START_REFUSALS.some((refusal) => error instanceof refusal)) return (error as Error).message;
  const { code, message, stack } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return `The port is in use (${message}). Stop what listens there, or set another PORT.`;
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `HOST and PORT cannot be listened on (${message}). Set others.`;
  }
  return stack ?? String(error);
}
