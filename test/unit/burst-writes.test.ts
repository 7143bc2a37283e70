import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { writeBeforeClosing, writeInBursts } from '#idempay/http/burst-writes.js';

async function serve(answer: RequestListener) {
  const server = createServer(answer);
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    writeInBursts(socket);
    open.add(socket);
  });
  writeBeforeClosing(server, open);
  onTestFinished(() => {
    server.close();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test('an answer waits for the end of its turn, and no longer', async () => {
  const waiting: number[] = [];
  const { url } = await serve(async ({ socket }, response) => {
    response.end('paid');
    waiting.push(socket.writableLength);
    await endOfTurn();
    waiting.push(socket.writableLength);
  });
  expect(await (await fetch(url)).text()).toBe('paid');
  await expect.poll(() => waiting).toEqual([expect.toSatisfy((bytes) => bytes > 0), 0]);
});

test.each(['closeIdleConnections', 'closeAllConnections', 'close'] as const)(
  '%s in its turn loses no answer',
  async (close) => {
    const { server, url } = await serve(async (_request, response) => {
      // Until the request is read to its end, its connection is not idle for Node.
      await endOfTurn();
      response.end('paid');
      server[close]();
    });
    expect(await (await fetch(url)).text()).toBe('paid');
  },
);

test('what a slow client has not read yet is not cut by closing idle connections', async () => {
  // More than the kernel holds for a client that reads nothing.
  const body = 'x'.repeat(64 * 1024 * 1024);
  const { server } = await serve((_request, response) => response.end(body));
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  const [head] = await once(client, 'data');
  client.pause();
  await endOfTurn();
  server.closeIdleConnections();
  let received = head.length;
  client.on('data', (bytes) => {
    received += bytes.length;
    if (received >= body.length) server.closeIdleConnections();
  });
  client.resume();
  await once(client, 'close');
  expect(received).toBeGreaterThan(body.length);
});
