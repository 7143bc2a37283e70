import { afterAll, beforeAll } from 'vitest';
import type { Deployment, Stores } from './deployments.js';
import type { Service } from './service.js';

/** One started service for all tests of a suite. Its members may be read in hooks and tests, not while tests register. */
export interface SharedService {
  readonly url: string;
  readonly service: Service;
  readonly stores: Stores;
}

/** Starts a service on fresh stores before the tests of the enclosing suite, and removes both after them. */
export function shareService(deployment: Deployment, environment: Record<string, string> = {}): SharedService {
  let stores: Stores | undefined;
  let service: Service | undefined;

  beforeAll(async () => {
    stores = await deployment.open();
    service = await stores.start(environment);
  });
  afterAll(() => stores?.close());

  return {
    get url() {
      return this.service.url;
    },
    get service() {
      if (!service) throw new Error('the shared service is not started yet');
      return service;
    },
    get stores() {
      if (!stores) throw new Error('the shared stores are not open yet');
      return stores;
    },
  };
}
