import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { waitForReaders } from '#idempay/http/connections/connections.js';

async function serve(answer: RequestListener, slowClientMs?: number) {
  const server = createServer(answer);
  const open = new Set<Socket>();
  server.on('connection', (socket) => open.add(socket));
  waitForReaders(server, open, slowClientMs);
  onTestFinished(() => {
    server.close();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { server };
}

// More than the kernel holds for a client that reads nothing.
const LONG_BODY = 'x'.repeat(64 * 1024 * 1024);

/** Longer than a slow machine takes for the body. */
const NEVER_TOO_SLOW_MS = 3_600_000;

async function givenClientThatReadsTheBeginning(server: Server): Promise<{ client: Socket; received: number }> {
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [head] = await once(client, 'data');
  client.pause();
  await endOfTurn();
  return { client, received: head.length };
}

test('what a slow client has not read yet is not cut by closing idle connections', async () => {
  const { server } = await serve((_request, response) => response.end(LONG_BODY), NEVER_TOO_SLOW_MS);
  let { client, received } = await givenClientThatReadsTheBeginning(server);
  const draining = setInterval(() => server.closeIdleConnections(), 10);
  onTestFinished(() => clearInterval(draining));
  client.on('data', (bytes) => {
    received += bytes.length;
  });
  client.resume();
  await once(client, 'close');
  expect(received).toBeGreaterThan(LONG_BODY.length);
});

test('a client that is too slow is cut by closing idle connections', async () => {
  const { server } = await serve((_request, response) => response.end(LONG_BODY), 0);
  let { client, received } = await givenClientThatReadsTheBeginning(server);
  server.closeIdleConnections();
  client.on('data', (bytes) => {
    received += bytes.length;
  });
  client.resume();
  await once(client, 'close');
  expect(received).toBeLessThan(LONG_BODY.length);
});
