import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { compileExamples } from '../processes/examples.js';
import { type Behaviour, type ChargeLine, serveReferenceProcessor } from '../processes/reference-processor.js';
import { startService } from '../processes/service.js';
import { freePort } from '../servers/server-process.js';
import { embedded } from './deployments.js';

const PROCESSOR_TIMEOUT_MS = '2000';
const LOCK_TTL_SECONDS = '4';
const PROMPT: Partial<Behaviour> = {
  declineRate: 0,
  latencyMs: 0,
  replyLatencyMs: 0,
  lostReplyRate: 0,
  pendingRate: 0,
  refundPendingRate: 0,
  endWith: null,
};

/**
 * The environment of a program of `examples/` that pays: a service as a process, its processor with the log of charges, and a folder. One
 * for all tests of a suite; each test begins with a processor that charges at once. Its members may be read in hooks and tests, not while
 * tests register.
 */
export function sharePayerEnvironment() {
  const environment = {} as Awaited<ReturnType<typeof openPayerEnvironment>>;
  let chargedBefore = 0;
  beforeAll(async () => {
    Object.assign(environment, await openPayerEnvironment());
  });
  afterAll(() => environment.close?.());
  beforeEach(async () => {
    await environment.behave(PROMPT);
    chargedBefore = (await environment.charges()).length;
  });
  /** The charges of the test that runs. */
  const newCharges = async () => (await environment.charges()).slice(chargedBefore);
  return Object.assign(environment, { newCharges });
}

async function openPayerEnvironment() {
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
    refundsOf: (key: string) => processor.refundsOf(key),
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
