import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** What a client has not taken so long after idle connections began to be closed is cut: one that reads nothing must not hold a drain up. */
const SLOW_CLIENT_MS = 5_000;

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

/**
 * From now on for a connection with requests behind one another. Node hands an answer over when the one before it is written: at the end
 * of a turn each would wait for a turn of its own, and between two of them the connection looks idle, and may be closed.
 */
export function writeAtOnce(socket: Socket): void {
  if (!Object.hasOwn(socket, '_write')) return;
  Reflect.deleteProperty(socket, '_write');
  Reflect.deleteProperty(socket, '_writev');
  writeWaiting();
}

/**
 * Node takes a connection for idle as soon as its answer is complete, and closes it with what it has not written. So what waits
 * goes out first, and what a slow client has not taken yet keeps its connection open for a while: whoever closes idle ones asks
 * again. `open` has all connections of the server.
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
    // Node offers no other way to leave a connection out.
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
