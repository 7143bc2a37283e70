import { connect, type Socket } from 'node:net';
import type { Answer } from './http-client.js';
import { GOOD_BODY } from './payment-bodies.js';

/**
 * Writes these bytes, whatever they are, on a connection of its own: for what no HTTP client would send. `halfClose` ends
 * our half after them, as a client does that breaks off. Resolves with the first answer; undefined when the service
 * closes the connection without one.
 */
export function exchange(
  port: number,
  bytes: string | Buffer,
  { halfClose = false } = {},
): Promise<Answer | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let received = '';
    const finish = (): void => {
      socket.destroy();
      resolve(parseAnswer(received));
    };
    // Latin-1 keeps one character per byte, so that lengths can be counted before the text is decoded.
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      received += chunk;
      if (isComplete(received)) finish();
    });
    socket.on('close', finish);
    // A service that refuses may reset a connection that still sends; what it said before that is the answer.
    socket.on('error', finish);
    write(socket, bytes, halfClose);
  });
}

/** The first answer to these bytes; throws when the service closes the connection without one. */
export async function answerTo(port: number, bytes: string | Buffer): Promise<Answer> {
  const answer = await exchange(port, bytes);
  if (!answer) throw new Error('the connection was closed without an answer');
  return answer;
}

/** How long nothing comes back before the next part is sent. */
const QUIET_MS = 200;
const CONVERSATION_DEADLINE_MS = 15_000;

/**
 * Sends each part when the service has been silent for a while since the one before. Resolves with all that the service
 * sent once it has closed the connection, or is silent after so many answers.
 */
export function converse(port: number, parts: readonly string[], answers = Number.POSITIVE_INFINITY): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const rest = [...parts];
    let received = '';
    const next = (): void => {
      const part = rest.shift();
      if (part !== undefined) socket.write(part);
      else if (statusesIn(received).length >= answers) socket.destroy();
      socket.setTimeout(QUIET_MS);
    };
    const deadline = setTimeout(() => socket.destroy(), CONVERSATION_DEADLINE_MS);
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      received += chunk;
    });
    socket.on('timeout', next);
    // A service that closes while we still send resets the connection.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(deadline);
      resolve(received);
    });
    next();
  });
}

/** The statuses of all answers in what came back on a connection. */
export function statusesIn(received: string): number[] {
  return [...received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
}

/** Sends these bytes and tears the connection down, without waiting for anything. */
export function sendAndVanish(port: number, bytes: string | Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', reject);
    socket.on('close', () => resolve());
    socket.write(bytes, () => socket.destroy());
  });
}

/** Sends these bytes and resets the connection (RST) after `afterMs`, whatever has come back by then. */
export function sendAndReset(port: number, bytes: string | Buffer, afterMs = 0): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    // The service may be the first to close.
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.resume();
    socket.write(bytes, () => setTimeout(() => socket.resetAndDestroy(), afterMs));
  });
}

/** The text of a request with these header lines; a `Host` is given, the rest is the caller's. */
export function requestText(startLine: string, headers: readonly string[], body = ''): string {
  return [startLine, 'Host: 127.0.0.1', ...headers, '', body].join('\r\n');
}

export const GOOD_LENGTH = `Content-Length: ${GOOD_BODY.length}`;

/** A good payment as text, with these header lines beside its key and media type. */
export function paymentText(key: string, lines: readonly string[] = [GOOD_LENGTH], body = GOOD_BODY): string {
  const headers = [`Idempotency-Key: ${key}`, 'Content-Type: application/json', ...lines];
  return requestText('POST /api/payment HTTP/1.1', headers, body);
}

function write(socket: Socket, bytes: string | Buffer, halfClose: boolean): void {
  if (halfClose) socket.end(bytes);
  else socket.write(bytes);
}

function isComplete(received: string): boolean {
  const [head, body] = split(received);
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  return body !== undefined && length !== undefined && body.length >= Number(length);
}

function parseAnswer(received: string): Answer | undefined {
  const [head, body = ''] = split(received);
  const [statusLine = '', ...lines] = head.split('\r\n');
  const status = /^HTTP\/1\.1 (\d{3})/.exec(statusLine)?.[1];
  if (status === undefined) return undefined;
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const text = Buffer.from(body, 'latin1').toString('utf8');
  return {
    status: Number(status),
    statusText: statusLine.slice('HTTP/1.1 '.length),
    headers,
    text,
    json: <T>() => JSON.parse(text) as T,
  };
}

/** The head and, once the empty line has come, the body. */
function split(received: string): [head: string, body?: string] {
  const end = received.indexOf('\r\n\r\n');
  return end < 0 ? [received] : [received.slice(0, end), received.slice(end + 4)];
}
