import type { IncomingMessage } from 'node:http';

/** Usual clients together send far fewer: their chunks are as long as a read of the socket. */
const CHUNKS_OF_A_TURN = 1_000;
/** Between two turns everything else goes on. Node accepts one connection in each step of its event loop, so the steps must be short. */
const TURN_MS = 50;

let chunks = 0;
let isTurnOpen = false;
/** Continues a connection. */
const line: (() => void)[] = [];
const waiting = new WeakSet<IncomingMessage>();

/**
 * Called for each further chunk of a body. A megabyte in chunks of one byte is a second of work, and Node reads two megabytes of a
 * connection in a row. So beyond some chunks in a turn the connections wait, and one of them goes on in each turn.
 */
export function noteChunk(request: IncomingMessage): void {
  chunks += 1;
  if (!isTurnOpen) {
    isTurnOpen = true;
    setTimeout(endTurn, TURN_MS);
  }
  if (chunks <= CHUNKS_OF_A_TURN || waiting.has(request)) return;
  waiting.add(request);
  const { socket } = request;
  const pause = () => void socket.pause();
  pause();
  // Node resumes the socket after each chunk that was taken.
  socket.on('resume', pause);
  line.push(() => {
    waiting.delete(request);
    socket.removeListener('resume', pause);
    socket.resume();
  });
}

function endTurn(): void {
  chunks = 0;
  line.shift()?.();
  isTurnOpen = line.length > 0;
  if (isTurnOpen) setTimeout(endTurn, TURN_MS);
}
