import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { fastify } from 'fastify';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { SCOPES } from '#idempay/access/scopes.js';
import { createListener } from '#idempay/http/connections/listener.js';
import { EXAMPLE_KEY, publicErrors } from '#idempay/http/errors/catalogue.js';
import { reasonPhrase } from '#idempay/http/errors/public-error.js';
import type { OpenApiDocuments } from '#idempay/http/openapi/document.js';
import { describeRoutes } from '#idempay/http/openapi/document.js';
import type { OpenApiDocument, Operation, Parameter, PathItem, Response } from '#idempay/http/openapi/openapi.js';
import { storeStatus, storeValue } from '#idempay/http/operations/key-value-store.js';
import { createServer, type Features } from '#idempay/http/server.js';
import { tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, ask } from '../../testkit/client/http-client.js';
import { describeOneDeployment, embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { DescribedService } from '../../testkit/description/described-service.js';

/** As the server itself makes it; nothing of it is started. */
const silent = pino({ level: 'silent' });
const server = createServer(
  createListener(silent),
  {} as Features,
  { access: undefined, loopbackOnly: false, trustedNetworks: undefined },
  silent,
  () => {},
);
const served: OpenApiDocuments = JSON.parse(JSON.stringify(server.openApiDocuments()));
const { whole: document, forClients } = served;
const BOTH = Object.entries<OpenApiDocument>({ ...served });
const described = new DescribedService(document);
const operations = described.operations.map((operation) => [operation.operationId, operation] as const);

const HEADERS_OF_ALL = Object.fromEntries(
  ['Idempay', 'X-Request-Id', 'Content-Security-Policy', 'X-Content-Type-Options'].map((name) => [name, {}]),
);
const HEADERS_OF_STATUS: Readonly<Record<string, string[]>> = { 401: ['WWW-Authenticate'], 429: ['Retry-After'] };

const REFERENCE_OPERATIONS = ['generateKey', 'pay', 'getPaymentStatus', 'cancelPayment'];
const REFUSED_REFERENCES = [
  'reference=',
  'reference=order-undefined',
  'reference=order-',
  'reference=order-1&reference=order-1',
  'reference=order-1&attempt=0',
  'reference=order-1&attempt=1&attempt=1',
  'attempt=2',
  'reference=order-1&atempt=2',
  'reference=order-1&client=key:shop',
];

const PATHS_OF_PAGES = ['/docs', '/docs/{file}', '/problems', '/api/session', '/console', '/console/{file}'];

/** Clients are generated from these names. */
const OPERATION_IDS = [
  'cancelPayment',
  'changeTransactionStatus',
  'createTransaction',
  'createTransactions',
  'deleteTransaction',
  'exportPayments',
  'generateKey',
  'getConsole',
  'getConsoleFile',
  'getDescription',
  'getLiveSamples',
  'getLiveness',
  'getMetrics',
  'getPayment',
  'getPaymentActivity',
  'getPaymentStatus',
  'getPaymentTimeline',
  'getProblems',
  'getProcessorAnswer',
  'getReadiness',
  'getReferencePage',
  'getReferencePageFile',
  'getSession',
  'getStoreStatistics',
  'getStoreStatus',
  'getStoreValue',
  'getTransaction',
  'getWebhook',
  'getWholeDescription',
  'listPayments',
  'listRefunds',
  'listSettlements',
  'listTransactions',
  'listWebhooks',
  'pay',
  'refund',
  'resendWebhook',
  'resolvePayment',
  'searchTransactions',
  'startWebhook',
  'stopWebhook',
];

describe('the description', () => {
  test.each(BOTH)('is valid OpenAPI 3.1: %s', async (_name, description) => {
    const validator = new Validator();
    expect(await validator.validate({ ...description })).toEqual({ valid: true });
    expect(validator.version).toBe('3.1');
  });

  // A payment that is pending has a schema of its own, so that only its answer can have an action, and a refund has twenty errors.
  test('for clients has less than 6.6 kB for each operation, all shared parts included', () => {
    const operationsIn = Object.values(forClients.paths).flatMap(({ parameters: _, ...methods }) =>
      Object.keys(methods),
    );
    expect(Buffer.byteLength(JSON.stringify(forClients)) / operationsIn.length).toBeLessThan(6_600);
  });

  test.each(BOTH)('says at its beginning that an order is paid by its reference: %s', (_name, { info }) => {
    expect(info.description).toContain('Call `pay` with the `reference` of an order');
  });

  test('for clients has neither HEAD nor what only a page asks for, and says of all else what the whole one says', () => {
    const left = Object.entries(document.paths)
      .filter(([path]) => !PATHS_OF_PAGES.includes(path))
      .map(([path, { head, ...item }]) => [path, item as PathItem]);
    expect(forClients.paths).toEqual(Object.fromEntries(left));
    for (const [kind, components] of Object.entries(forClients.components)) {
      expect(document.components[kind] ?? {}).toMatchObject(components);
    }
  });

  test('has exactly the routes of the server, with their scopes', () => {
    // For every other method of a path the server has a route that refuses it with 405; the description leaves those out.
    const routes = [...server.routeScopes].filter(([route]) => !isRefused(route));
    const scopesOf = ({ security }: Operation) =>
      security.length === 0 ? 'open' : security.flatMap(({ bearer = [] }) => bearer);
    const inDescription = described.operations.map(
      (operation) =>
        [`${operation.method} ${operation.path.replace(/\{(\w+)\}/g, ':$1')}`, scopesOf(operation)] as const,
    );
    expect(Object.fromEntries(inDescription)).toEqual(Object.fromEntries(routes));
    expect(new Set(routes.flatMap(([, scopes]) => scopes))).toEqual(new Set(['open', ...SCOPES]));
  });

  test('lets a request have no credential, because a service without AUTH asks for none', () => {
    for (const { operationId, security } of described.operations) {
      if (security.length > 0) expect(security, operationId).toContainEqual({});
    }
  });

  test('has stable names of operations', () => {
    const own = described.operations.filter(({ method }) => method !== 'HEAD').map(({ operationId }) => operationId);
    expect(own.sort()).toEqual(OPERATION_IDS);
    const heads = described.operations.filter(({ method }) => method === 'HEAD');
    expect(new Set([...own, ...heads.map(({ operationId }) => operationId)]).size).toBe(own.length + heads.length);
  });

  test.each(BOTH)('has every component that it refers to, and no unused one: %s', (_name, all) => {
    const references = new Set(
      [...JSON.stringify(all).matchAll(/"\$ref":"#\/components\/([^"]+)"/g)].map(([, name]) => name),
    );
    const components = Object.entries(all.components).flatMap(([kind, some]) =>
      Object.keys(some).map((name) => `${kind}/${name}`),
    );
    expect([...references, 'securitySchemes/bearer'].sort()).toEqual(components.sort());
  });

  test('does not change with the settings', () => {
    const other = createServer(
      createListener(silent),
      {} as Features,
      {
        access: { authenticate: () => ({ state: 'missing' }), clients: () => [], close() {} },
        loopbackOnly: true,
        trustedNetworks: ['10.0.0.0/8'],
      },
      silent,
      () => {},
    );
    expect(JSON.parse(JSON.stringify(other.openApiDocuments()))).toEqual(served);
  });
});

describe('each operation', () => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  ajv.addSchema(document as object, 'description');

  /** Inline schemas refer to the components of the description. */
  const meets = (schema: object, value: unknown) => {
    const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"#/components', '"description#/components'));
    const validate = ajv.compile(absolute);
    validate(value);
    return validate.errors;
  };

  test.each(operations)(
    '%s has examples that are as its schemas say',
    (_id, { parameters, requestBody, responses }) => {
      let examples = 0;
      for (const { name, schema, example } of parameters as Parameter[]) {
        if (example === undefined) continue;
        expect(meets(schema, example), name).toBeNull();
        examples += 1;
      }
      for (const answer of [
        requestBody ?? {},
        ...Object.values(responses).map((response) => described.resolve<Response>(response)),
      ]) {
        const { content = {} } = answer as Partial<Response>;
        for (const [mediaType, { schema, examples: given = {} }] of Object.entries(content)) {
          for (const [name, example] of Object.entries(given)) {
            const { value } = described.resolve<{ value: unknown }>(example);
            expect(meets(schema, value), `${mediaType} ${name}`).toBeNull();
            examples += 1;
          }
        }
      }
      expect(examples).toBeGreaterThan(0);
    },
  );

  test.each(operations)('%s tells an error of each status, with its headers', (_id, { responses }) => {
    expect(described.resolve<Response>(responses.default ?? {}).headers).toMatchObject(HEADERS_OF_ALL);
    for (const [status, reference] of Object.entries(responses)) {
      const { headers, content } = described.resolve<Response>(reference);
      for (const name of HEADERS_OF_STATUS[status] ?? []) expect(headers).toHaveProperty(name);
      for (const example of Object.values(content?.['application/json']?.examples ?? {})) {
        const { value } = described.resolve<{ value: { status?: number } }>(example);
        if (Number(status) >= 400) expect(value.status).toBe(Number(status));
      }
    }
  });
});

describe('an answer is not as described', () => {
  const answer = {
    status: 200,
    text: '{"status":"alive"}',
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
      'x-content-type-options': 'nosniff',
      'x-request-id': 'one',
      idempay: '1',
    },
  };
  const problems = (headers: Record<string, string | undefined>, changes: object = {}, id = 'getLiveness') => {
    const kept = Object.entries({ ...answer.headers, ...headers }).filter(([, value]) => value !== undefined);
    const changed = { ...answer, ...changes, headers: Object.fromEntries(kept) } as unknown as Answer;
    return described.problems({ kind: 'operation', operation: described.operation(id) }, changed, false);
  };
  const error = (status: number, message: string) => ({
    status,
    text: JSON.stringify({ status, error: reasonPhrase(status), message }),
  });
  const malformed = error(400, publicErrors.invalidHost().message);

  test('and none of these is', () => {
    expect(problems({})).toEqual([]);
    expect(problems({}, malformed)).toEqual([]);
    expect(problems({ 'ratelimit-limit': '6' }, malformed, 'getMetrics')).toEqual([]);
  });

  test.each<[string, Record<string, string | undefined>, object?]>([
    ['without a header of every answer', { 'x-request-id': undefined }],
    ['with another value of a header of every answer', { 'x-content-type-options': 'sniff' }],
    ['with a header of errors', { 'retry-after': '2' }],
    ['with a header of another operation', { 'idempotency-key': EXAMPLE_KEY }],
    ['with a header of operations that a limit counts', { 'ratelimit-limit': '6' }],
    ['with an unknown header', { 'x-other': '1' }],
    ['with another value of its own header', { 'cache-control': 'no-cache' }],
    ['that an error without no-store is', { 'cache-control': undefined }, malformed],
    ['that an error of another operation is', {}, error(400, publicErrors.emptyBody().message)],
    ['that an unknown path is, on a path that is known', {}, error(404, publicErrors.unknownRoute().message)],
    ['with another body', {}, { text: '{"status":"dead"}' }],
  ])('%s', (_name, headers, changes = {}) => {
    expect(problems(headers, changes)).toHaveLength(1);
  });

  test('with a repeated parameter that the operation does not have', () => {
    const twice = (name: string) => error(400, `'${name}' in the querystring may be sent only once.`);
    expect(problems({}, twice('cursor'), 'listPayments')).toEqual([]);
    expect(problems({}, twice('since'), 'listPayments')).toHaveLength(1);
  });
});

describe('a route', () => {
  const build = (config: object, url = '/here/:key') => {
    const app = fastify();
    describeRoutes(app);
    const schema = { params: { type: 'object', properties: { key: { type: 'string' } } } };
    app.get(url, { schema, config: { scopes: 'open', ...config } }, async () => '');
    return app.openApiDocuments().forClients;
  };

  test('that is not described is refused', () => {
    expect(() => build({})).toThrow('the route GET /here/:key has no description');
  });

  test('with a parameter that is not described is refused', () => {
    expect(() => build({ description: storeStatus })).toThrow(
      'the parameter key of the route GET /here/:key is not described',
    );
  });

  test('whose description has a parameter too many is refused', () => {
    const description = { ...storeValue, parameters: { ...storeValue.parameters, other: { text: '', schema: {} } } };
    expect(() => build({ description })).toThrow('the route GET /here/:key has no parameter other');
  });

  test('that is described is taken', () => {
    expect(Object.keys(build({ description: storeValue }).paths)).toEqual(['/here/{key}']);
  });
});

describeOneDeployment('a service', (deployment) => {
  const shared = shareService(deployment);

  test.each([
    ['/openapi.json', forClients],
    ['/openapi-all.json', document],
  ])('serves its description at %s', async (path, description) => {
    const answer = await ask(`${shared.url}${path}`);
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(answer.headers['cache-control']).toBe('no-cache');
    expect(answer.json()).toEqual(description);
    const again = await ask(`${shared.url}${path}`, { headers: { 'If-None-Match': `"${tagOf(answer)}"` } });
    expect([again.status, again.text, tagOf(again)]).toEqual([304, '', tagOf(answer)]);
    const head = await ask(`${shared.url}${path}`, { method: 'HEAD' });
    expect(head.headers['content-length']).toBe(String(Buffer.byteLength(answer.text)));
  });

  test.each(REFERENCE_OPERATIONS)('describes each refusal of a reference: %s', async (operationId) => {
    const operation = described.operations.find((one) => one.operationId === operationId);
    if (!operation) throw new Error(`${operationId} is not described`);
    for (const query of REFUSED_REFERENCES) {
      const answer = await ask(`${shared.url}${operation.path}?${query}`, { method: operation.method });
      expect([query, answer.status]).toEqual([query, 400]);
      expect([query, described.problems({ kind: 'operation', operation }, answer, false)]).toEqual([query, []]);
    }
  });
});

describe('the reference page', () => {
  const shared = shareService(embedded);

  test('is made of files of this service alone', async () => {
    const page = await ask(`${shared.url}/docs`);
    expect(page.status).toBe(200);
    expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
    const references = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path as string);
    expect(references.filter((path) => !path.startsWith('data:')).sort()).toEqual([
      'docs/start.js',
      'docs/swagger-ui-bundle.js',
      'docs/swagger-ui.css',
      'openapi-all.json',
      'openapi.json',
    ]);
    for (const path of references.filter((path) => !path.startsWith('data:'))) {
      const { status, text, headers } = await ask(new URL(path, `${shared.url}/docs`).href);
      expect([path, status, text.length > 0]).toEqual([path, 200, true]);
      expect(headers['content-type']).toMatch(/^(text\/(css|javascript)|application\/json); charset=utf-8$/);
    }
    // No script and no style stands in the page: the policy would refuse them.
    expect(page.text).not.toMatch(/<style|style=|<script>|onload=|javascript:/);
  });

  test('may ask nobody but this service, and runs none of its own text', async () => {
    for (const path of ['/docs', '/docs/start.js']) {
      const policy = String((await ask(`${shared.url}${path}`)).headers['content-security-policy']);
      expect(policy).toContain("default-src 'none'");
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
    }
  });

  test('is nothing else', async () => {
    for (const name of ['index.html', '..%2fopenapi.json', 'constructor', '']) {
      expectError(
        await ask(`${shared.url}/docs/${name}`),
        404,
        'There is nothing at this path. Check the path against the documentation.',
      );
    }
  });
});

function isRefused(route: string): boolean {
  const [method = '', url = ''] = route.split(' ');
  return (
    !described.operations.some(
      (operation) => operation.method === method && operation.path.replace(/\{(\w+)\}/g, ':$1') === url,
    ) && server.routeScopes.get(route) === 'open'
  );
}
