import { once } from 'node:events';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { createListener } from '#idempay/http/connections/listener.js';
import { limitPipelined } from '#idempay/http/connections/pipelined-requests.js';
import { requestText, statusesIn } from '../../testkit/client/raw-http.js';
import { pause, until } from '../../testkit/time/until.js';

const READ = requestText('GET / HTTP/1.1');
const DEADLINE_MS = 10_000;
/** Much longer than a read of the loopback takes. */
const QUIET_MS = 200;
/** The first one, and seven that were begun behind it. */
const AT_WORK = 8;

/**
 * Bug: three connections that sent 64 kB of requests and read nothing cost two gigabytes, and `/livez` was silent for half a minute.
 * Cause: Node emits every request that one read of a socket holds, and all of them were answered at once. Fix: a few are.
 */
async function serve(answer: RequestListener, mostLeft?: number) {
  return listen(createServer(limitPipelined(answer, mostLeft)));
}

/** With all that is in front of the application. */
function serveListener(answer: RequestListener) {
  const listener = createListener(pino({ level: 'silent' }));
  listener.serve(answer);
  return listen(listener.server);
}

async function listen(server: Server) {
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

test('eight requests of a connection are begun, the rest of the socket is not read, and the connection ends after their answers', async () => {
  const started: ServerResponse[] = [];
  const { open, sockets } = await serve((_request, response) => void started.push(response));
  const client = open(READ.repeat(1_000));
  const received = text(client);
  await until('the first requests to be begun', DEADLINE_MS, () => started.length === AT_WORK);
  const read = sockets[0]?.bytesRead;
  for (let times = 0; times < 20; times += 1) client.write(READ.repeat(1_000));
  await pause(QUIET_MS);
  expect(sockets[0]?.bytesRead).toBe(read);
  // In another sequence than they were asked in: the connection waits for all of them.
  for (const response of started.toReversed()) response.end();
  expect(statusesIn(await received)).toEqual(Array(AT_WORK).fill(200));
  expect(started).toHaveLength(AT_WORK);
});

test('a few at once are answered in their order, also with a body that comes late, and the connection goes on', async () => {
  const { open } = await serve(async (request, response) => {
    const body = await text(request);
    await pause(Math.random() * 3);
    response.end(`[${request.url}${body}]`);
  });
  const paths = Array.from({ length: AT_WORK - 1 }, (_, index) => `/${index}`);
  const few = paths.map((path) => requestText(`GET ${path} HTTP/1.1`)).join('');
  const post = requestText('POST /late HTTP/1.1', ['Content-Length: 8'], 'body');
  const last = requestText('POST /last HTTP/1.1', ['Content-Length: 0', 'Connection: close']);
  const client = open(few + post);
  let received = '';
  client.on('data', (bytes) => {
    received += bytes;
  });
  const answered = () => received.match(/(?<=\[)[^\]]+/g) ?? [];
  await until('all but the late one', DEADLINE_MS, () => answered().length === paths.length);
  client.write('!end');
  await until('the late one', DEADLINE_MS, () => answered().length === AT_WORK);
  client.write(few + last);
  await once(client, 'end');
  expect(answered()).toEqual([...paths, '/latebody!end', ...paths, '/last']);
});

test('the answers to the requests that were begun are whole, also where much was left unread', async () => {
  const LONG = 'x'.repeat(1_000_000);
  const { open } = await serve((_request, response) => void response.end(LONG));
  const client = open(READ.repeat(20_000));
  const received = await text(client);
  expect(statusesIn(received)).toEqual(Array(AT_WORK).fill(200));
  expect(received.split(LONG)).toHaveLength(AT_WORK + 1);
});

test('one behind an answer that ends the connection is not begun', async () => {
  let started = 0;
  const { open } = await serve((_request, response) => {
    started += 1;
    if (started === 2) response.setHeader('Connection', 'close');
    setImmediate(() => response.end());
  });
  expect(statusesIn(await text(open(READ.repeat(100))))).toEqual([200, 200]);
  expect(started).toBe(2);
});

/**
 * Bug: requests behind a refused expectation were begun, and their answers were lost. Cause: only a header that was set was noticed, and a
 * refusal gave its `Connection: close` with the head, or Node added it. Fix: an answer that may not keep its connection is the last one.
 */
test.each([
  ['an unknown one', requestText('GET /first HTTP/1.1', ['Expect: a-miracle']), [], 417],
  [
    'a body that was not asked for',
    requestText('POST /first HTTP/1.1', ['Expect: 100-continue', 'Content-Length: 4'], 'body'),
    ['/first'],
    200,
  ],
])('one behind an expectation that is not met is not begun: %s', async (_what, first, expected, status) => {
  const begun: unknown[] = [];
  const { open } = await serveListener((request, response) => {
    begun.push(request.url);
    response.end();
  });
  expect(statusesIn(await text(open(first + READ.repeat(10))))).toEqual([status]);
  expect(begun).toEqual(expected);
});

/**
 * Bug: a part of a request's body was begun as a request of its own. Cause: Node drops the bytes that it has read behind a request with
 * `Upgrade`, also if nobody upgrades, and reads on in the middle of the next request. Fix: the answer to such a request is the last one.
 */
test.each([
  ['a request', requestText('GET /a HTTP/1.1', ['Connection: keep-alive, UPGRADE', 'Upgrade: h2c'])],
  [
    'a request with a body',
    requestText('POST /a HTTP/1.1', ['Connection: Upgrade', 'Upgrade: h2c', 'Content-Length: 4'], 'body'),
  ],
])('what follows %s that asks for an upgrade is never begun', async (_what, upgrade) => {
  const started: ServerResponse[] = [];
  const { open } = await serveListener((_request, response) => void started.push(response));
  const smuggled = requestText('GET /smuggled HTTP/1.1');
  const client = open(upgrade + requestText('POST /first HTTP/1.1', [`Content-Length: ${smuggled.length}`]));
  const received = text(client);
  await until('the request to be begun', DEADLINE_MS, () => started.length === 1);
  client.write(smuggled);
  await pause(QUIET_MS);
  expect(started.map(({ req }) => req.url)).toEqual(['/a']);
  started[0]?.end();
  const answers = await received;
  expect(statusesIn(answers)).toEqual([200]);
  expect(answers).toMatch(/^connection: close\r$/im);
});

test('nothing is begun on a connection whose last answer is written', async () => {
  // One read of a socket: the rest comes with the next one, after the answer.
  const READ_BYTES = 65_536;
  const begun: unknown[] = [];
  const { open, sockets } = await serveListener((request, response) => {
    begun.push(request.url);
    response.end();
  });
  const upgrade = requestText('GET /a HTTP/1.1', ['Connection: Upgrade', 'Upgrade: h2c']);
  for (let times = 0; times < 20; times += 1) {
    const client = open(upgrade.padEnd(READ_BYTES, 'x') + requestText('GET /smuggled HTTP/1.1'));
    await text(client.end()).catch(() => {});
  }
  expect(sockets.length).toBe(20);
  expect(new Set(begun)).toEqual(new Set(['/a']));
});

test('a connection is closed at once if too many requests are left in all, and there is room again after it', async () => {
  const MOST_LEFT = 20;
  const started: ServerResponse[] = [];
  const { open, sockets } = await serve((_request, response) => void started.push(response), MOST_LEFT);
  const kept = open(READ.repeat(AT_WORK + 10));
  const received = text(kept);
  await until('the first requests to be begun', DEADLINE_MS, () => started.length === AT_WORK);
  for (let times = 0; times < 3; times += 1) await once(open(READ.repeat(AT_WORK + 100)).resume(), 'close');
  const mine = started.slice(0, AT_WORK);
  for (const response of mine) response.end();
  expect(statusesIn(await received)).toEqual(Array(AT_WORK).fill(200));
  await until('the end of the connection', DEADLINE_MS, () => sockets.every(({ destroyed }) => destroyed));
  started.length = 0;
  const next = open(READ.repeat(AT_WORK + 15));
  await until('as many of the next connection', DEADLINE_MS, () => started.length === AT_WORK);
  await pause(QUIET_MS);
  expect(next.destroyed).toBe(false);
  next.destroy();
});
