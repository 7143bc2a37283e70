import { afterAll, beforeAll } from 'vitest';
import { type Behaviour, type ReferenceProcessor, startReferenceProcessor } from '../processes/reference-processor.js';
import type { Service } from '../processes/service.js';
import type { Deployment, Stores } from './deployments.js';

/** A service whose payments go to a reference processor of its own. */
export interface ProcessedService {
  readonly url: string;
  readonly service: Service;
  readonly stores: Stores;
  readonly processor: ReferenceProcessor;
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
  const [processor, stores] = await Promise.all([startReferenceProcessor({ behaviour }), deployment.open()]);
  const environment = { PROCESSOR_URL: processor.url, ...settings };
  const close = async () => {
    await stores.close();
    await processor.close();
  };
  try {
    const service = await stores.start(environment);
    return { url: service.url, service, stores, processor, environment, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** One for all tests of a suite; to be read in hooks and tests, not while tests register. */
export function shareProcessedService(
  deployment: Deployment,
  behaviour: Partial<Behaviour> = {},
  settings: Record<string, string> = {},
): () => ProcessedService {
  let open: ProcessedService | undefined;
  beforeAll(async () => {
    open = await openProcessedService(deployment, behaviour, settings);
  });
  afterAll(() => open?.close());
  return () => {
    if (!open) throw new Error('the service is not started yet');
    return open;
  };
}
