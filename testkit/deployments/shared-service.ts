import { afterAll, beforeAll } from 'vitest';
import type { Service } from '../processes/service.js';
import type { ServiceInProcess } from '../processes/service-in-process.js';
import type { Deployment, Stores } from './deployments.js';

/** One started service for all tests of a suite. Its members may be read in hooks and tests, not while tests register. */
export interface SharedService<Running = ServiceInProcess> {
  readonly url: string;
  readonly service: Running;
  readonly stores: Stores;
}

/** Serves on fresh stores, in this process, before the tests of the enclosing suite; removes both after them. */
export function shareService(deployment: Deployment, environment: Record<string, string> = {}): SharedService {
  return share(deployment, (stores) => stores.serve(environment));
}

/** The same with the service as a process of its own, for suites that look at the process or kill it. */
export function shareProcess(deployment: Deployment, environment: Record<string, string> = {}): SharedService<Service> {
  return share(deployment, (stores) => stores.start(environment));
}

function share<Running extends { readonly url: string }>(
  deployment: Deployment,
  start: (stores: Stores) => Promise<Running>,
): SharedService<Running> {
  let open: { stores: Stores; service: Running };
  beforeAll(async () => {
    const stores = await deployment.open();
    try {
      open = { stores, service: await start(stores) };
    } catch (error) {
      await stores.close();
      throw error;
    }
  });
  afterAll(() => open?.stores.close());
  return {
    get url() {
      return open.service.url;
    },
    get service() {
      return open.service;
    },
    get stores() {
      return open.stores;
    },
  };
}
