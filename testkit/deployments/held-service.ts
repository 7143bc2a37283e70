import { afterAll, beforeAll } from 'vitest';
import { openHoldingProcessor } from '../servers/holding-processor.js';
import type { Deployment, Stores } from './deployments.js';

type HoldingProcessor = Awaited<ReturnType<typeof openHoldingProcessor>>;

/**
 * A service whose charges the test ends: each one waits at its processor until the test releases the key. So a payment stays under way
 * for as long as a test looks at it, also if the machine pauses. Its members may be read in hooks and tests.
 */
export function shareHeldService(deployment: Deployment, environment: Record<string, string> = {}) {
  const shared = {} as HoldingProcessor & {
    url: string;
    service: Awaited<ReturnType<Stores['serve']>>;
    stores: Stores;
  };
  let processor: HoldingProcessor | undefined;
  beforeAll(async () => {
    processor = await openHoldingProcessor();
    Object.assign(shared, processor);
    shared.stores = await deployment.open();
    shared.service = await shared.stores.serve({ ...processor.environment, ...environment });
    shared.url = shared.service.url;
  });
  afterAll(async () => {
    // First, so that no drain waits for a charge.
    await processor?.close();
    await shared.stores?.close();
  });
  return shared;
}
