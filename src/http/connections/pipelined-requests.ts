import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { answerOn } from './connection-limits.js';
import { endAndLinger } from './connections.js';
import { answersBehind } from './unread-answers.js';

/** Begun behind an answer that is due: enough for a client that sends a few at once, little memory if it reads no answer. */
const MOST_BEHIND = 7;
/** Left by all connections together, some 2.5 kB each: one read of a socket can hold 3,600 of the shortest requests. */
const MOST_LEFT = 20_000;

/** The requests that one connection sent while an answer was due. */
interface Line {
  /** The answers that were begun behind the one that was due, and are not sent. */
  readonly behind: Set<ServerResponse>;
  /** The answer to the request that was begun last. */
  newest: ServerResponse | undefined;
  /** Requests that are never begun. Node keeps them until the connection ends. */
  left: number;
}

/**
 * Bounds the work for requests behind one another on a connection (RFC 9112 9.3.2). Node emits each of them as soon as its head is
 * parsed, however many answers the client has not taken, and all these answers wait in memory. So a few are begun, and the connection
 * ends after their answers: the client sends the others again. A request behind an answer that ends its connection, as in a drain,
 * is not begun either.
 */
export function limitPipelined(answer: RequestListener, mostLeft = MOST_LEFT): RequestListener {
  const lines = new WeakMap<Socket, Line>();
  let leftInAll = 0;

  function newLineOf(socket: Socket): Line {
    const line: Line = { behind: new Set(), newest: undefined, left: 0 };
    lines.set(socket, line);
    answersBehind.set(socket, line.behind);
    return line;
  }

  function begin(line: Line, ...[request, response]: Parameters<RequestListener>): void {
    line.newest = response;
    line.behind.add(response);
    response.once('finish', () => line.behind.delete(response));
    answer(request, response);
  }

  function leave(line: Line, request: IncomingMessage, newest: ServerResponse | undefined): void {
    const { socket } = request;
    // The chunks of its body that the same read of the socket holds are discarded.
    request.resume();
    line.left += 1;
    leftInAll += 1;
    if (leftInAll > mostLeft) socket.destroy();
    if (line.left > 1) return;
    // Node resumes the socket after each whole request.
    socket.pause().on('resume', () => socket.pause());
    socket.once('close', () => {
      leftInAll -= line.left;
    });
    newest?.once('finish', () => {
      if (socket.writable) endAndLinger(socket);
    });
  }

  return (request, response) => {
    const { socket } = request;
    // After its last answer a connection is read for a moment more.
    if (!socket.writable) return;
    // A response has its socket if no earlier answer is due: nearly every time.
    if (response.socket !== null) {
      answer(request, response);
      return;
    }
    const line = lines.get(socket) ?? newLineOf(socket);
    const newest = line.behind.size === 0 ? answerOn(socket) : line.newest;
    const isBegun = line.left === 0 && line.behind.size < MOST_BEHIND && !isLast(newest);
    if (isBegun) begin(line, request, response);
    else leave(line, request, newest);
  };
}

/**
 * True if its connection ends with this answer. A `Connection: close` that is given with the head would not be seen here, so a refusal says
 * `shouldKeepAlive = false`, as Node does if a body was not asked for. In a drain the framework sets the header before it does anything else.
 */
function isLast(response: ServerResponse | undefined): boolean {
  return response !== undefined && (!response.shouldKeepAlive || response.getHeader('connection') === 'close');
}
