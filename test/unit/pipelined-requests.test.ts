import { once } from 'node:events';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { limitPipelined } from '#idempay/http/connections/pipelined-requests.js';
import { requestText, statusesIn } from '../../testkit/client/raw-http.js';
import { pause, until } from '../../testkit/time/until.js';

const READ = requestText('GET / HTTP/1.1');
const DEADLINE_MS = 10_000;
/** Much longer than a read of the loopback takes. */
const QUIET_MS = 200;
/** The first one, and three that were started behind it. */
const AT_WORK = 4;

/**
 * Bug: three connections that sent 64 kB of requests and read nothing cost two gigabytes, and `/livez` was silent for half a minute.
 * Cause: Node emits every request that one read of a socket holds, and all of them were answered at once. Fix: a few are.
 */
async function serve(answer: RequestListener, mostHeld?: number) {
  const server = createServer(limitPipelined(answer, mostHeld));
  server.on('connection', (socket) => void sockets.push(socket));
  const sockets: Socket[] = [];
  await once(server.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const open = (bytes: string) => {
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
    client.write(bytes);
    return client;
  };
  return { open, sockets };
}

test('at most four requests of a connection are worked on, and the rest of the socket is not read', async () => {
  const started: ServerResponse[] = [];
  const { open, sockets } = await serve((_request, response) => void started.push(response));
  const client = open(READ.repeat(1_000));
  await until('the first requests to be started', DEADLINE_MS, () => started.length === AT_WORK);
  const read = sockets[0]?.bytesRead;
  for (let times = 0; times < 20; times += 1) client.write(READ.repeat(1_000));
  await pause(QUIET_MS);
  expect(started).toHaveLength(AT_WORK);
  expect(sockets[0]?.bytesRead).toBe(read);
  for (const response of started.slice(0, 2)) response.end();
  await until('the next one to be started', DEADLINE_MS, () => started.length === AT_WORK + 1);
  await pause(QUIET_MS);
  expect(started).toHaveLength(AT_WORK + 1);
});

test('all are answered in their order, also those that the socket was paused before, and bodies that come late', async () => {
  const { open } = await serve(async (request, response) => {
    const body = await text(request);
    await pause(Math.random() * 3);
    response.end(`[${request.url}${body}]`);
  });
  const paths = Array.from({ length: 300 }, (_, index) => `/${index}`);
  const post = requestText('POST /late HTTP/1.1', ['Content-Length: 8', 'Connection: close'], 'body');
  const client = open(paths.map((path) => requestText(`GET ${path} HTTP/1.1`)).join('') + post);
  setTimeout(() => client.write('!end'), QUIET_MS);
  const received = await text(client);
  expect(received.match(/(?<=\[)[^\]]+/g)).toEqual([...paths, '/latebody!end']);
});

test('one that a client has left is not started', async () => {
  const started: ServerResponse[] = [];
  const { open, sockets } = await serve((_request, response) => void started.push(response));
  const client = open(READ.repeat(100));
  await until('the first requests to be started', DEADLINE_MS, () => started.length === AT_WORK);
  const [socket] = sockets as [Socket];
  client.resetAndDestroy();
  for (const response of started) response.end();
  await until('the end of the connection', DEADLINE_MS, () => socket.destroyed);
  await pause(QUIET_MS);
  expect(started.length).toBeLessThan(3 * AT_WORK);
});

test('one behind an answer that ends the connection is not started', async () => {
  let started = 0;
  const { open } = await serve((_request, response) => {
    started += 1;
    if (started === 2) response.setHeader('Connection', 'close');
    setImmediate(() => response.end());
  });
  expect(statusesIn(await text(open(READ.repeat(100))))).toEqual([200, 200]);
  expect(started).toBe(2);
});

test('a connection is closed where too many requests are held in all, and there is room again after it', async () => {
  const MOST_HELD = 20;
  const started: ServerResponse[] = [];
  const { open } = await serve((_request, response) => void started.push(response), MOST_HELD);
  const kept = open(READ.repeat(AT_WORK + 10));
  await until('the first requests to be started', DEADLINE_MS, () => started.length === AT_WORK);
  for (let times = 0; times < 3; times += 1) await once(open(READ.repeat(AT_WORK + 100)), 'close');
  let received = '';
  kept.on('data', (bytes) => {
    received += bytes;
  });
  await until('the answers to the connection that was there before', DEADLINE_MS, () => {
    for (const response of started) response.end();
    return statusesIn(received).length === AT_WORK + 10;
  });
});
