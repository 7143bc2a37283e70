import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports that the kernel gives to outgoing connections: a client that keeps trying a server that is down could
 * else be given the server's own port, and be connected to itself.
 */
const FIRST_PORT = 20_000;
const PORTS = 12_000;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * PORTS);
    const probe = createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
    } catch {
      continue;
    }
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
