import type { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';

/** The steps for the answers that are due on a connection. Node warns of more than ten listeners, and eight answers may be due. */
const stepsBySocket = new WeakMap<Socket, Set<() => void>>();

/**
 * Calls `then` once if the connection closes before the answer is over; at once if it is closed already. The answer itself does not tell:
 * Node emits no `close` on the answer to a pipelined request whose turn has not come when the client disconnects.
 */
export function whenClientIsGone({ request, raw }: FastifyReply, then: () => void): void {
  const { socket } = request.raw;
  if (socket.destroyed) {
    then();
    return;
  }
  const steps = stepsBySocket.get(socket) ?? follow(socket);
  steps.add(then);
  raw.once('close', () => {
    // The close of the connection may reach its current answer first.
    if (steps.delete(then) && socket.destroyed) then();
  });
}

/** Aborted when the connection ends before the answer. */
export function clientGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  whenClientIsGone(reply, () => gone.abort());
  return gone.signal;
}

function follow(socket: Socket): Set<() => void> {
  const steps = new Set<() => void>();
  stepsBySocket.set(socket, steps);
  socket.once('close', () => {
    for (const step of steps) {
      steps.delete(step);
      step();
    }
  });
  return steps;
}
