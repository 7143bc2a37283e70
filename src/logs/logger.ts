import { type LevelWithSilent, type Logger, pino } from 'pino';

/** Structured JSON lines; readable text on a terminal. `mixin` returns members that are added to each line. */
export async function createLogger(level: LevelWithSilent, mixin?: () => object): Promise<Logger> {
  const options = { level, ...(mixin && { mixin }) };
  if (!process.stdout.isTTY) return pino(options);
  const { default: pretty } = await import('pino-pretty');
  return pino(options, pretty({ sync: true, ignore: 'pid,hostname' }));
}
