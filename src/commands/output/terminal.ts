import { once } from 'node:events';
import { styleText } from 'node:util';

export type Colour = 'green' | 'red' | 'yellow' | 'bold' | 'dim';
/** As a shell reports a program that SIGPIPE ended. */
const READER_GONE = 141;

let isWatched = false;

/**
 * Ends the program silently when the reader closes the pipe (`| head`). Only output is lost, because results are printed after the work
 * is done.
 */
export function endQuietlyWithReader(): void {
  if (isWatched) return;
  isWatched = true;
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(READER_GONE);
      throw error;
    });
  }
}

/** Waits while the reader is slow, so that an export of any length takes little memory. */
export async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}

/** Coloured text on a terminal only, and not where NO_COLOR is set (no-color.org). */
export function painted(text: string, colour: Colour | undefined): string {
  const isWanted = process.stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
  return isWanted && colour ? styleText(colour, text) : text;
}

/** Foreign text without control characters, which a terminal would execute. */
export function harmless(text: string): string {
  return text.replace(/\p{Cc}/gu, '\ufffd');
}
