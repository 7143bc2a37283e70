import { styleText } from 'node:util';
import { HARMFUL } from '#idempay/platform/printed-text.js';

export type Colour = 'green' | 'red' | 'yellow' | 'bold' | 'dim';
/** As a shell reports a program that SIGPIPE ended. */
const READER_GONE = 141;

let isWatched = false;

/** Standard output takes no more: its disk is full, for example. The command makes its changes before it prints. */
export class OutputError extends Error {
  override readonly name = 'OutputError';
}

/**
 * Ends the program silently when the reader closes the pipe (`| head`). Only output is lost, because results are printed after the work is
 * done. Other faults of standard output are thrown by `write`. Faults of standard error never end a command.
 */
export function endQuietlyWithReader(): void {
  if (isWatched) return;
  isWatched = true;
  process.stdout.on('error', endIfReaderGone);
  process.stderr.on('error', () => {});
}

function endIfReaderGone(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(READER_GONE);
}

/** Waits while the reader is slow, so that an export of any length takes little memory. Rejects with OutputError. */
export function write(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (!error) return resolve();
      endIfReaderGone(error);
      reject(new OutputError(`Standard output cannot be written: ${error.message}.`, { cause: error }));
    });
  });
}

/** A line on standard error. False if it cannot be written. */
export function report(line: string): Promise<boolean> {
  return new Promise((resolve) => {
    process.stderr.write(`${line}\n`, (error) => resolve(!error));
  });
}

/** Coloured text on a terminal only, and not if NO_COLOR is set (no-color.org). */
export function painted(text: string, colour: Colour | undefined): string {
  const isWanted = process.stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
  return isWanted && colour ? styleText(colour, text) : text;
}

/** Foreign text, in which each harmful character is replaced, so that it can be printed. */
export function harmless(text: string): string {
  return text.replace(HARMFUL, '\ufffd');
}
