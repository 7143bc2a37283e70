import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { createListener } from '#idempay/http/connections/listener.js';
import { patience } from '../../testkit/time/patience.js';

const KERNEL_LIMIT = '/proc/sys/net/core/somaxconn';
/** Kernels allow 128 places at least, and Linux 4,096 since 5.4. */
const CONNECTIONS = Math.min(800, existsSync(KERNEL_LIMIT) ? Number(readFileSync(KERNEL_LIMIT, 'utf8')) : 128);
const DEADLINE_MS = patience(20_000);

/** Opens connections, and prints how many of them the kernel has made. One that was dropped is tried again after a second at the earliest. */
const OPEN = `
  const { connect } = require('node:net');
  let open = 0;
  const end = () => process.stdout.write(String(open), () => process.exit());
  for (let index = 0; index < ${CONNECTIONS}; index += 1) {
    connect(Number(process.argv[1]), '127.0.0.1', () => ++open === ${CONNECTIONS} && end()).on('error', () => {});
  }
  setTimeout(end, ${DEADLINE_MS});
`;

/**
 * Bug: the kernel dropped connections of quiet clients while another one opened hundreds. Cause: the queue of new connections had 511 places.
 * Fix: a longer queue.
 */
test('hundreds of connections that come while a process is busy are kept', async () => {
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const listener = createListener(silent);
  const port = await listener.listen('127.0.0.1', 0);
  onTestFinished(() => {
    listener.server.closeAllConnections();
    return listener.close();
  });
  // This process waits for the other one, and accepts nothing meanwhile.
  const { stdout } = spawnSync(process.execPath, ['-e', OPEN, `${port}`], { encoding: 'utf8' });
  expect(Number(stdout)).toBe(CONNECTIONS);
});
