import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** From the first closing of idle connections on, a client has this long to read its answer. A client that reads nothing must not delay a drain for longer. */
const SLOW_CLIENT_MS = 5_000;

let waiting: (() => void)[] = [];

/**
 * Writes the answers of one turn of the event loop together, at its end. Separate writes would wake the client each time, and
 * waking it is the larger part of the cost of a write (decision 0062).
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

/**
 * Ends `writeInBursts` for a connection with pipelined requests. Node writes an answer when the one before it has been written, so in bursts each
 * answer would take a turn of its own. Between two turns the connection looks idle, and may be closed.
 */
export function writeAtOnce(socket: Socket): void {
  if (!Object.hasOwn(socket, '_write')) return;
  Reflect.deleteProperty(socket, '_write');
  Reflect.deleteProperty(socket, '_writev');
  writeWaiting();
}

/**
 * Node calls a connection idle as soon as its answer is complete, also while the answer is not written or not read. So before idle
 * connections are closed, waiting answers are written. A connection whose client still reads stays open for `slowClientMs`; the next call
 * closes it. `open` has all connections of the server.
 */
export function writeBeforeClosing(server: Server, open: ReadonlySet<Socket>, slowClientMs = SLOW_CLIENT_MS): void {
  const closeBy = new WeakMap<Socket, number>();
  const mayGoOn = (socket: Socket) => {
    const now = performance.now();
    const end = closeBy.get(socket) ?? now + slowClientMs;
    closeBy.set(socket, end);
    return now < end;
  };
  const closeIdle = server.closeIdleConnections.bind(server);
  const closeAll = server.closeAllConnections.bind(server);
  server.closeIdleConnections = () => {
    writeWaiting();
    const sending = [...open].filter((socket) => socket.writableLength > 0 && mayGoOn(socket));
    // Node has no option that excludes a connection.
    for (const socket of sending) socket.destroy = () => socket;
    closeIdle();
    for (const socket of sending) Reflect.deleteProperty(socket, 'destroy');
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
