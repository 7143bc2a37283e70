import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { keepSmall } from '../requests/unread-bodies.js';
import { answerOn } from './connection-limits.js';

/** Started behind an answer that is due, and not answered: enough for a client that sends a few at once, little memory if it reads none. */
const MOST_AHEAD = 3;
/** Held for all connections together, some 2.5 kB each: one read of a socket can hold 3,600 of the shortest requests. */
const MOST_HELD = 20_000;

interface HeldRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Its body is read from now on. */
  endKeeping(): void;
}

/** What is owed to one connection beyond the answer that is due. */
interface Line {
  readonly socket: Socket;
  /** Requests that were started while an earlier answer was due, and whose own answer is not taken. */
  ahead: number;
  /** Requests that nothing was done for yet. They came in one read of the socket. */
  held: HeldRequest[];
  /** The answer to the request that was started last. */
  newest: ServerResponse | undefined;
}

/**
 * Bounds the work for requests behind one another on a connection (RFC 9112 9.3.2). Node emits each of them as soon as its head is
 * parsed, however many answers the client has not taken, and all these answers wait in memory. So a few are started, the others are
 * held, and the socket is paused until every one of them is started. Where too many are held in all, the connection is closed. What
 * follows an answer that ends its connection, as in a drain, is not started.
 */
export function limitPipelined(answer: RequestListener, mostHeld = MOST_HELD): RequestListener {
  const lines = new WeakMap<Socket, Line>();
  /** Those that may start what they hold, in turns. */
  const ready = new Set<Line>();
  let heldInAll = 0;

  function openLine(socket: Socket): Line {
    const line: Line = { socket, ahead: 0, held: [], newest: undefined };
    // Node resumes the socket after each whole request.
    socket.on('resume', () => {
      if (line.held.length > 0) socket.pause();
    });
    socket.once('close', () => drop(line));
    lines.set(socket, line);
    return line;
  }

  function hold(line: Line, request: IncomingMessage, response: ServerResponse): void {
    const { socket } = line;
    if (socket.destroyed) return;
    if (heldInAll >= mostHeld) {
      drop(line);
      socket.destroy();
      return;
    }
    line.held.push({ request, response, endKeeping: keepSmall(request) });
    heldInAll += 1;
    socket.pause();
  }

  function start(line: Line, request: IncomingMessage, response: ServerResponse): void {
    if (isLast(line.ahead === 0 ? answerOn(line.socket) : line.newest)) {
      drop(line);
      return;
    }
    line.newest = response;
    line.ahead += 1;
    response.once('finish', () => {
      line.ahead -= 1;
      if (line.held.length > 0) enlist(line);
    });
    answer(request, response);
  }

  function enlist(line: Line): void {
    if (ready.size === 0) setImmediate(startOneHeld);
    ready.add(line);
  }

  /** One in each turn of the event loop, of whatever connection: thousands that are answered at once must not delay everybody else. */
  function startOneHeld(): void {
    const [line] = ready;
    if (!line) return;
    ready.delete(line);
    if (!line.socket.writable) drop(line);
    const next = line.held.shift();
    if (next) {
      heldInAll -= 1;
      next.endKeeping();
      start(line, next.request, next.response);
    }
    if (line.held.length === 0) line.socket.resume();
    else if (line.ahead < MOST_AHEAD) ready.add(line);
    if (ready.size > 0) setImmediate(startOneHeld);
  }

  function drop(line: Line): void {
    heldInAll -= line.held.length;
    line.held = [];
  }

  return (request, response) => {
    // A response has its socket where no earlier answer is due: nearly every time.
    if (response.socket !== null) {
      answer(request, response);
      return;
    }
    const line = lines.get(request.socket) ?? openLine(request.socket);
    if (line.ahead < MOST_AHEAD && line.held.length === 0) start(line, request, response);
    else hold(line, request, response);
  };
}

/** Whether its connection ends with this answer. In a drain the framework says so before it does anything else. */
function isLast(response: ServerResponse | undefined): boolean {
  return response?.getHeader('connection') === 'close';
}
