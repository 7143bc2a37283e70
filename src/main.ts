import { setTimeout as delay } from 'node:timers/promises';
import { createApp } from './app.js';
import { ConfigError, readConfig } from './config.js';
import { CannotOpen } from './deployments/deployment.js';
import { createLogger } from './logger.js';

/** A process group gets a signal twice: from the terminal and from npm (decisions G4). */
const SAME_SIGNAL_MS = 2_000;
/** Long enough to write the answers of what waits, short enough that nothing new is tried on a broken store. */
const BROKEN_DRAIN_MS = 1_000;

try {
  await serve();
} catch (error) {
  console.error(sentenceFor(error));
  process.exit(1);
}

async function serve(): Promise<void> {
  const config = readConfig(process.env);
  const logger = await createLogger(config.logLevel);
  const stop = stopSignal();

  // A start may wait for a store; nothing was promised to anybody yet, so a signal may end it anywhere.
  const app = await Promise.race([createApp(config, logger), stop]);
  if (typeof app === 'string') {
    logger.info({ signal: app }, 'ended before the start was complete');
    process.exit(0);
  }
  app.broken.then(async (error) => {
    logger.fatal({ err: error }, 'the store is broken; the process ends, and a new start recovers');
    await Promise.race([app.drain(BROKEN_DRAIN_MS).catch(() => {}), delay(2 * BROKEN_DRAIN_MS)]);
    process.exit(1);
  });

  const port = await app.listen();
  logger.info({ host: config.host, port, deployment: config.deployment.kind }, 'listening');

  const signal = await stop;
  logger.info({ signal }, 'draining');
  await app.drain();
  logger.info('drained');
  process.exit(0);
}

/** Resolves at the first SIGTERM or SIGINT. A later one, when it is not the same again, ends the process at once. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let firstAt: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (firstAt !== undefined && performance.now() - firstAt > SAME_SIGNAL_MS) process.exit(1);
        firstAt ??= performance.now();
        resolve(signal);
      });
    }
  });
}

function sentenceFor(error: unknown): string {
  if (error instanceof ConfigError || error instanceof CannotOpen) return error.message;
  const { code, message, stack } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return `The port is in use (${message}). Stop what listens there, or set another PORT.`;
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `HOST and PORT cannot be listened on (${message}). Set others.`;
  }
  return stack ?? String(error);
}
