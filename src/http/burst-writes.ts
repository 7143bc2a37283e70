import type { Server } from 'node:http';
import type { Socket } from 'node:net';

let waiting: (() => void)[] = [];

/**
 * Lets the answers of one turn of the event loop go to the kernel together, at its end. Each one alone would wake its client,
 * which sleeps again before the next one comes, and to wake it is the larger part of what a write costs (decision 0062).
 */
export function writeInBursts(socket: Socket): void {
  const writeOne = socket._write.bind(socket);
  const writeAll = socket._writev?.bind(socket);
  socket._write = (chunk, encoding, done) => atEndOfTurn(() => writeOne(chunk, encoding, done));
  socket._writev = (chunks, done) => {
    const [whole, end] = chunks;
    // Node ends an answer with an empty chunk, and a list of two costs several microseconds more than one text.
    if (whole && chunks.length === 2 && end?.chunk.length === 0) {
      atEndOfTurn(() => writeOne(whole.chunk, whole.encoding, done));
    } else {
      atEndOfTurn(() => writeAll?.(chunks, done));
    }
  };
}

/** What waits goes out first: Node takes a connection for idle as soon as its answer is complete, and closes it with what it has not written. */
export function writeBeforeClosing(server: Server): void {
  const closeIdle = server.closeIdleConnections.bind(server);
  const closeAll = server.closeAllConnections.bind(server);
  server.closeIdleConnections = () => {
    writeWaiting();
    closeIdle();
  };
  server.closeAllConnections = () => {
    writeWaiting();
    closeAll();
  };
}

function atEndOfTurn(write: () => void): void {
  if (waiting.push(write) === 1) setImmediate(writeWaiting);
}

function writeWaiting(): void {
  const writes = waiting;
  waiting = [];
  for (const write of writes) write();
}
