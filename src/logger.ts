import { type Logger, pino } from 'pino';
import type { LogLevel } from './config.js';

/** Structured JSON lines; on a terminal, the same for eyes. */
export async function createLogger(level: LogLevel): Promise<Logger> {
  if (!process.stdout.isTTY) return pino({ level });
  const { default: pretty } = await import('pino-pretty');
  return pino({ level }, pretty({ sync: true, ignore: 'pid,hostname' }));
}
