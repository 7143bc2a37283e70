import type { FastifyRequest } from 'fastify';
import { FairLine } from '../../limits/fair-line.js';
import { networkOf } from './request-limit-hook.js';

/** Usual clients together send far fewer: their chunks are as long as a read of the socket. */
const CHUNKS_OF_A_TURN = 1_000;
/** Between two turns everything else goes on. Node accepts one connection in each step of its event loop, so the steps must be short. */
const TURN_MS = 50;

let chunks = 0;
let isTurnOpen = false;
/** Each entry continues one connection. Addresses take turns, so that one with many connections delays no other by more than a round. */
const line = new FairLine<() => void>();
const waiting = new WeakSet<object>();

/**
 * Called for each further chunk of a body. A megabyte in chunks of one byte is a second of work, and Node reads two megabytes of a
 * connection in a row. So beyond some chunks in a turn the connections wait, and one of them goes on in each turn.
 */
export function noteChunk(request: Pick<FastifyRequest, 'raw' | 'address'>): void {
  chunks += 1;
  if (!isTurnOpen) {
    isTurnOpen = true;
    setTimeout(endTurn, TURN_MS);
  }
  const { raw } = request;
  const { socket } = raw;
  if (chunks <= CHUNKS_OF_A_TURN || waiting.has(raw) || socket.destroyed) return;
  waiting.add(raw);
  const address = networkOf(request.address);
  const pause = () => void socket.pause();
  const goOn = () => {
    waiting.delete(raw);
    socket.off('resume', pause).off('close', leave).resume();
  };
  const leave = () => line.remove(address, goOn);
  pause();
  // Node resumes the socket after each chunk that was taken.
  socket.on('resume', pause).once('close', leave);
  line.add(address, goOn);
}

function endTurn(): void {
  chunks = 0;
  line.next()?.();
  isTurnOpen = line.length > 0;
  if (isTurnOpen) setTimeout(endTurn, TURN_MS);
}
