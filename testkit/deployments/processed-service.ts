import { afterAll, beforeAll } from 'vitest';
import { type Behaviour, type ProcessorInProcess, serveReferenceProcessor } from '../processes/reference-processor.js';
import type { ServiceInProcess } from '../processes/service-in-process.js';
import type { Deployment, Stores } from './deployments.js';

/** A service whose payments go to a reference processor of its own, both in the process of the test. */
export interface ProcessedService {
  readonly url: string;
  readonly service: ServiceInProcess;
  readonly stores: Stores;
  readonly processor: ProcessorInProcess;
  /** The settings that make another service on these stores use the same processor. */
  readonly environment: Record<string, string>;
  close(): Promise<void>;
}

/** Recovery comes in its own time, so a payment that was left unclear may be finished before the test looks. */
export async function openProcessedService(
  deployment: Deployment,
  behaviour: Partial<Behaviour> = {},
  settings: Record<string, string> = {},
): Promise<ProcessedService> {
  const [processor, stores] = await Promise.all([serveReferenceProcessor({ behaviour }), deployment.open()]);
  const environment = { PROCESSOR_URL: processor.url, ...settings };
  const close = async () => {
    // First, so that no drain waits for a charge.
    await processor.close();
    await stores.close();
  };
  try {
    const service = await stores.serve(environment);
    return { url: service.url, service, stores, processor, environment, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** One for all tests of a suite; to be read in hooks and tests, not while tests register. */
export function shareProcessedService(...options: Parameters<typeof openProcessedService>): () => ProcessedService {
  let open: ProcessedService;
  beforeAll(async () => {
    open = await openProcessedService(...options);
  });
  afterAll(() => open?.close());
  return () => open;
}
