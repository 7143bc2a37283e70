import { FairLine } from '../../limits/fair-line.js';

/** To read a shorter body takes a few milliseconds at most, and all bodies of payments are shorter. */
export const LONG_BODY_BYTES = 64 * 1024;

const line = new FairLine<() => void>();
let isResting = false;

/**
 * Calls `read`, which reads a long body, in the turn of its client. After each such body everything else goes on for as long as that
 * body took, so that long bodies together take at most half of the time.
 */
export function readInTurn(client: string, read: () => void): void {
  if (isResting) line.add(client, read);
  else readAndRest(read);
}

function readAndRest(read: () => void): void {
  const begun = performance.now();
  isResting = true;
  read();
  setTimeout(endRest, performance.now() - begun);
}

function endRest(): void {
  isResting = false;
  const read = line.next();
  if (read) readAndRest(read);
}
