import { connect, type Socket, type SocketConstructorOpts } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import type { Answer } from './http-client.js';
import { GOOD_BODY } from './payment-bodies.js';

interface ConnectionOptions extends SocketConstructorOpts {
  /** Over TLS, with a server whose certificate this authority signed. */
  authority?: Buffer | undefined;
}

/** A connection of its own on which these bytes are sent, whatever they are: for what no HTTP client would send. */
export function openConnection(port: number, bytes: string | Buffer, options: ConnectionOptions = {}): Socket {
  const { socket } = open(port, options);
  socket.write(bytes);
  return socket;
}

/** `bare` is the connection beneath TLS, or the same. */
function open(port: number, { authority, ...options }: ConnectionOptions) {
  const bare = connect({ ...options, port, host: '127.0.0.1' });
  const socket = authority ? connectSecurely({ socket: bare, ca: authority, servername: 'localhost' }) : bare;
  // A service that refuses may reset a connection that still sends.
  for (const each of [bare, socket]) each.on('error', () => {});
  return { bare, socket };
}

/**
 * Resolves with the first answer to these bytes; undefined when the service closes the connection without one. `halfClose`
 * ends our half after them, as a client does that breaks off.
 */
export async function exchange(
  port: number,
  bytes: string | Buffer,
  { halfClose = false, authority }: { halfClose?: boolean; authority?: Buffer | undefined } = {},
) {
  // Latin-1 keeps one character per byte, so that lengths can be counted before the text is decoded.
  const socket = openConnection(port, bytes, { authority }).setEncoding('latin1');
  if (halfClose) socket.end();
  let received = '';
  try {
    for await (const chunk of socket) {
      received += chunk;
      if (isComplete(received)) break;
    }
  } catch {
    // The answer is what came before a reset.
  }
  return parseAnswer(received);
}

export async function answerTo(port: number, bytes: string | Buffer, authority?: Buffer): Promise<Answer> {
  const answer = await exchange(port, bytes, { authority });
  if (!answer) throw new Error('the connection was closed without an answer');
  return answer;
}

const QUIET_MS = 200;

/**
 * Sends each part when the service has been silent for a while since the one before. Resolves with all that the service
 * sent once it has closed the connection, or is silent after this number of answers.
 */
export function converse(port: number, parts: readonly string[], answers = Number.POSITIVE_INFINITY): Promise<string> {
  return new Promise((resolve) => {
    const [first = '', ...rest] = parts;
    const socket = openConnection(port, first).setEncoding('latin1').setTimeout(QUIET_MS);
    let received = '';
    socket.on('data', (chunk: string) => {
      received += chunk;
    });
    socket.on('timeout', () => {
      const part = rest.shift();
      if (part !== undefined) socket.write(part);
      else if (statusesIn(received).length >= answers) socket.destroy();
      socket.setTimeout(QUIET_MS);
    });
    socket.on('close', () => resolve(received));
  });
}

export function statusesIn(received: string): number[] {
  return [...received.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
}

/** Sends these bytes and ends the connection, or resets it (RST), after `afterMs`, whatever has come back by then. */
export function sendAndVanish(
  port: number,
  bytes: string | Buffer,
  { reset = false, afterMs = 0, authority }: { reset?: boolean; afterMs?: number; authority?: Buffer } = {},
) {
  const { bare, socket } = open(port, { authority });
  socket.resume();
  const end = () => (reset ? bare.resetAndDestroy() : socket.destroy());
  socket.write(bytes, () => setTimeout(end, afterMs));
  return new Promise((resolve) => socket.on('close', resolve));
}

export function requestText(startLine: string, headers: readonly string[] = [], body = ''): string {
  return [startLine, 'Host: 127.0.0.1', ...headers, '', body].join('\r\n');
}

export const GOOD_LENGTH = `Content-Length: ${GOOD_BODY.length}`;

/** A good payment as text, with these header lines alongside its key and media type. */
export function paymentText(key: string, lines: readonly string[] = [GOOD_LENGTH], body = GOOD_BODY): string {
  const headers = [`Idempotency-Key: ${key}`, 'Content-Type: application/json', ...lines];
  return requestText('POST /api/payment HTTP/1.1', headers, body);
}

function isComplete(received: string): boolean {
  const [head = '', body] = received.split(/\r\n\r\n(.*)/s);
  const length = /^content-length: *(\d+)/im.exec(head)?.[1];
  return body !== undefined && length !== undefined && body.length >= Number(length);
}

function parseAnswer(received: string): Answer | undefined {
  const [head = '', body = ''] = received.split(/\r\n\r\n(.*)/s);
  const [, statusText, status] = /^HTTP\/1\.1 ((\d{3}).*)/.exec(head) ?? [];
  if (statusText === undefined) return undefined;
  const lines = head.matchAll(/^([^:\r\n]+): *(.*?)\r?$/gm);
  const headers = Object.fromEntries(Array.from(lines, ([, name = '', value]) => [name.toLowerCase(), value]));
  const text = Buffer.from(body, 'latin1').toString('utf8');
  return { status: Number(status), statusText, headers, text, json: <T>() => JSON.parse(text) as T };
}
