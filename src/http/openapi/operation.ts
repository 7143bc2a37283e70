import type { Scope } from '../../access/scopes.js';
import type { JsonSchema } from '../../platform/json-schema.js';
import {
  CHUNK_EXTENSIONS_TOO_LARGE,
  HEADERS_TOO_LARGE,
  MALFORMED,
  MAX_TARGET_LENGTH,
  REQUEST_TOO_SLOW,
} from '../connections/parser-errors.js';
import { transferCodingProblem } from '../connections/request-head.js';
import { publicErrors, type Operation as StoreOperation } from '../errors/catalogue.js';
import { sentTwice } from '../errors/error-answers.js';
import { errorBody, type PublicError, reasonPhrase } from '../errors/public-error.js';
import { PROBLEM_TYPE } from '../requests/accept.js';
import { readJsonBody } from '../requests/json-body.js';
import { COMMON_HEADERS, DATA_POLICY, ERROR_HEADERS, LIMIT_HEADERS, NO_STORE, sometimes } from './headers.js';
import { type MediaType, type Parameter, type Response, reference } from './openapi.js';
import {
  type AnswerDescription,
  errorsOf,
  type RequestHeader,
  type ResponseHeader,
  type RouteDescription,
  type RouteErrors,
} from './route-description.js';
import type { WholeOperation } from './shared-parts.js';

/** A route as it was registered. */
export interface DescribedRoute {
  readonly method: string;
  /** With `:name` for a parameter in the path. */
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

const JSON_TYPE = 'application/json';
/** In `components.schemas`. */
export const ANY_REQUEST_PROBLEM = 'AnyRequestProblem';
const BODILESS_METHODS = ['GET', 'HEAD'];
export const SCHEME = 'bearer';
const ANY_REQUEST =
  'Any request may get one of these errors. `Allow` and `Retry-After` are theirs. The other headers are those of every answer of the operation, and `Cache-Control` that of every error: the other responses name only what they have besides, or instead.';

type Errors = Readonly<Record<string, PublicError>>;

/** Collects the headers that responses refer to, by their component. */
export type UsedHeaders = Map<string, ResponseHeader>;

/** Answers that a route may give besides its description. */
interface AnswerContext {
  readonly used: UsedHeaders;
  readonly errorHeaders: Readonly<Record<number, readonly ResponseHeader[]>>;
  /** True for HEAD: no answer has a body. */
  readonly bodiless: boolean;
}

/** Method, path, scopes and limits come from the route, and everything else from its description. */
export function operationOf(route: DescribedRoute, used: UsedHeaders): WholeOperation {
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

export function headerParameter({ name, text, required, schema, example }: RequestHeader): Parameter {
  return { name, in: 'header', description: text, required, schema, ...(example !== undefined && { example }) };
}

function successResponse(answer: AnswerDescription, context: AnswerContext): Response {
  const { text, headers = [], content } = answer;
  const described: MediaType | undefined = content && {
    schema: content.schema,
    ...(content.examples && { examples: valuesOf(content.examples) }),
  };
  const mediaTypes = content ? [content.mediaType, ...(content.more ?? [])] : [];
  return {
    description: text,
    ...headerReferences(headers, context.used),
    ...(described &&
      !context.bodiless && { content: Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, described])) }),
  };
}

/** One response for each status. */
function errorResponses(errors: Errors, context: AnswerContext): Record<string, Response> {
  const statuses = [...new Set(Object.values(errors).map(({ status }) => status))].sort();
  return Object.fromEntries(
    statuses.map((status) => {
      const ofStatus = Object.entries(errors).filter(([, error]) => error.status === status);
      return [String(status), errorResponse(status, Object.fromEntries(ofStatus), context)];
    }),
  );
}

function errorResponse(status: number, errors: Errors, context: AnswerContext): Response {
  const headers = [...headersOfErrors(Object.values(errors)), ...(context.errorHeaders[status] ?? [])];
  return {
    description: `${reasonPhrase(status)}.`,
    ...headerReferences(headers, context.used),
    ...(!context.bodiless && { content: errorContent('Problem', withoutHeadErrors(errors)) }),
  };
}

/**
 * One response for errors of several statuses, which `anyRequestProblem` names. It alone has the headers of every answer of the operation,
 * and `Cache-Control` of every error.
 */
function responseOfAnyRequest(
  errors: Errors,
  headers: readonly ResponseHeader[],
  { used }: Pick<AnswerContext, 'used'>,
  text: string,
): Response {
  const all = Object.values(errors);
  const withThose = [...COMMON_HEADERS, DATA_POLICY, ...headers, NO_STORE, ...headersOfErrors(all)];
  return {
    description: text,
    ...headerReferences(withThose, used),
    content: errorContent(ANY_REQUEST_PROBLEM, errors),
  };
}

/** Both forms of an error. Only the first has examples: the sentences are the same in both. */
function errorContent(schema: string, errors: Errors): Record<string, MediaType> {
  const examples = errorExamples(errors);
  return {
    [JSON_TYPE]: {
      schema: reference('schemas', schema),
      ...(Object.keys(examples).length > 0 && { examples }),
    },
    [PROBLEM_TYPE]: { schema: reference('schemas', 'ProblemDetails') },
  };
}

/** The errors of every operation are examples of the schema, so that they are there once. */
function withoutHeadErrors(errors: Errors): Errors {
  return Object.fromEntries(Object.entries(errors).filter(([name]) => !Object.hasOwn(HEAD_ERRORS, name)));
}

/** The body of errors of several statuses. */
export function anyRequestProblem(errors: Errors): JsonSchema {
  const statuses = [...new Set(Object.values(errors).map(({ status }) => status))].sort();
  return { allOf: [reference('schemas', 'Problem'), { properties: { status: { enum: statuses } } }] };
}

function errorExamples(errors: Errors): Record<string, { value: unknown }> {
  return valuesOf(
    Object.fromEntries(Object.entries(errors).map(([name, { status, message }]) => [name, errorBody(status, message)])),
  );
}

/** A header that not all errors of a status have is one that the answer sometimes has. */
function headersOfErrors(errors: readonly PublicError[]): ResponseHeader[] {
  const names = [...new Set(errors.flatMap(({ headers }) => Object.keys(headers)))];
  return names.map((name) => {
    const header = ERROR_HEADERS[name];
    if (!header) throw new Error(`the description has no header ${name}`);
    return errors.every(({ headers }) => name in headers) ? header : sometimes(header);
  });
}

/** The last one of a name counts: it is the more special one. */
function headerReferences(headers: readonly ResponseHeader[], used: UsedHeaders): Pick<Response, 'headers'> {
  if (headers.length === 0) return {};
  for (const header of headers) used.set(header.component, header);
  return { headers: Object.fromEntries(headers.map(({ name, component }) => [name, reference('headers', component)])) };
}

function valuesOf(examples: Readonly<Record<string, unknown>>): Record<string, { value: unknown }> {
  return Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }]));
}

/** The known facts about a route besides its own description. */
interface RouteFacts {
  readonly scopes: 'open' | readonly Scope[];
  readonly isLimited: boolean;
  /** Undefined if no body is read. */
  readonly bodyLimitBytes: number | undefined;
  /** Names of its query. */
  readonly query: readonly string[];
  /** Undefined if it asks no store. */
  readonly operation: StoreOperation | undefined;
  readonly isProbe: boolean;
}

/** Errors that follow from the kind of a route: its body, query, scopes, limits and store. */
function commonErrors({ scopes, isLimited, bodyLimitBytes, query, operation, isProbe }: RouteFacts): RouteErrors {
  return [
    ...(bodyLimitBytes === undefined
      ? []
      : [...BODY_ERRORS, { bodyTooLarge: publicErrors.bodyTooLarge(bodyLimitBytes) }]),
    ...(query[0] === undefined ? [] : [{ parameterTwice: sentTwice(query[0], 'querystring') }]),
    ...(scopes === 'open' ? [] : accessErrors(scopes)),
    ...(isLimited ? (['tooManyRequests'] as const) : []),
    ...(operation === undefined ? [] : storeErrors(operation)),
    ...(isProbe ? [] : NOT_NOW_ERRORS),
    HEAD_ERRORS,
  ];
}

const BODY_ERRORS: RouteErrors = [
  {
    notUtf8: () => readJsonBody(Buffer.from([0xff])),
    notJson: () => readJsonBody(Buffer.from('{"amount":')),
    nestedTooDeep: () => readJsonBody(Buffer.from('['.repeat(1_000))),
    chunkExtensionsTooLarge: CHUNK_EXTENSIONS_TOO_LARGE,
  },
  'unsupportedMediaType',
  'tooManyBodies',
];

function accessErrors(scopes: readonly Scope[]): RouteErrors {
  return [
    'credentialsMissing',
    'credentialsInvalid',
    { scopeMissing: publicErrors.scopeMissing(scopes) },
    'credentialsUnchecked',
  ];
}

function storeErrors(operation: StoreOperation): RouteErrors {
  const storeUnavailable = publicErrors.storeUnavailable(operation);
  const storeOutcomeUnknown = publicErrors.storeOutcomeUnknown(operation);
  // A read that failed changed nothing.
  if (storeUnavailable.message === storeOutcomeUnknown.message) return [{ storeUnavailable }];
  return [{ storeUnavailable, storeOutcomeUnknown }];
}

/** Returned before a request is routed, also for unknown paths. */
const NOT_NOW_ERRORS: RouteErrors = ['starting', 'tooManyConnections'];

/** 400 for the head of any request: an error of every operation. */
export const HEAD_ERRORS = errorsOf([
  { malformedRequest: MALFORMED },
  'invalidHost',
  'repeatedHeader',
  'invalidPath',
  'invalidQuery',
  {
    transferCodingInOldVersion: transferCodingProblem('chunked', '1.0') as PublicError,
    transferCodingNotLast: transferCodingProblem('chunked, gzip', '1.1') as PublicError,
  },
]);

/** Any request may get one of these. They are described once. The first two come if there is no operation. */
export const ANY_REQUEST_ERRORS = errorsOf([
  'unknownRoute',
  'methodNotAllowed',
  { requestTooSlow: REQUEST_TOO_SLOW, uriTooLong: publicErrors.uriTooLong(MAX_TARGET_LENGTH) },
  'expectationFailed',
  'otherSite',
  'misdirected',
  { headersTooLarge: HEADERS_TOO_LARGE },
  'internal',
  'unknownMethod',
  'unknownTransferCoding',
  'unknownVersion',
  ...NOT_NOW_ERRORS,
]);
