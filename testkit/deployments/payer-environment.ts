import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileExamples } from '../processes/examples.js';
import { type Behaviour, type ChargeLine, serveReferenceProcessor } from '../processes/reference-processor.js';
import { embedded } from './deployments.js';

const PROCESSOR_TIMEOUT_MS = '2000';
const LOCK_TTL_SECONDS = '4';

export type PayerEnvironment = Awaited<ReturnType<typeof openPayerEnvironment>>;

/** What a program of `examples/` that pays needs: a service, its processor with the log of charges, and a folder. */
export async function openPayerEnvironment() {
  const [examples, stores, processor, folder] = await Promise.all([
    compileExamples(),
    embedded.open(),
    serveReferenceProcessor(),
    mkdtemp(join(tmpdir(), 'idempay-example-')),
  ]);
  const service = await stores.serve({ PROCESSOR_URL: processor.url, PROCESSOR_TIMEOUT_MS, LOCK_TTL_SECONDS });
  return {
    examples,
    folder,
    url: service.url,
    behave: (behaviour: Partial<Behaviour>) => processor.behave(behaviour),
    charges: async (): Promise<readonly ChargeLine[]> => processor.charges(),
    async close(): Promise<void> {
      await processor.close();
      await stores.close();
      await examples.remove();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
