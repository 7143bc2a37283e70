import { readFile } from 'node:fs/promises';
import { Agent } from 'node:https';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { openConnection, requestText } from '../../testkit/client/raw-http.js';
import { embedded, type Stores } from '../../testkit/deployments/deployments.js';
import { openSockets } from '../../testkit/processes/open-sockets.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';
import { until } from '../../testkit/time/until.js';

const CONNECTIONS = 150;
const DEADLINE_MS = 30_000;
/** Before, they cost 1.5 MB each, and once more in the copy of TLS. */
const MOST_MEGABYTES = 80;

let certificates: Awaited<ReturnType<typeof makeCertificates>>;
let stores: Stores;
beforeAll(async () => {
  [certificates, stores] = await Promise.all([makeCertificates(), embedded.open()]);
});
afterAll(async () => {
  await stores?.close();
  await certificates?.remove();
});

/** Bug, cause and fix: `unit/unread-answers`. */
test('connections over TLS that ask for the script of /docs and read nothing cost little memory', async () => {
  const service = await stores.start({
    TLS_CERT_FILE: certificates.certificate,
    TLS_KEY_FILE: certificates.key,
  });
  const authority = await readFile(certificates.authority);
  const agent = new Agent({ ca: authority });
  const script = requestText('GET /docs/swagger-ui-bundle.js HTTP/1.1');
  // The first one has the file read, and its pages made.
  const clients = [openConnection(service.port, script, { authority }).pause()];
  await until('the first to be connected', DEADLINE_MS, async () => (clients[0]?.bytesWritten ?? 0) > 0);
  const before = await residentMegabytes(service.pid);
  const socketsBefore = await openSockets(service);
  for (let client = 0; client < CONNECTIONS; client += 1)
    clients.push(openConnection(service.port, script, { authority }).pause());
  await until('all to be open', DEADLINE_MS, async () => (await openSockets(service)) >= socketsBefore + CONNECTIONS);
  await until('all to have asked', DEADLINE_MS, () => clients.every(({ bytesWritten }) => bytesWritten > 0));
  // An answer to a later request of another connection: those before it have been given out.
  for (let look = 0; look < 3; look += 1) {
    const answer = await ask(`https://localhost:${service.port}/livez`, { agent });
    expect(answer.status).toBe(200);
  }
  expect((await residentMegabytes(service.pid)) - before).toBeLessThan(MOST_MEGABYTES);
  for (const client of clients) client.destroy();
  await service.stop();
});

async function residentMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}
