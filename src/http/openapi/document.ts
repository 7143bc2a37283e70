import { SCOPES, type Scope } from '../../access/scopes.js';
import { VERSION } from '../../platform/version.js';
import { errorBody } from '../errors/public-error.js';
import type { Operation as StoreOperation } from '../errors/public-errors.js';
import {
  ANY_REQUEST_PROBLEM,
  type AnswerContext,
  anyRequestProblem,
  errorResponses,
  responseOfAnyRequest,
  successResponse,
  type UsedHeaders,
} from './answers.js';
import { ANY_REQUEST_ERRORS, commonErrors, HEAD_ERRORS } from './common-errors.js';
import { LIMIT_HEADERS, REQUEST_HEADERS } from './headers.js';
import { type OpenApiDocument, type Parameter, type PathItem, reference } from './openapi.js';
import { errorsOf, type RequestHeader, type ResponseHeader, type RouteDescription, TAGS } from './route-description.js';
import { SCHEMAS } from './schemas.js';
import { reachable, SharedParts, type WholeOperation } from './shared-parts.js';

/** A route as it was registered. */
export interface DescribedRoute {
  readonly method: string;
  /** With `:name` for what a path holds. */
  readonly url: string;
  readonly description: RouteDescription;
  readonly scopes: 'open' | readonly Scope[];
  readonly isLimited: boolean;
  readonly operation: StoreOperation;
  readonly bodyLimitBytes: number;
  /** Names of its schemas. */
  readonly path: readonly string[];
  readonly query: readonly string[];
}

const BODILESS_METHODS = ['GET', 'HEAD'];
/** Those of every operation. */
const EVERY_PATH = ['requestId', 'traceparent'] as const;
const SCHEME = 'bearer';
const ANY_REQUEST =
  'Any request may get one of these errors. `Allow` and `Retry-After` are theirs. The other headers are those of every answer of the operation, and `Cache-Control` that of every error: the other responses name only what they have besides, or instead.';

/** What `/openapi.json` and `/openapi-all.json` serve. Both say the same of an operation that both have. */
export interface OpenApiDocuments {
  /** Without HEAD, and without what only a page of the service asks for. */
  readonly forClients: OpenApiDocument;
  readonly whole: OpenApiDocument;
}

/** Throws where a route and its description do not fit. */
export function openApiDocuments(routes: readonly DescribedRoute[]): OpenApiDocuments {
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

function operationOf(route: DescribedRoute, used: UsedHeaders): WholeOperation {
  const { method, description, scopes, isLimited, bodyLimitBytes } = route;
  const isHead = method === 'HEAD';
  const context: AnswerContext = { used, errorHeaders: description.errorHeaders ?? {}, bodiless: isHead };
  const everywhere = [...(isLimited ? LIMIT_HEADERS : []), ...(description.anyAnswerHeaders ?? [])];
  const errors = errorsOf([
    ...(description.errors ?? []),
    ...commonErrors({
      scopes,
      isLimited,
      bodyLimitBytes: BODILESS_METHODS.includes(method) ? undefined : bodyLimitBytes,
      query: route.query,
      operation: description.asksNoStore ? undefined : route.operation,
      isProbe: description.isProbe === true,
    }),
  ]);
  const { operationId, summary, text, body, headers = [] } = description;
  const allowed = scopes === 'open' ? 'Open: no credentials are asked for.' : scopeSentence(scopes);
  return {
    operationId: isHead ? `${operationId}Head` : operationId,
    tags: [isHead ? 'Head requests' : description.tag],
    summary: isHead ? `${summary}: headers only` : summary,
    description: `${text}\n\n${allowed}`,
    parameters: [...parametersOf(route), ...headers.map(headerParameter)],
    ...(body && {
      requestBody: {
        description: body.text,
        required: body.required,
        content: {
          'application/json': {
            schema: reference('schemas', body.schema),
            examples: Object.fromEntries(Object.entries(body.examples).map(([name, value]) => [name, { value }])),
          },
        },
      },
    }),
    responses: {
      ...Object.fromEntries(
        Object.entries(description.answers).map(([status, answer]) => [status, successResponse(answer, context)]),
      ),
      ...errorResponses(errors, context),
      default: responseOfAnyRequest(ANY_REQUEST_ERRORS, everywhere, context, ANY_REQUEST),
    },
    // Without `AUTH` nobody is asked for a credential: so none is one of the alternatives.
    security: scopes === 'open' ? [] : [...scopes.map((scope) => ({ [SCHEME]: [scope] })), {}],
  };
}

function scopeSentence(scopes: readonly Scope[]): string {
  return `With \`AUTH=required\`: scope ${scopes.map((scope) => `\`${scope}\``).join(' or ')}.`;
}

function parametersOf({ url, method, description, path, query }: DescribedRoute): Parameter[] {
  const described = description.parameters ?? {};
  const places = [...path.map((name) => ['path', name] as const), ...query.map((name) => ['query', name] as const)];
  const superfluous = Object.keys(described).filter((name) => !places.some(([, known]) => known === name));
  if (superfluous.length > 0) throw new Error(`the route ${method} ${url} has no parameter ${superfluous.join(', ')}`);
  return places.map(([place, name]) => {
    const parameter = described[name];
    if (!parameter) throw new Error(`the parameter ${name} of the route ${method} ${url} is not described`);
    const { text, schema, example, required = false } = parameter;
    return {
      name,
      in: place,
      description: text,
      required: place === 'path' || required,
      schema,
      ...(example !== undefined && { example }),
    };
  });
}

function headerParameter({ name, text, required, schema, example }: RequestHeader): Parameter {
  return { name, in: 'header', description: text, required, schema, ...(example !== undefined && { example }) };
}

function headerObject({ text, required, schema, example }: ResponseHeader): object {
  return { description: text, required, schema, ...(example !== undefined && { example }) };
}

/** What stands before the operations, in CommonMark. */
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
