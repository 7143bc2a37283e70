import { once } from 'node:events';
import type { Socket } from 'node:net';
import { answerTo, openConnection, requestText } from './raw-http.js';

/** A request whose body is the attack. */
export interface AttackedRoute {
  /** `POST /api/payment`. */
  readonly startLine: string;
  readonly headers: readonly string[];
  /** The longest body that is read. */
  readonly limitBytes: number;
}

export const BATCH_LIMIT_BYTES = 1024 * 1024;

const JSON_TYPE = 'Content-Type: application/json';
/** One-byte chunks that are written at once. */
const CHUNKS_OF_A_WRITE = 10_000;

export function batchRoute(headers: Readonly<Record<string, string>> = {}): AttackedRoute {
  const lines = [JSON_TYPE, ...linesOf(headers)];
  return { startLine: 'POST /api/transactions/batch HTTP/1.1', headers: lines, limitBytes: BATCH_LIMIT_BYTES };
}

const linesOf = (headers: Readonly<Record<string, string>>) =>
  Object.entries(headers).map(([name, value]) => `${name}: ${value}`);

/** Sends the longest body without its last byte, so that the service keeps what it has. The caller ends the connection. */
export async function withholdLastByte(port: number, route: AttackedRoute): Promise<Socket> {
  const socket = openConnection(
    port,
    requestText(route.startLine, [...route.headers, `Content-Length: ${route.limitBytes}`]),
  );
  await written(socket, Buffer.alloc(route.limitBytes - 1, ' '));
  return socket;
}

/** The same, for the answer that refuses it. */
export function refusalOfUnended(port: number, route: AttackedRoute) {
  const head = requestText(route.startLine, [...route.headers, `Content-Length: ${route.limitBytes}`]);
  return answerTo(port, head + ' '.repeat(route.limitBytes - 1));
}

/** Sends this number of chunks of one byte, and nothing after them. The caller ends the connection. */
export async function sendTinyChunks(port: number, route: AttackedRoute, chunks: number): Promise<Socket> {
  const socket = openConnection(port, requestText(route.startLine, [...route.headers, 'Transfer-Encoding: chunked']));
  for (let left = chunks; left > 0; left -= CHUNKS_OF_A_WRITE) {
    await written(socket, '1\r\n \r\n'.repeat(Math.min(left, CHUNKS_OF_A_WRITE)));
    if (socket.destroyed) break;
  }
  return socket;
}

/** Resolves when the bytes are with the system, or the connection has ended. */
async function written(socket: Socket, bytes: string | Buffer): Promise<void> {
  if (!socket.write(bytes)) await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {});
}
