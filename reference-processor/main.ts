import type { AddressInfo } from 'node:net';
import { createLogger, endProcess } from '#idempay/platform/logger.js';
import { ChargeLogError, openChargeLog } from './charge-log.js';
import { createCharges } from './charges.js';
import { createRefunds } from './refunds.js';
import { createServer } from './server.js';
import { readSettings, SettingsError } from './settings.js';

/**
 * The reference processor: a small payment processor of its own, which Idempay sends charges to over HTTP. It shares no
 * code with the service but the output of its log, and its log of charges decides what was charged.
 */
try {
  await serve();
} catch (error) {
  console.error(sentenceFor(error));
  process.exit(1);
}

async function serve(): Promise<void> {
  // An end at any moment is as safe as a kill: a charge that is not in the log was not made and not acknowledged.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => process.exit(0));

  const settings = readSettings(process.env);
  const logger = await createLogger('info');
  const log = await openChargeLog(settings.chargeLog);
  log.broken.then((fault) => {
    logger.fatal(
      { reason: fault.message },
      'the charge log is broken; the process ends, and a new start reads what it holds',
    );
    return endProcess(logger, 1);
  });

  const { host, chargeLog, behaviour } = settings;
  // The framework's own info lines would only repeat what is said below.
  const frameworkLogger = logger.child({}, { level: 'warn' });
  const charges = createCharges(log, Math.random);
  const refunds = createRefunds(log, charges, Math.random);
  const app = createServer({ charges, refunds }, behaviour, Math.random, frameworkLogger);
  await app.listen({ host, port: settings.port });
  const { port } = app.server.address() as AddressInfo;
  logger.info({ host, port, chargeLog, charges: log.earlier.length }, 'listening');
}

function sentenceFor(error: unknown): string {
  if (error instanceof SettingsError || error instanceof ChargeLogError) return error.message;
  const { code, message, stack } = error as NodeJS.ErrnoException;
  if (code === 'EADDRINUSE') return `The port is in use (${message}). Set another PROCESSOR_PORT.`;
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `The address cannot be listened on (${message}). Set another PROCESSOR_HOST or PROCESSOR_PORT.`;
  }
  return stack ?? String(error);
}
