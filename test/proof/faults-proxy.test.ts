import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { pause } from '../../testkit/time/until.js';

const DELAY_MS = 100;
/** A timer may fire a little before the moment by another clock. */
const CLOCK_GRAIN_MS = 10;

describe('a proxy that damages what passes', () => {
  let server: Server;
  let proxy: TcpProxy;
  let received = '';
  const untilReceived = (text: string) => expect.poll(() => received).toBe(text);

  beforeEach(async () => {
    received = '';
    server = createServer((socket) => {
      socket.on('error', () => {}).on('data', (piece) => (received += piece));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    proxy = await startTcpProxy((server.address() as AddressInfo).port);
  });
  afterEach(async () => {
    await proxy.close();
    server.close();
  });

  async function client() {
    const socket = connect({ host: '127.0.0.1', port: proxy.port, noDelay: true }).on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }

  test('delivers what was sent after its sender has gone, once it is whole again', async () => {
    proxy.blackhole('to server');
    const socket = await client();
    socket.write('a charge');
    await pause(50);
    await once(socket.destroy(), 'close');
    expect(received).toBe('');
    proxy.heal();
    await untilReceived('a charge');
  });

  test('delivers it late on a slow network as well', async () => {
    const socket = await client();
    proxy.delay(DELAY_MS);
    const sentAt = performance.now();
    socket.end('a charge');
    await expect.poll(() => received).toBe('a charge');
    expect(performance.now() - sentAt).toBeGreaterThanOrEqual(DELAY_MS - CLOCK_GRAIN_MS);
  });

  test('delivers nothing of a connection that it has cut', async () => {
    proxy.blackhole('to server');
    const socket = await client();
    socket.write('lost');
    await pause(50);
    // Not `once`: it would fail with the reset.
    const closed = new Promise((resolve) => socket.once('close', resolve));
    proxy.cut();
    await closed;
    proxy.heal();
    (await client()).end('heard');
    await untilReceived('heard');
  });
});
