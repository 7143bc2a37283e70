import { Readable } from 'node:stream';
import { ACCESS_CHECK_MS } from '../requests/cut-at-revocation.js';

/** A client that takes nothing for this long is disconnected, to free the memory of its lines. */
const STALLED_MS = 30_000;
const LOOK_EVERY_MS = 1_000;
/** For the last bytes of a stream that has ended, so that a drain waits for no client that does not read. */
const LAST_BYTES_MS = 500;

export interface LiveStream {
  readonly stream: Readable;
  line(text: string): void;
  end(): void;
}

/**
 * Lines for one client, until it disconnects, takes nothing for 30 s, loses its access, or `end` is called. Waiting lines are strings that
 * all streams share. `cut` ends its connection.
 */
export function openLiveStream(mayStill: () => Promise<boolean>, cut: () => void, onClosed: () => void): LiveStream {
  const ready: string[] = [];
  /** The client is ready for more data. */
  let isAsked = false;
  let isEnded = false;
  let idleMs = 0;

  function deliver(): void {
    while (isAsked && ready.length > 0) {
      idleMs = 0;
      isAsked = stream.push(`${ready.shift()}\n`);
    }
    if (isEnded) stream.push(null);
  }

  function end(): void {
    if (isEnded) return;
    isEnded = true;
    ready.length = 0;
    deliver();
    setTimeout(cut, LAST_BYTES_MS).unref();
  }

  const looking = setInterval(() => {
    if (isAsked) return;
    idleMs += LOOK_EVERY_MS;
    if (idleMs >= STALLED_MS) stream.destroy();
  }, LOOK_EVERY_MS).unref();
  const checking = setInterval(() => {
    mayStill().then(
      (may) => may || end(),
      () => end(),
    );
  }, ACCESS_CHECK_MS).unref();

  const stream: Readable = new Readable({
    read() {
      isAsked = true;
      deliver();
    },
    destroy(error, done) {
      clearInterval(looking);
      clearInterval(checking);
      isEnded = true;
      ready.length = 0;
      onClosed();
      done(error);
    },
  });
  return {
    stream,
    line(text) {
      if (isEnded) return;
      ready.push(text);
      deliver();
    },
    end,
  };
}
