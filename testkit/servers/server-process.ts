import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Sends the signal unless the process has ended already; nothing of it runs any more when this resolves. */
export async function endServer(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  await exited;
}

/**
 * Below the ports that the kernel gives to outgoing connections: a client that keeps trying a server that is down could
 * else be given the server's own port, and be connected to itself.
 */
const FIRST_PORT = 20_000;
/** Each worker of a run has a share of its own, because a port is free as well while its server is started again. */
const SHARES = 8;
const PORTS_OF_SHARE = 750;
/** Two runs at the same time have workers with the same numbers. One of them sets this to 1, as `.ci/run` does, and has other shares. */
const RUN = Number(process.env.IDEMPAY_TEST_RUN ?? 0) % 2;
const share = RUN * SHARES + (Number(process.env.VITEST_POOL_ID ?? 0) % SHARES);
/** Between the probe and the server's own start a port is free, and must not be given a second time. */
const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + share * PORTS_OF_SHARE + Math.floor(Math.random() * PORTS_OF_SHARE);
    if (given.has(port)) continue;
    given.add(port);
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
