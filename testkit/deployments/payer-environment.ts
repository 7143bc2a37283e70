import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileExamples } from '../processes/examples.js';
import { type Behaviour, type ChargeLine, serveReferenceProcessor } from '../processes/reference-processor.js';
import { startService } from '../processes/service.js';
import { freePort } from '../servers/server-process.js';
import { embedded } from './deployments.js';

const PROCESSOR_TIMEOUT_MS = '2000';
const LOCK_TTL_SECONDS = '4';

export type PayerEnvironment = Awaited<ReturnType<typeof openPayerEnvironment>>;

/** What a program of `examples/` that pays needs: a service as a process, its processor with the log of charges, and a folder. */
export async function openPayerEnvironment() {
  const [examples, stores, processor, folder, port] = await Promise.all([
    compileExamples(),
    embedded.open(),
    serveReferenceProcessor(),
    mkdtemp(join(tmpdir(), 'idempay-example-')),
    freePort(),
  ]);
  const start = () =>
    startService({
      ...stores.environment,
      PORT: `${port}`,
      PROCESSOR_URL: processor.url,
      PROCESSOR_TIMEOUT_MS,
      LOCK_TTL_SECONDS,
    });
  let service = await start();
  return {
    examples,
    folder,
    url: service.url,
    behave: (behaviour: Partial<Behaviour>) => processor.behave(behaviour),
    charges: async (): Promise<readonly ChargeLine[]> => processor.charges(),
    /** In the middle of whatever it does. */
    async killService(): Promise<void> {
      await service.kill();
    },
    /** At the same address, with what the one before kept. */
    async startService(): Promise<void> {
      service = await start();
    },
    async close(): Promise<void> {
      await service.kill();
      await processor.close();
      await stores.close();
      await examples.remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
