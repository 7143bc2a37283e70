import { errorBody, type PublicError, reasonPhrase } from '../errors/public-error.js';
import { PROBLEM_TYPE } from '../requests/accept.js';
import { HEAD_ERRORS } from './common-errors.js';
import { COMMON_HEADERS, DATA_POLICY, ERROR_HEADERS, NO_STORE, sometimes } from './headers.js';
import { type MediaType, type Response, reference } from './openapi.js';
import type { AnswerDescription, JsonSchema, ResponseHeader } from './route-description.js';

const JSON_TYPE = 'application/json';
/** In `components.schemas`. */
export const ANY_REQUEST_PROBLEM = 'AnyRequestProblem';
type Errors = Readonly<Record<string, PublicError>>;

/** Collects the headers that responses refer to, by their component. */
export type UsedHeaders = Map<string, ResponseHeader>;

/** What a route may answer besides its description. */
export interface AnswerContext {
  readonly used: UsedHeaders;
  readonly errorHeaders: Readonly<Record<number, readonly ResponseHeader[]>>;
  /** True for HEAD: no answer has a body. */
  readonly bodiless: boolean;
}

export function successResponse(answer: AnswerDescription, context: AnswerContext): Response {
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
export function errorResponses(errors: Errors, context: AnswerContext): Record<string, Response> {
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
export function responseOfAnyRequest(
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

/** Those of every operation are examples of the schema, so that they are there once. */
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
