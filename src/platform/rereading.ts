/** A change of a file counts within this time, in every process that reads it. */
const READ_AGAIN_MS = 1_000;
/** A file that nobody could read for this long is reported: it, or two others, may be on a network mount that hangs. */
const LATE_MS = 10_000;
/** Half of the threads of libuv's pool: a read that hangs keeps one, and log writes, name look-ups and WebCrypto need the others. */
const READS_AT_ONCE = 2;

const NOT_READ = `the file could not be read for ${LATE_MS / 1_000} seconds, so a file system may hang`;

/** Reads one file, or one file after the other, so that it takes one thread. It never rejects. */
type Read = () => Promise<void>;

/** Reads of this process that are due, in this order. */
const due = new Set<Read>();
const underWay = new Set<Read>();

/**
 * Reads a file again every second. The next read waits for the end of the one before, which may hang on a network mount, so that an older content
 * never comes after a newer one. `onLate` gets the problem once if no read ends for ten seconds. The function that it returns ends this.
 */
export function startRereading(read: () => Promise<void>, onLate: (problem: string) => void): () => void {
  let waitedMs = 0;
  const readInTime: Read = async () => {
    await read();
    waitedMs = 0;
  };
  const timer = setInterval(() => {
    waitedMs += READ_AGAIN_MS;
    if (waitedMs === LATE_MS) onLate(NOT_READ);
    if (underWay.has(readInTime)) return;
    due.add(readInTime);
    startDue();
  }, READ_AGAIN_MS).unref();
  return () => {
    clearInterval(timer);
    due.delete(readInTime);
  };
}

function startDue(): void {
  for (const read of due) {
    if (underWay.size === READS_AT_ONCE) return;
    due.delete(read);
    underWay.add(read);
    void read().finally(() => {
      underWay.delete(read);
      startDue();
    });
  }
}
