/** A change of a file counts within this time, in every process that reads it. */
const READ_AGAIN_MS = 1_000;
/** Half of the threads of libuv's pool: a read that hangs keeps one, and log writes, name look-ups and WebCrypto need the others. */
const READS_AT_ONCE = 2;

/** Reads one file, or one file after the other, so that it takes one thread. It never rejects. */
type Read = () => Promise<void>;

/** Reads of this process that are due, in this order. */
const due = new Set<Read>();
const underWay = new Set<Read>();

/**
 * Reads a file again every second. The next read waits for the end of the one before, which may hang on a network mount, so that an older content
 * never comes after a newer one. The function that it returns ends this.
 */
export function startRereading(read: Read): () => void {
  const timer = setInterval(() => {
    if (underWay.has(read)) return;
    due.add(read);
    startDue();
  }, READ_AGAIN_MS).unref();
  return () => {
    clearInterval(timer);
    due.delete(read);
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
