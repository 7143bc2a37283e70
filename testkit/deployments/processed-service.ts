import { afterAll, beforeAll } from 'vitest';
import { type Behaviour, serveReferenceProcessor } from '../processes/reference-processor.js';
import type { Deployment } from './deployments.js';

export type ProcessedService = Awaited<ReturnType<typeof openProcessedService>>;

/**
 * A service whose payments go to a reference processor of its own, both in the process of the test. Recovery comes in its
 * own time, so a payment that was left unclear may be finished before the test looks.
 */
export async function openProcessedService(
  deployment: Deployment,
  behaviour: Partial<Behaviour> = {},
  settings: Record<string, string> = {},
) {
  const [processor, stores] = await Promise.all([serveReferenceProcessor({ behaviour }), deployment.open()]);
  /** The settings that make another service on these stores use the same processor. */
  const environment: Record<string, string> = { PROCESSOR_URL: processor.url, ...settings };
  const service = await stores.serve(environment);
  const close = async () => {
    // First, so that no drain waits for a charge.
    await processor.close();
    await stores.close();
  };
  return { url: service.url, service, stores, processor, environment, close };
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
