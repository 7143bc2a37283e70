import { Readable } from 'node:stream';
import { ByteBudget } from '../../limits/byte-budget.js';
import { CONNECTION_LIMITS } from './connection-limits.js';

/** Read ahead of one client: a list of up to some thirty thousand transactions leaves its snapshot at once. */
const OWN_BYTES = 4 * 1024 * 1024;

const LOOK_EVERY_MS = 250;
/** While others wait for a snapshot, a client that takes nothing for this time loses its own: with a look more, within two seconds. */
const STALLED_MS = 1_500;
/** The least that a client takes on average while others wait for its snapshot, in bytes per millisecond: 128 KiB a second. */
const LEAST_RATE = 131.072;
/** A shorter time gives no useful average. */
const RATED_AFTER_MS = 2_000;
/**
 * While no request waits for a snapshot, or none is held any more: as long as for every other answer that nobody reads (`export | less`).
 * An open snapshot keeps old rows meanwhile, and the write-ahead log of SQLite grows.
 */
const STALLED_ALONE_MS = CONNECTION_LIMITS.unreadTimeout;
/** However quickly it is read: a snapshot must not be held for hours. */
const LONGEST_MS = 600_000;

export interface Chunks {
  /** The next part of the body; closes itself after the last one. */
  next(): Promise<{ readonly chunk: Buffer; readonly last: boolean }>;
  /** True if others wait for the snapshot that the parts are read from. */
  isWanted(): boolean;
  /** True if its client has more than its part of the snapshots, and another client waits for one. */
  isOwed(): boolean;
  close(): void;
}

/**
 * The bytes that are read ahead of all clients of the process together, over all its servers. Beyond it every client is read for page by
 * page.
 */
export const READ_AHEAD = new ByteBudget(64 * 1024 * 1024);

/**
 * The body of a reply, read ahead of its client as far as memory allows, so that the snapshot is not held while the client reads. If it is
 * held, a client that stalls is cut off, the sooner when others wait for the snapshot.
 */
export function streamReadAhead(first: Buffer, chunks: Chunks, allBytes: ByteBudget): Readable {
  const ready = [first];
  let readyBytes = first.length;
  allBytes.hold(first.length);
  let isReading = false;
  let isWhole = false;
  /** The client is ready for more data. */
  let isAsked = false;
  let takenBytes = 0;
  /** Time in which data was ready and the client did not read: in total, and since its last read. */
  let clientMs = 0;
  let idleMs = 0;

  function readOn(): void {
    if (isReading || isWhole || stream.destroyed) return;
    if (ready.length > 0 && (readyBytes >= OWN_BYTES || allBytes.isFull)) return;
    isReading = true;
    chunks.next().then(
      ({ chunk, last }) => {
        isReading = false;
        if (stream.destroyed) return;
        isWhole = last;
        // An empty chunk is left out: pushing it would neither send data nor end the stream.
        if (chunk.length > 0) {
          ready.push(chunk);
          readyBytes += chunk.length;
          allBytes.hold(chunk.length);
        }
        deliver();
        readOn();
      },
      (fault: Error) => stream.destroy(fault),
    );
  }

  function deliver(): void {
    if (!isAsked) return;
    const chunk = ready.shift();
    if (!chunk) {
      if (isWhole) stream.push(null);
      return;
    }
    isAsked = false;
    release(chunk.length);
    takenBytes += chunk.length;
    idleMs = 0;
    stream.push(chunk);
  }

  function release(bytes: number): void {
    readyBytes -= bytes;
    allBytes.giveBack(bytes);
  }

  function look(): void {
    if (!isWhole && chunks.isOwed()) stream.destroy();
    if (isAsked) return;
    clientMs += LOOK_EVERY_MS;
    idleMs += LOOK_EVERY_MS;
    if (isTooSlow()) stream.destroy();
  }

  function isTooSlow(): boolean {
    if (isWhole || !chunks.isWanted()) return idleMs > STALLED_ALONE_MS;
    return idleMs > STALLED_MS || (clientMs > RATED_AFTER_MS && takenBytes < clientMs * LEAST_RATE);
  }

  const looking = setInterval(look, LOOK_EVERY_MS).unref();
  const longest = setTimeout(() => stream.destroy(), LONGEST_MS).unref();
  const stream = new Readable({
    read() {
      isAsked = true;
      deliver();
      readOn();
    },
    destroy(error, done) {
      clearInterval(looking);
      clearTimeout(longest);
      release(readyBytes);
      ready.length = 0;
      chunks.close();
      done(error);
    },
  });
  return stream;
}
