/**
 * Bug: a body in chunks of one byte that nobody reads yet cost up to 10 MB for a connection, for as long as its credentials were checked.
 * Cause: Node pauses the connection after some kilobytes, and keeps each chunk of what it has read as an object.
 * Fix: the chunks are joined.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { keepSmall } from '#idempay/http/requests/unread-bodies.js';
import { usedMegabytes } from '../../testkit/heap.js';
import { pause, until } from '../../testkit/time/until.js';

const CHUNKED = 'Transfer-Encoding: chunked';
/** Each of its bytes is a chunk. */
const inChunks = (body: string) => `${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`;
const textOf = (length: number) => Array.from({ length }, (_, index) => String(index % 10)).join('');

/** A server that keeps what arrives until it is read. */
async function keepingServer() {
  const requests: IncomingMessage[] = [];
  const ends: (() => void)[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    ends.push(keepSmall(request));
    response.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const send = (lines: string, body: string) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    socket.write(`POST / HTTP/1.1\r\nHost: a\r\n${lines}\r\n\r\n${body}`);
    return socket;
  };
  /** The body of the only request, which nobody has read until then. */
  const read = async () => {
    const request = await until('a request comes', 5_000, () => requests[0]);
    // All bytes of its connection are there, or Node has paused.
    await pause(50);
    ends[0]?.();
    return request.readableEnded ? '' : (await buffer(request)).toString();
  };
  return { requests, send, read };
}

test.each([
  ['nothing, in no chunk', CHUNKED, ''],
  ['one byte', CHUNKED, '1'],
  ['as many bytes as are joined', CHUNKED, textOf(256)],
  ['less than Node keeps', CHUNKED, textOf(9_000)],
  ['more than Node keeps', CHUNKED, textOf(100_000)],
  ['a length that was announced', 'Content-Length: 100000', textOf(100_000)],
])('a body of %s is read as it was sent', async (_what, lines, body) => {
  const { send, read } = await keepingServer();
  send(lines, lines === CHUNKED ? inChunks(body) : body);
  expect(await read()).toBe(body);
});

test('bodies in chunks of one byte cost little while nobody reads them', async () => {
  const CONNECTIONS = 20;
  const { requests, send } = await keepingServer();
  const text = inChunks(textOf(50_000));
  const before = usedMegabytes();
  for (let connection = 0; connection < CONNECTIONS; connection += 1) send(CHUNKED, text);
  await until('all have arrived', 20_000, () => requests.length === CONNECTIONS);
  await pause(300);
  // Without joining 4 MB each. The rest is what the clients have not sent.
  expect(usedMegabytes() - before).toBeLessThan(CONNECTIONS * 0.8);
});
