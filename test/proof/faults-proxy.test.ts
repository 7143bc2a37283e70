import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { until } from '../../testkit/time/until.js';

const LIMIT_MS = 10_000;

describe('a proxy that damages what passes', () => {
  let server: Server;
  let proxy: TcpProxy;
  let received = '';

  beforeEach(async () => {
    received = '';
    server = createServer((socket) => {
      socket.on('data', (piece) => {
        received += piece;
        socket.write(`got ${piece}`);
      });
      socket.on('error', () => {});
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    proxy = await startTcpProxy((server.address() as AddressInfo).port);
  });
  afterEach(async () => {
    await proxy.close();
    server.close();
  });

  async function client() {
    const socket = connect({ host: '127.0.0.1', port: proxy.port, noDelay: true });
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }

  test('delivers what was sent after its sender has gone, once it is whole again', async () => {
    proxy.blackhole('to server');
    const socket = await client();
    socket.write('a charge');
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.destroy();
    await once(socket, 'close');
    expect(received).toBe('');
    proxy.heal();
    await until('the late message', LIMIT_MS, () => received === 'a charge');
  });

  test('delivers it late on a slow network as well', async () => {
    proxy.delay(100);
    const socket = await client();
    socket.end('a charge');
    await until('the late message', LIMIT_MS, () => received === 'a charge');
  });

  test('delivers nothing of a connection that it has cut', async () => {
    proxy.blackhole('to server');
    const socket = await client();
    socket.write('lost');
    await new Promise((resolve) => setTimeout(resolve, 50));
    // Not `once`: it would fail with the reset.
    const closed = new Promise((resolve) => socket.once('close', resolve));
    proxy.cut();
    await closed;
    proxy.heal();
    const next = await client();
    next.write('heard');
    const [reply] = (await once(next, 'data')) as [Buffer];
    expect(String(reply)).toBe('got heard');
    expect(received).toBe('heard');
    next.destroy();
  });
});
