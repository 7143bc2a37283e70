import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { noteChunk } from './chunk-turns.js';

/** A body that waits has at most this number of chunks besides the one that holds the rest. */
const MOST_CHUNKS = 256;

/** True if a body follows its head (RFC 9112 6). */
function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
}

/** Discards the body of a request as it comes: nobody reads it, and it would wait in Node until the answer is complete. */
export function discardBody(request: FastifyRequest): void {
  if (hasBody(request.raw)) request.raw.on('data', () => noteChunk(request));
}

/**
 * Keeps a body small that nobody reads yet. Node pauses its connection after some kilobytes, but keeps these as they came, and ten thousand
 * chunks of one byte cost 4 MB. So they are joined. The function that is returned ends this, and is called before the body is read. An empty
 * body has ended by then.
 */
export function keepSmall(request: IncomingMessage): () => void {
  if (!hasBody(request)) return () => {};
  let joinedBytes = 0;
  let isKeeping = true;

  function join(): void {
    if (!isKeeping || request.readableLength < joinedBytes + MOST_CHUNKS) return;
    const bytes = request.read() as Buffer | null;
    if (bytes === null) return;
    joinedBytes = bytes.length;
    // Nothing can be added at the end of a body that is whole.
    if (request.complete) request.unshift(bytes);
    else if (!request.push(bytes)) {
      // To read has resumed the socket, at the end of this step of the event loop.
      process.nextTick(pause);
      // Data that the same read of the socket still holds is not announced.
      setImmediate(join);
    }
  }

  function pause(): void {
    if (isKeeping) request.socket.pause();
  }

  request.on('readable', join);
  return () => {
    isKeeping = false;
    request.removeListener('readable', join);
  };
}
