import { errorBody, type PublicError, reasonPhrase } from '../errors/public-errors.js';
import { COMMON_HEADERS, DATA_POLICY, ERROR_HEADERS, NO_STORE, sometimes } from './headers.js';
import { type MediaType, type Reference, type Response, reference } from './openapi.js';
import type { AnswerDescription, ResponseHeader } from './route-description.js';

const JSON_TYPE = 'application/json';
type Errors = Readonly<Record<string, PublicError>>;

/** Collects the headers that responses refer to, by their component. */
export type UsedHeaders = Map<string, ResponseHeader>;

/** What a route may answer beside its description. */
export interface AnswerContext {
  readonly used: UsedHeaders;
  /** On every answer of the route. */
  readonly headers: readonly ResponseHeader[];
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
    headers: headerReferences([...context.headers, ...headers], context.used),
    ...(described &&
      !context.bodiless && { content: Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, described])) }),
  };
}

/** One response for each status. `shared`: examples in `components`, by status. */
export function errorResponses(
  errors: Errors,
  context: AnswerContext,
  shared: Readonly<Record<number, readonly string[]>> = {},
): Record<string, Response> {
  const statuses = [...Object.values(errors).map(({ status }) => status), ...Object.keys(shared).map(Number)];
  return Object.fromEntries(
    [...new Set(statuses)].sort().map((status) => {
      const ofStatus = Object.entries(errors).filter(([, error]) => error.status === status);
      return [String(status), errorResponse(status, Object.fromEntries(ofStatus), context, shared[status] ?? [])];
    }),
  );
}

function errorResponse(status: number, errors: Errors, context: AnswerContext, shared: readonly string[]): Response {
  const headers = [
    ...context.headers,
    NO_STORE,
    ...headersOfErrors(Object.values(errors), shared.length > 0),
    ...(context.errorHeaders[status] ?? []),
  ];
  return {
    description: `${reasonPhrase(status)}.`,
    headers: headerReferences(headers, context.used),
    ...(!context.bodiless && {
      content: {
        [JSON_TYPE]: {
          schema: reference('schemas', 'Problem'),
          examples: {
            ...errorExamples(errors),
            ...Object.fromEntries(shared.map((name) => [name, reference('examples', name)])),
          },
        },
      },
    }),
  };
}

/** One response for errors of several statuses: its schema names these. */
export function responseOfSeveral(errors: Errors, { headers, used }: AnswerContext, text: string): Response {
  const all = Object.values(errors);
  const statuses = [...new Set(all.map(({ status }) => status))].sort();
  return {
    description: text,
    headers: headerReferences([...headers, NO_STORE, ...headersOfErrors(all, true)], used),
    content: {
      [JSON_TYPE]: {
        schema: { allOf: [reference('schemas', 'Problem'), { properties: { status: { enum: statuses } } }] },
        examples: errorExamples(errors),
      },
    },
  };
}

export function errorExamples(errors: Errors): Record<string, { value: unknown }> {
  return valuesOf(
    Object.fromEntries(Object.entries(errors).map(([name, { status, message }]) => [name, errorBody(status, message)])),
  );
}

/** A header that not all errors of a status have is one that the answer sometimes has. */
function headersOfErrors(errors: readonly PublicError[], andOthers: boolean): ResponseHeader[] {
  const names = [...new Set(errors.flatMap(({ headers }) => Object.keys(headers)))];
  return names.map((name) => {
    const header = ERROR_HEADERS[name];
    if (!header) throw new Error(`the description has no header ${name}`);
    return !andOthers && errors.every(({ headers }) => name in headers) ? header : sometimes(header);
  });
}

/** The last one of a name counts: it is the more special one. */
function headerReferences(headers: readonly ResponseHeader[], used: UsedHeaders): Record<string, Reference> {
  const all = [...COMMON_HEADERS, DATA_POLICY, ...headers];
  for (const header of all) used.set(header.component, header);
  return Object.fromEntries(all.map(({ name, component }) => [name, reference('headers', component)]));
}

function valuesOf(examples: Readonly<Record<string, unknown>>): Record<string, { value: unknown }> {
  return Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }]));
}
