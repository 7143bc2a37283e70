import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply } from 'fastify';
import { errorBody, PublicError, publicErrors, StoreUnavailable } from '../errors.js';
import { BODY_LIMIT_BYTES } from './body-parser.js';
import { newRequestId, REQUEST_ID_HEADER, requestIdOf } from './request-id.js';

/** Every answer that is an error, with the body of spec 2.5 (decisions G1). */
export function installErrorHandler(app: FastifyInstance): void {
  app.setErrorHandler<FastifyError | PublicError | StoreUnavailable>((error, request, reply) => {
    const answer = publicErrorOf(error);
    if (answer.status >= 500) request.log.error({ err: error, requestId: request.id }, 'request failed');
    return sendError(reply, answer);
  });
  app.setNotFoundHandler((_request, reply) => sendError(reply, publicErrors.unknownRoute()));
}

/**
 * Answers when the promise does, for a handler that returns at once: the framework's own wrapping of a returned promise
 * costs as much as a replay. A fault of either, the promise or `send`, is answered as an error.
 * `send` must not return the reply: it is a thenable, and would be waited for until the client has it all.
 */
export function answerWith<T>(
  reply: FastifyReply,
  promise: Promise<T>,
  send: (value: T) => undefined | Promise<void>,
): void {
  reply.server.requestsUnderWay.add(promise.then(send).catch((fault: unknown) => reply.send(fault)));
}

export function sendError(reply: FastifyReply, error: PublicError): FastifyReply {
  return (
    reply
      .code(error.status)
      .headers(error.headers)
      .header('content-type', 'application/json; charset=utf-8')
      // A 404 may be kept by a cache that was not told otherwise (RFC 9111 4.2.2).
      .header('cache-control', 'no-store')
      .send(JSON.stringify(errorBody(error.status, error.message)))
  );
}

/** What a client may know of an exception: below 500 what to do, at 500 nothing internal. */
export function publicErrorOf(error: FastifyError | PublicError | StoreUnavailable): PublicError {
  if (error instanceof PublicError) return error;
  if (error instanceof StoreUnavailable) return publicErrors.storeUnavailable(error);
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return publicErrors.unsupportedMediaType();
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return publicErrors.bodyTooLarge(BODY_LIMIT_BYTES);
    case 'FST_ERR_VALIDATION':
      return publicErrors.invalidRequest(`${validationSubject(error)} must be a single text.`);
    case 'FST_ERR_BAD_URL':
      return publicErrors.invalidRequest('The path is not validly percent-encoded.');
  }
  const status = error.statusCode ?? 500;
  return status >= 400 && status < 500 ? new PublicError(status, error.message) : publicErrors.internal(error);
}

/** Every schema of a request here asks for texts; what a client can get wrong is to send one of them twice. */
function validationSubject(error: FastifyError): string {
  const name = error.validation?.[0]?.instancePath?.slice(1);
  return name ? `'${name}' in the ${error.validationContext ?? 'request'}` : 'The request';
}

const PARSER_ERRORS: Readonly<Record<string, PublicError>> = {
  HPE_HEADER_OVERFLOW: new PublicError(431, 'The request headers are too large. Send fewer or shorter ones.'),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: new PublicError(413, 'The chunk extensions of the request body are too large.'),
  ERR_HTTP_REQUEST_TIMEOUT: new PublicError(
    408,
    'The request did not arrive in time. Send it again at once and whole.',
  ),
};
const MALFORMED = new PublicError(400, 'The request is not valid HTTP.');

/** What never became a request is answered on the bare socket, with the same body. */
export function answerMalformedHttp(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isAnswering(socket)) {
    socket.destroy();
    return;
  }
  endWithError(socket, PARSER_ERRORS[error.code ?? ''] ?? MALFORMED);
}

/** CONNECT never becomes a request that could be routed (decisions G1). */
export function answerConnect(_request: IncomingMessage, socket: Duplex): void {
  endWithError(socket, publicErrors.methodNotAllowed('DELETE, GET, HEAD, POST, PUT'));
}

/** An earlier, whole request on this connection still waits for its answer, which this must not be taken for. */
function isAnswering(socket: Socket): boolean {
  const answering = (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage;
  return answering?.req.complete === true;
}

function endWithError(socket: Duplex, { status, message, headers }: PublicError): void {
  const body = errorBody(status, message);
  const text = JSON.stringify(body);
  socket.end(
    `HTTP/1.1 ${status} ${body.error}\r\n` +
      'Content-Type: application/json; charset=utf-8\r\n' +
      `Content-Length: ${Buffer.byteLength(text)}\r\n` +
      `${REQUEST_ID_HEADER}: ${newRequestId()}\r\n` +
      Object.entries(headers)
        .map(([name, value]) => `${name}: ${value}\r\n`)
        .join('') +
      `Connection: close\r\n\r\n${text}`,
  );
}

/** An `Expect` other than `100-continue` (RFC 9110 10.1.1) is answered before there is a request to route. */
export function answerUnknownExpectation(request: IncomingMessage, response: ServerResponse): void {
  const { status, message } = new PublicError(417, 'Send no Expect header, or Expect: 100-continue.');
  const text = JSON.stringify(errorBody(status, message));
  response.writeHead(status, {
    'Content-Length': Buffer.byteLength(text),
    'Content-Type': 'application/json; charset=utf-8',
    [REQUEST_ID_HEADER]: requestIdOf(request),
    Connection: 'close',
  });
  response.end(text);
}
