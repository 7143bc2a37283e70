import type { FastifyInstance } from 'fastify';
import { SCOPES } from '../../access/scopes.js';
import { VERSION } from '../../platform/version.js';
import { errorBody } from '../errors/public-error.js';
import { BODY_LIMIT_BYTES } from '../requests/body-parser.js';
import { REQUEST_HEADERS } from './headers.js';
import { type OpenApiDocument, type PathItem, reference } from './openapi.js';
import {
  ANY_REQUEST_ERRORS,
  ANY_REQUEST_PROBLEM,
  anyRequestProblem,
  type DescribedRoute,
  HEAD_ERRORS,
  headerParameter,
  operationOf,
  SCHEME,
  type UsedHeaders,
} from './operation.js';
import { type ResponseHeader, TAGS } from './route-description.js';
import { SCHEMAS } from './schemas.js';
import { reachable, SharedParts } from './shared-parts.js';

declare module 'fastify' {
  interface FastifyInstance {
    /** For when all routes are registered. It is made at the first call, because few processes need it. Throws if a route and its description do not fit. */
    openApiDocuments(): OpenApiDocuments;
  }
}

/**
 * Collects the descriptions of all routes that are registered from now on. A route without a description is an error at the
 * start, as is one without scopes.
 */
export function describeRoutes(app: FastifyInstance): void {
  const routes: DescribedRoute[] = [];
  app.addHook('onRoute', ({ method, url, config, schema, bodyLimit }) => {
    const description = config?.description;
    if (!description) throw new Error(`the route ${method} ${url} has no description`);
    if (description === 'none') return;
    for (const name of [method].flat()) {
      routes.push({
        method: name,
        url,
        description,
        scopes: config.scopes ?? 'open',
        isLimited: config.neverLimited !== true,
        operation: config.operation ?? 'read',
        bodyLimitBytes: bodyLimit ?? BODY_LIMIT_BYTES,
        path: namesOf(schema?.params),
        query: namesOf(schema?.querystring),
      });
    }
  });
  let documents: OpenApiDocuments | undefined;
  app.decorate('openApiDocuments', () => {
    documents ??= openApiDocuments(routes);
    return documents;
  });
}

function namesOf(schema: unknown): string[] {
  return Object.keys((schema as { properties?: object } | undefined)?.properties ?? {});
}

/** Headers of every operation. */
const EVERY_PATH = ['requestId', 'traceparent'] as const;
/** The descriptions that `/openapi.json` and `/openapi-all.json` serve. Both say the same of an operation that both have. */
export interface OpenApiDocuments {
  /** Without HEAD, and without what only a page of the service asks for. */
  readonly forClients: OpenApiDocument;
  readonly whole: OpenApiDocument;
}

/** Throws if a route and its description do not fit. */
function openApiDocuments(routes: readonly DescribedRoute[]): OpenApiDocuments {
  const used: UsedHeaders = new Map();
  const operations = routes.map((route) => ({ route, operation: operationOf(route, used) }));
  const clientOperations = operations.filter(({ route }) => isForClients(route));
  const others = operations.filter(({ route }) => !isForClients(route));
  const shared = new SharedParts(
    clientOperations.map(({ operation }) => operation),
    others.map(({ operation }) => operation),
  );
  const components = {
    schemas: {
      ...SCHEMAS,
      Problem: withHeadErrors(SCHEMAS.Problem),
      [ANY_REQUEST_PROBLEM]: anyRequestProblem(ANY_REQUEST_ERRORS),
    },
    headers: Object.fromEntries([...used].map(([component, header]) => [component, headerObject(header)])),
    ...shared.components,
    parameters: {
      ...Object.fromEntries(EVERY_PATH.map((name) => [name, headerParameter(REQUEST_HEADERS[name])])),
      ...shared.components.parameters,
    },
  };
  const documentOf = (described: typeof operations): OpenApiDocument => {
    const paths: Record<string, PathItem> = {};
    for (const { route, operation } of described) {
      const path = route.url.replace(/:(\w+)/g, '{$1}');
      const item = paths[path] ?? { parameters: EVERY_PATH.map((name) => reference('parameters', name)) };
      paths[path] = item;
      item[route.method.toLowerCase()] = shared.refer(operation);
    }
    const tags = new Set(described.flatMap(({ operation }) => operation.tags));
    return {
      ...HEAD_OF_DOCUMENT,
      tags: Object.entries(TAGS)
        .filter(([name]) => tags.has(name))
        .map(([name, description]) => ({ name, description })),
      paths,
      components: { ...reachable(paths, components), securitySchemes: SECURITY_SCHEMES },
    };
  };
  return { forClients: documentOf(clientOperations), whole: documentOf(operations) };
}

/** With the errors that every operation has, whose responses leave them out. */
function withHeadErrors(problem: object): object {
  return { ...problem, examples: Object.values(HEAD_ERRORS).map(({ status, message }) => errorBody(status, message)) };
}

function isForClients({ method, description }: DescribedRoute): boolean {
  return method !== 'HEAD' && description.isOfPage !== true;
}

function headerObject({ text, required, schema, example }: ResponseHeader): object {
  return { description: text, required, schema, ...(example !== undefined && { example }) };
}

/** The text before the operations, in CommonMark. */
const INTRODUCTION = `**Paying.** Call \`pay\` with the \`reference\` of an order, or with a key (\`generateKey\`) that you keep. Repeat the **same** request after 408, 409, 429, any 5xx, or no answer: it is never charged twice. \`getPayment\` shows what became of it.

**Two areas.** Payments and transactions have nothing to do with each other: a payment has an id such as \`TXN1763640000000000000001\`, a transaction a number of 15 digits.

**Errors.** Every error has the body \`{"status", "error", "message"}\`, and the message says what to do. A request that prefers it (\`Accept: application/problem+json\`) gets RFC 9457: the same sentence is its \`detail\`, and programs act on \`type\`, which \`/problems\` explains. The examples of the schema \`Problem\` are for every operation. Each operation lists its statuses. \`default\` are those that any request may get: among them 404 for a path that is not listed here, and 405 with \`Allow\` for a method that its path does not take.

**Headers.** Those that every answer of an operation has are described with its response \`default\`, as is \`Cache-Control\` of every error. The others name what they have besides, or instead.

**Two documents.** \`/openapi.json\` is for clients, and \`/docs\` shows it. \`/openapi-all.json\` also has the HEAD requests and what the pages of the service ask for, which are the console and \`/docs\`. \`/docs?all\` shows it.

**Amounts.** Send them as strings. Bodies are judged by their text: a number is never rounded, and a repeated member is refused. A schema cannot say all of it; where it does not, its description does.

**Trying it out.** A request that is sent from the reference page (\`/docs\`) is carried out like any other: a payment is a payment.

**Limits.** With \`RATE_LIMIT_PER_MINUTE\` answers have \`RateLimit-*\`, and 429 beyond the limit.`;

const HEAD_OF_DOCUMENT = {
  openapi: '3.1.0',
  info: {
    title: 'Idempay',
    version: VERSION,
    summary: 'Payments exactly once, transactions from a cache that is never stale.',
    description: INTRODUCTION,
    license: { name: 'MIT', identifier: 'MIT' },
  },
  servers: [{ url: '/' }],
} as const;

const SECURITY_SCHEMES = {
  [SCHEME]: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'API key or JWT',
    description: `With \`AUTH=required\`: an API key (\`idem_...\`, made by \`npx idempay keys add\`) or a token of \`JWT_ISSUER\`. Scopes: ${SCOPES.map((scope) => `\`${scope}\``).join(', ')}. One of those that an operation names is enough. Without \`AUTH\` nobody is asked.`,
  },
};
