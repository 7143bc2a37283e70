import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import type { Access } from '../access/access.js';
import type { Scope } from '../access/scopes.js';
import { createReadiness } from '../health/readiness.js';
import { createListener } from '../http/connections/listener.js';
import type { Operation } from '../http/openapi/openapi.js';
import { createServer, type Features } from '../http/server.js';
import { UnpaidKeys } from '../limits/unpaid-keys.js';
import { LiveView } from '../live/live-view.js';
import { systemClock } from '../platform/clock.js';
import { VERSION } from '../platform/version.js';
import { askOverMemory, type SentRequest, type WholeAnswer } from './fake-connection.js';
import { SILENT } from './silent.js';

/** The part of a fake that answers its requests. */
export interface Answering {
  readonly features: Pick<
    Features,
    | 'payments'
    | 'paymentRecords'
    | 'settlementFeed'
    | 'webhookOperations'
    | 'findTimeline'
    | 'askProcessor'
    | 'paymentActivity'
    | 'transactions'
    | 'health'
  >;
  readonly apiKey: string | undefined;
  readonly scopes: ReadonlySet<Scope>;
}

/** The operation of a request, by its `operationId`, and what its path has in place of the parameter. */
export interface AskedOperation {
  readonly id: string;
  readonly parameter: string;
}

export interface FakeServer {
  answer(request: SentRequest, answering: Answering): Promise<WholeAnswer>;
  /** Undefined if there is none. */
  operationOf(request: { readonly method: string; readonly path: string }): AskedOperation | undefined;
}

const SESSION = {
  version: VERSION,
  deployment: 'embedded',
  instance: randomUUID(),
  processor: { name: 'simulated', movesMoney: async () => false },
  recovery: { dedupSeconds: 0, keyTtlSeconds: 86_400 },
} as const;

/**
 * The HTTP side of the service, for all fakes of the process, because to make it takes as long as a hundred requests. It answers
 * each request with the features of the fake that was asked.
 */
export function createFakeServer(access: 'none' | 'required'): FakeServer {
  const asked = new AsyncLocalStorage<Answering>();
  const current = () => asked.getStore() as Answering;
  const features = () => current().features;
  const health = eachOf(() => features().health);
  const unpaidKeys = new UnpaidKeys(systemClock);
  const listener = createListener(SILENT);
  const app = createServer(
    listener,
    {
      payments: eachOf(() => features().payments),
      paymentRecords: eachOf(() => features().paymentRecords),
      settlementFeed: eachOf(() => features().settlementFeed),
      webhookOperations: eachOf(() => features().webhookOperations),
      findTimeline: (...given) => features().findTimeline(...given),
      askProcessor: (...given) => features().askProcessor(...given),
      paymentActivity: () => features().paymentActivity(),
      transactions: eachOf(() => features().transactions),
      health,
      unpaidKeys,
      readiness: createReadiness(health, { isDown: false }, unpaidKeys),
      metrics: { text: () => '' },
      session: { ...SESSION, access },
      live: new LiveView(SESSION.instance, undefined, systemClock),
    },
    {
      access: access === 'none' ? undefined : accessWith(current),
      loopbackOnly: false,
      trustedNetworks: undefined,
    },
    SILENT,
    () => {},
  );
  const ready = app.ready().then(() => listener.serve(app.routing));
  const operations = Object.entries(app.openApiDocuments().whole.paths).flatMap(([path, item]) =>
    operationsAt(path, item),
  );

  return {
    async answer(request, answering) {
      await ready;
      return asked.run(answering, () => askOverMemory(listener.server, request));
    },
    operationOf({ method, path }) {
      const found = operations.filter((operation) => operation.method === method && operation.path.test(path));
      // A path without a parameter comes before one with it.
      const operation = found.find(({ hasParameter }) => !hasParameter) ?? found[0];
      return operation && { id: operation.id, parameter: operation.path.exec(path)?.[1] ?? '' };
    },
  };
}

/** An object whose methods call another one's, which is looked up at each call. */
function eachOf<T extends object>(look: () => T): T {
  const call =
    (name: PropertyKey) =>
    (...given: unknown[]) =>
      (look() as Record<PropertyKey, (...given: unknown[]) => unknown>)[name]?.(...given);
  return new Proxy({} as T, { get: (_, name) => call(name) });
}

function operationsAt(path: string, item: object) {
  const pattern = path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '([^/]+)');
  const described = Object.entries(item) as [string, Partial<Operation>][];
  return described.flatMap(([method, { operationId: id }]) => {
    if (id === undefined) return [];
    return [{ id, method: method.toUpperCase(), path: new RegExp(`^${pattern}$`), hasParameter: path.includes('{') }];
  });
}

const CLIENT = 'key:test';

/** One key of any form, with the scopes of the fake that was asked. */
function accessWith(current: () => Answering): Access {
  return {
    authenticate(authorization) {
      if (authorization === undefined) return { state: 'missing' };
      const { apiKey, scopes } = current();
      if (authorization !== `Bearer ${apiKey}`) return { state: 'invalid' };
      return { state: 'authenticated', caller: { client: CLIENT, scopes } };
    },
    clients: () => [CLIENT],
    close() {},
  };
}
