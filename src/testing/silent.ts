import type { createServer } from '../http/server.js';

type Logger = Parameters<typeof createServer>[3];

/** Says nothing, except of a failure of our own code. */
export const SILENT: Logger = {
  level: 'error',
  fatal: console.error,
  error: console.error,
  warn() {},
  info() {},
  debug() {},
  trace() {},
  silent() {},
  child: () => SILENT,
};
