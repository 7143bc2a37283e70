import type { Server } from 'node:http';
import { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyBaseLogger } from 'fastify';
import { publicErrors } from '../errors/catalogue.js';
import { formOf, type PublicError, reasonPhrase } from '../errors/public-error.js';
import { newRequestId, REQUEST_ID_HEADER } from '../requests/request-id.js';
import { answerOn, type ConnectionLimits, limitConnections, type SecuredSocket } from './connection-limits.js';
import { fixedHeadersOn } from './fixed-headers.js';
import { isHeadRequest, type ParserError, parserErrorOf } from './parser-errors.js';
import { boundUnreadAnswers } from './unread-answers.js';

/** Over TLS, a client that has ended its sending side and takes none of its answer for this long is gone. */
const ENDED_UNREAD_MS = 10_000;

/** After our last byte: long enough for the client to read it, short enough that a drain does not wait for anybody. */
const LINGER_MS = 1_000;
/** How long CONNECT waits for earlier answers on its connection. Shorter than a drain, which cannot cut a socket that Node handed over. */
const ANSWERS_BEFORE_CONNECT_MS = 20_000;

/** From the first closing of idle connections on, clients have this long to read their answers. One that reads nothing must not delay a drain for longer. */
const SLOW_CLIENT_MS = 5_000;

/** Sockets whose last answer is written by this module, now or after the answers before it. */
const ending = new WeakSet<Socket>();

/**
 * Handles every socket that Node no longer manages: each has a listener for errors (a reset without one ends the process), is answered with
 * the error body, and is closed within a bound. `open` has the established connections; `closeUnused` begins a drain: it closes every
 * connection that never sent anything.
 */
export function guardConnections(
  server: Server,
  limits: ConnectionLimits,
  log: Pick<FastifyBaseLogger, 'warn'>,
  onDropped: () => void,
): { readonly open: ReadonlySet<Socket>; closeUnused(): void } {
  const sockets = new Set<Socket>();
  /** Sockets whose TLS handshake is not complete; no HTTP was sent on them. */
  const handshakes = new Set<Socket>();
  let closing = false;

  answerHalfOpen(server);
  server.on('connect', (request, socket) => answerConnect(socket as Socket, request.headers.accept));
  // A connection that cannot be accepted, as when no descriptor is left, is no reason to end the process.
  server.on('error', (error) => {
    if (server.listening) log.warn({ err: error }, 'a connection could not be accepted');
  });
  const keepIn = (group: Set<Socket>) => (socket: Socket) => {
    if (closing) socket.destroy();
    group.add(socket);
    socket.once('close', () => group.delete(socket));
  };
  const isSecured = server instanceof TlsServer;
  server.on('connection', keepIn(isSecured ? handshakes : sockets));
  if (isSecured) {
    server.on('secureConnection', keepIn(sockets));
    server.on('secureConnection', (socket: SecuredSocket) => {
      handshakes.delete(socket._parent);
      // Not as an option of the server: a connection that ends before its handshake would stay until its time-out.
      socket.allowHalfOpen = true;
      // A reset may arrive as an end here, and Node never reports that the answer could not be written.
      socket.once('end', () => socket.setTimeout(ENDED_UNREAD_MS));
    });
    // There is no TLS yet in which we could answer. Node would report it as malformed HTTP, and close it in its own time.
    server.removeAllListeners('tlsClientError').on('tlsClientError', (_error, socket) => socket.destroy());
  }
  waitForReaders(server, sockets);
  boundUnreadAnswers(server, sockets, log);
  limitConnections(server, limits, () => sockets.size + handshakes.size, log, onDropped);
  return {
    open: sockets,
    // Browsers connect in advance. Node takes such a connection for busy, and a drain would wait for it.
    closeUnused() {
      closing = true;
      for (const socket of handshakes) socket.destroy();
      for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
    },
  };
}

/**
 * Node calls a connection idle as soon as its answer is complete, also while the client has not read it, and closing it would cut the
 * answer. So idle connections are closed when every client has read its answer, or after `slowClientMs`. `open` has all connections of
 * the server. A drain calls `closeIdleConnections` again and again.
 */
export function waitForReaders(server: Server, open: ReadonlySet<Socket>, slowClientMs = SLOW_CLIENT_MS): void {
  const closeIdle = server.closeIdleConnections.bind(server);
  let closeBy: number | undefined;
  server.closeIdleConnections = () => {
    closeBy ??= performance.now() + slowClientMs;
    const isSending = [...open].some((socket) => socket.writableLength > 0);
    if (!isSending || performance.now() >= closeBy) closeIdle();
  };
}

/**
 * A client may end its sending side after its last request and still wait for the answers (RFC 9112 9.6). They are written, and then the
 * connection is closed; a client that is gone is noticed when a write fails. By default Node ends such a connection at once, also while a
 * charge is under way. This switch of Node's is not documented: `test/http/half-open` notices when it is gone.
 */
function answerHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

/** Answers bytes that never became a request on the socket itself, after the answers to the complete requests before them. */
export function answerMalformedHttp(error: ParserError, stream: Duplex): void {
  const socket = stream as Socket;
  // Node reports every further piece of a request that it already refused.
  if (ending.has(socket)) return;
  if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
  else endWithError(socket, parserErrorOf(error), { isHead: isHeadRequest(error) });
}

/** CONNECT never becomes a request that could be routed (rule G1), and Node no longer listens to its socket. */
function answerConnect(socket: Socket, accept: string | undefined): void {
  const limit = setTimeout(() => socket.destroy(), ANSWERS_BEFORE_CONNECT_MS).unref();
  socket.once('close', () => clearTimeout(limit));
  endWithError(socket, publicErrors.methodNotAllowed('DELETE, GET, HEAD, POST, PUT'), { accept });
}

/** The known part of the request. `accept` is undefined if its headers are not known. */
interface Asked {
  readonly isHead?: boolean;
  readonly accept?: string | undefined;
}

function endWithError(socket: Socket, error: PublicError, asked: Asked): void {
  ending.add(socket);
  socket.on('error', () => socket.destroy());
  // The bytes that the client still sends are read and discarded: unread bytes would turn our close into a reset.
  socket.resume();
  afterAnswers(socket, () => {
    if (!socket.writable) return;
    endAndLinger(socket, textOf(error, socket, asked));
  });
}

export function endAndLinger(socket: Socket, lastText = ''): void {
  socket.end(lastText);
  const linger = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(linger));
}

/** Calls back when every complete request has its answer, so that ours is not taken for one of those answers. */
function afterAnswers(socket: Socket, then: () => void): void {
  const answer = answerOn(socket);
  if (!answer) then();
  // Node assigns the next answer to the socket in its own listener, which was added before this one.
  else if (answer.req.complete) answer.once('finish', () => afterAnswers(socket, then));
  // The answer to the broken request has begun: nothing may follow it.
  else if (answer.headersSent) endAndLinger(socket);
  else then();
}

function textOf(error: PublicError, socket: Socket, { isHead = false, accept }: Asked): string {
  const { status, headers } = error;
  const { contentType, text } = formOf(error, accept);
  return (
    `HTTP/1.1 ${status} ${reasonPhrase(status)}\r\n` +
    `Content-Type: ${contentType}\r\n` +
    `Content-Length: ${Buffer.byteLength(text)}\r\n` +
    `Date: ${new Date().toUTCString()}\r\n` +
    'Cache-Control: no-store\r\n' +
    `${REQUEST_ID_HEADER}: ${newRequestId()}\r\n` +
    Object.entries({ ...fixedHeadersOn(socket), ...headers })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join('') +
    `Connection: close\r\n\r\n${isHead ? '' : text}`
  );
}
