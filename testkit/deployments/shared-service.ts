import { afterAll, beforeAll } from 'vitest';
import type { Deployment, Stores } from './deployments.js';

/**
 * Serves on fresh stores, in this process, before the tests of the enclosing suite; removes both after them. Its members
 * may be read in hooks and tests, not while tests register.
 */
export function shareService(deployment: Deployment, environment: Record<string, string> = {}) {
  return share(deployment, (stores) => stores.serve(environment));
}

/** The same with the service as a process of its own, for suites that look at the process or kill it. */
export function shareProcess(deployment: Deployment, environment: Record<string, string> = {}) {
  return share(deployment, (stores) => stores.start(environment));
}

function share<S extends { readonly url: string }>(deployment: Deployment, start: (stores: Stores) => Promise<S>) {
  const shared = {} as { url: string; service: S; stores: Stores };
  beforeAll(async () => {
    shared.stores = await deployment.open();
    shared.service = await start(shared.stores);
    shared.url = shared.service.url;
  });
  afterAll(() => shared.stores?.close());
  return shared;
}
