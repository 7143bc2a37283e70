import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { WARN_AGAIN_AFTER_MS } from './connection-limits.js';

/** A process of 512 MB has room for them, twice, because TLS keeps a copy. */
const MOST_UNREAD_BYTES = 64 * 1024 * 1024;
/** Longer than every answer to a payment, which is never cut. */
const SHORT_BYTES = 24 * 1024;
const LOOK_EVERY_MS = 250;

/** The begun answers of a connection behind the one that is due. Node keeps what they have written apart from the socket until their turn. */
export const answersBehind = new WeakMap<Socket, ReadonlySet<ServerResponse>>();

/** The answers that a client has left unread, and how long it has read nothing. */
interface Unread {
  readonly bytes: number;
  readonly readBytes: number;
  readonly since: number;
}

/**
 * Bounds the bytes of answers that nobody reads, over all connections of a process: beyond the bound those connections are closed that have
 * read nothing for longest. Each connection alone is bounded by `unreadTimeout`, and clients without credentials may open thousands. A
 * connection with short answers only is never closed, so these can exceed the bound, up to `SHORT_BYTES` for each of MAX_CONNECTIONS.
 */
export function boundUnreadAnswers(
  server: Server,
  open: ReadonlySet<Socket>,
  log: Pick<FastifyBaseLogger, 'warn'>,
  mostBytes = MOST_UNREAD_BYTES,
): void {
  const unread = new Map<Socket, Unread>();
  let warnedAt = Number.NEGATIVE_INFINITY;

  function look(): void {
    const now = performance.now();
    let total = 0;
    for (const socket of open) {
      const { writableLength, bytesWritten } = socket;
      const bytes = writableLength + bytesBehind(socket);
      total += bytes;
      const readBytes = bytesWritten - writableLength;
      const before = unread.get(socket);
      const since = before?.readBytes === readBytes ? before.since : now;
      if (bytes <= SHORT_BYTES) unread.delete(socket);
      else unread.set(socket, { bytes, readBytes, since });
    }
    for (const socket of unread.keys()) if (!open.has(socket)) unread.delete(socket);
    if (total > mostBytes) cutOldest(total);
  }

  function cutOldest(total: number): void {
    let left = total;
    let cut = 0;
    for (const [socket, { bytes }] of [...unread].sort(([, one], [, other]) => one.since - other.since)) {
      if (left <= mostBytes) break;
      socket.destroy();
      left -= bytes;
      cut += 1;
    }
    if (cut > 0) {
      log.warn(
        { connections: cut, bytes: total },
        'too many bytes of answers were left unread: the oldest of these connections are closed',
      );
    } else if (performance.now() - warnedAt >= WARN_AGAIN_AFTER_MS) {
      warnedAt = performance.now();
      log.warn(
        { bytes: total },
        'too many bytes of short answers were left unread: none of their connections is closed, only MAX_CONNECTIONS bounds them',
      );
    }
  }

  const looking = setInterval(look, LOOK_EVERY_MS).unref();
  server.once('close', () => clearInterval(looking));
}

function bytesBehind(socket: Socket): number {
  let bytes = 0;
  for (const response of answersBehind.get(socket) ?? []) {
    // In its turn an answer has its socket, and counts the bytes of the socket as its own.
    if (response.socket === null) bytes += response.writableLength;
  }
  return bytes;
}
