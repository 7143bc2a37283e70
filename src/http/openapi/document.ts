import { SCOPES, type Scope } from '../../access/scopes.js';
import { VERSION } from '../../platform/version.js';
import { publicErrors, type Operation as StoreOperation } from '../errors/public-errors.js';
import { ANSWER_SCHEMAS } from './answer-schemas.js';
import {
  type AnswerContext,
  errorExamples,
  errorResponses,
  responseOfSeveral,
  successResponse,
  type UsedHeaders,
} from './answers.js';
import { BODY_SCHEMAS } from './body-schemas.js';
import { ANY_REQUEST_ERRORS, commonErrors, HEAD_ERRORS } from './common-errors.js';
import { LIMIT_HEADERS, REQUEST_HEADERS } from './headers.js';
import { type OpenApiDocument, type Operation, type Parameter, type PathItem, reference } from './openapi.js';
import { type RequestHeader, type ResponseHeader, type RouteDescription, TAGS } from './route-description.js';

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
  'Any request may get one of these errors: its head is invalid, it arrived too slowly, the service cannot take it yet, or the service failed (500).';

/** Throws where a route and its description do not fit. */
export function openApiDocument(routes: readonly DescribedRoute[]): OpenApiDocument {
  const used: UsedHeaders = new Map();
  const paths: Record<string, PathItem> = {};
  for (const route of routes) {
    const path = route.url.replace(/:(\w+)/g, '{$1}');
    const item = paths[path] ?? { parameters: EVERY_PATH.map((name) => reference('parameters', name)) };
    paths[path] = item;
    item[route.method.toLowerCase()] = operationOf(route, used);
  }
  const everywhere: AnswerContext = { used, headers: LIMIT_HEADERS, errorHeaders: {}, bodiless: false };
  const anyHeaders = [...new Set(routes.flatMap(({ description }) => description.anyAnswerHeaders ?? []))];
  const anywhere = { ...everywhere, headers: [...everywhere.headers, ...anyHeaders] };
  const responses = {
    AnyRequest: responseOfSeveral(ANY_REQUEST_ERRORS, anywhere, ANY_REQUEST),
    MethodNotAllowed: errorResponses({ methodNotAllowed: publicErrors.methodNotAllowed('GET, HEAD') }, everywhere)[405],
    UnknownPath: errorResponses({ unknownRoute: publicErrors.unknownRoute() }, everywhere)[404],
  } as Record<string, object>;
  return {
    openapi: '3.1.0',
    info: {
      title: 'Idempay',
      version: VERSION,
      summary: 'Payments exactly once, transactions from a cache that is never stale.',
      description: INTRODUCTION,
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: { ...ANSWER_SCHEMAS, ...BODY_SCHEMAS },
      parameters: Object.fromEntries(EVERY_PATH.map((name) => [name, headerParameter(REQUEST_HEADERS[name])])),
      headers: Object.fromEntries([...used].map(([component, header]) => [component, headerObject(header)])),
      examples: errorExamples(HEAD_ERRORS),
      responses,
      securitySchemes: {
        [SCHEME]: {
          type: 'http',
          scheme: 'bearer',
          bearerFormat: 'API key or JWT',
          description: `With \`AUTH=required\`: an API key (\`idem_...\`, made by \`npx idempay keys add\`) or a token of \`JWT_ISSUER\`. Scopes: ${SCOPES.map((scope) => `\`${scope}\``).join(', ')}. One of those that an operation names is enough. Without \`AUTH\` nobody is asked.`,
        },
      },
    },
  };
}

function operationOf(route: DescribedRoute, used: UsedHeaders): Operation {
  const { method, description, scopes, isLimited, bodyLimitBytes } = route;
  const isHead = method === 'HEAD';
  const context: AnswerContext = {
    used,
    headers: [...(isLimited ? LIMIT_HEADERS : []), ...(description.anyAnswerHeaders ?? [])],
    errorHeaders: description.errorHeaders ?? {},
    bodiless: isHead,
  };
  const errors = {
    ...description.errors,
    ...commonErrors({
      scopes,
      isLimited,
      bodyLimitBytes: BODILESS_METHODS.includes(method) ? undefined : bodyLimitBytes,
      query: route.query,
      operation: description.asksNoStore ? undefined : route.operation,
      isProbe: description.isProbe === true,
    }),
  };
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
      ...errorResponses(errors, context, { 400: Object.keys(HEAD_ERRORS) }),
      default: reference('responses', 'AnyRequest'),
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
const INTRODUCTION = `**Paying.** Get a key (\`generateKey\`), keep it, and send it with every attempt at one payment (\`pay\`). After 409, 429, 503, 504 or no answer repeat with the **same** key: it is never charged twice. \`getPayment\` shows what became of it.

**Two areas.** Payments and transactions have nothing to do with each other: a payment has an id such as \`TXN1763640000000000000001\`, a transaction a number of 15 digits.

**Errors.** Every error has the body \`{"status", "error", "message"}\`, and the message says what to do. Each operation lists its statuses. \`default\` are those that any request may get. Beside them: a path that is not listed here is answered 404 (\`UnknownPath\`), and a method that its path does not take 405 with \`Allow\` (\`MethodNotAllowed\`).

**Amounts.** Send them as strings. Bodies are judged by their text: a number is never rounded, and a repeated member is refused. A schema cannot say all of it; where it does not, its description does.

**Trying it out.** A request that is sent from the reference page (\`/docs\`) is carried out like any other: a payment is a payment.

**Limits.** With \`RATE_LIMIT_PER_MINUTE\` answers have \`RateLimit-*\`, and 429 beyond the limit.`;
