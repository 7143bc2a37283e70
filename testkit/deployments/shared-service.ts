import { afterAll, beforeAll } from 'vitest';
import type { Service } from '../processes/service.js';
import type { ServiceInProcess } from '../processes/service-in-process.js';
import type { Deployment, Stores } from './deployments.js';

/** One started service for all tests of a suite. Its members may be read in hooks and tests, not while tests register. */
export interface SharedService<Running = ServiceInProcess> {
  url: string;
  service: Running;
  stores: Stores;
}

/** Serves on fresh stores, in this process, before the tests of the enclosing suite; removes both after them. */
export function shareService(deployment: Deployment, environment: Record<string, string> = {}) {
  return share<ServiceInProcess>(deployment, (stores) => stores.serve(environment));
}

/** The same with the service as a process of its own, for suites that look at the process or kill it. */
export function shareProcess(deployment: Deployment, environment: Record<string, string> = {}) {
  return share<Service>(deployment, (stores) => stores.start(environment));
}

function share<Running extends { readonly url: string }>(
  deployment: Deployment,
  start: (stores: Stores) => Promise<Running>,
): Readonly<SharedService<Running>> {
  const shared = {} as SharedService<Running>;
  beforeAll(async () => {
    shared.stores = await deployment.open();
    shared.service = await start(shared.stores);
    shared.url = shared.service.url;
  });
  afterAll(() => shared.stores?.close());
  return shared;
}
