// A process with connections that never come to an end: each sends a request byte by byte, half of them the head, half of them
// the body, and connects again when it is cut. bench/trickle.mjs starts it.
import { connect } from 'node:net';

/** Each connection sends one byte in this time: below every time-out between two bytes. */
const BYTE_EVERY_MS = 1000;
const TICK_MS = 20;
/** Between two connections at the start: a burst of them is another test. */
const CONNECT_EVERY_MS = 2;

const HEAD = `POST /api/payment HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Filler: ${'x'.repeat(8000)}`;
const BODY_HEAD =
  'POST /api/payment HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n' +
  'Idempotency-Key: 018f0000-0000-7000-8000-000000000000\r\nContent-Length: 16000\r\n\r\n';

async function run({ port, connections, seconds }) {
  const open = new Set();
  const lives = { head: [], body: [] };
  let [most, isOver] = [0, false];

  function begin(part) {
    if (isOver) return;
    const beganAt = performance.now();
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    const client = { socket, part, sent: 0 };
    socket.on('error', () => {});
    socket.resume();
    socket.once('connect', () => {
      if (part === 'body') socket.write(BODY_HEAD);
      open.add(client);
      most = Math.max(most, open.size);
    });
    socket.once('close', () => {
      open.delete(client);
      if (isOver) return;
      lives[part].push((performance.now() - beganAt) / 1000);
      begin(part);
    });
  }

  for (let index = 0; index < connections; index += 1) {
    setTimeout(begin, index * CONNECT_EVERY_MS, index % 2 === 0 ? 'head' : 'body');
  }
  let turn = 0;
  const parts = BYTE_EVERY_MS / TICK_MS;
  // A part of them in each tick, so that the bytes come all the time.
  const timer = setInterval(() => {
    turn += 1;
    let index = 0;
    for (const client of open) {
      index += 1;
      if (index % parts !== turn % parts || !client.socket.writable) continue;
      client.socket.write(client.part === 'head' ? (HEAD[client.sent] ?? 'x') : ' ');
      client.sent += 1;
    }
  }, TICK_MS);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  isOver = true;
  clearInterval(timer);
  for (const { socket } of open) socket.destroy();
  return { most, cutHeads: summaryOf(lives.head), cutBodies: summaryOf(lives.body) };
}

function summaryOf(lives) {
  lives.sort((a, b) => a - b);
  return { count: lives.length, medianSeconds: lives[Math.floor(lives.length / 2)], longestSeconds: lives.at(-1) };
}

process.on('message', (plan) => run(plan).then((result) => process.send(result)));
process.once('disconnect', () => process.exit());
