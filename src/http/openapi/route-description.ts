import type { JsonSchema } from '../../platform/json-schema.js';
import { EXAMPLE_ERRORS, type ExampleName } from '../errors/catalogue.js';
import { PublicError } from '../errors/public-error.js';
import { type JsonBody, readJsonBody } from '../requests/json-body.js';

export interface RequestHeader {
  readonly name: string;
  readonly text: string;
  readonly required: boolean;
  readonly schema: JsonSchema;
  readonly example?: string;
}

export interface ResponseHeader {
  readonly name: string;
  /** In `components.headers`. */
  readonly component: string;
  readonly text: string;
  /** True if every answer that names the header has it. */
  readonly required: boolean;
  readonly schema: JsonSchema;
  readonly example?: string | number;
}

/** The description's text about one route; method, path, scopes and limits come from the route itself. */
export interface RouteDescription {
  /** Stable: clients are generated from it. */
  readonly operationId: string;
  readonly tag: Tag;
  readonly summary: string;
  /** CommonMark. */
  readonly text: string;
  /** By name: exactly the parameters of the route's schemas of path and query. */
  readonly parameters?: Readonly<Record<string, ParameterDescription>>;
  readonly headers?: readonly RequestHeader[];
  readonly body?: BodyDescription;
  /** Answers that are no errors, by status. */
  readonly answers: Readonly<Record<number, AnswerDescription>>;
  /** Errors of this route, in the order of the description. The errors of every route are added. */
  readonly errors?: RouteErrors;
  /** Headers that an answer of any status may have. */
  readonly anyAnswerHeaders?: readonly ResponseHeader[];
  /** Headers of errors besides the error's own, by status. */
  readonly errorHeaders?: Readonly<Record<number, readonly ResponseHeader[]>>;
  /** Only a page of the service asks for it. The description for clients leaves it out. */
  readonly isOfPage?: true;
  /** It asks no store: no answer of it says that one is down. */
  readonly asksNoStore?: true;
  /** Answered also while the service starts, and on a connection too many. */
  readonly isProbe?: true;
}

/**
 * Names of examples in the catalogue of errors, and others by names of their own: an error, or a refusal of a reader of the route, with the
 * sentence that a client gets.
 */
export type RouteErrors = readonly (ExampleName | Readonly<Record<string, PublicError | (() => unknown)>>)[];

/** By the names of their examples. A mistake of a description ends the start. */
export function errorsOf(errors: RouteErrors): Readonly<Record<string, PublicError>> {
  const named = errors.flatMap((each) =>
    Object.entries(typeof each === 'string' ? { [each]: EXAMPLE_ERRORS[each] } : each),
  );
  return Object.fromEntries(
    named.map(([name, error]) => [name, error instanceof PublicError ? error : refusalBy(name, error)]),
  );
}

function refusalBy(name: string, read: () => unknown): PublicError {
  try {
    read();
  } catch (error) {
    if (error instanceof PublicError) return error;
    throw error;
  }
  throw new Error(`the example ${name} of a refusal was not refused`);
}

/** The refusals of bodies, by the names of their examples. */
export function refusedBodies(
  read: (body: JsonBody) => unknown,
  bodies: Readonly<Record<string, string>>,
): Readonly<Record<string, () => unknown>> {
  return Object.fromEntries(
    Object.entries(bodies).map(([name, text]) => [name, () => read(readJsonBody(Buffer.from(text)))]),
  );
}

export interface ParameterDescription {
  readonly text: string;
  readonly schema: JsonSchema;
  readonly example?: unknown;
  /** For a parameter of a query; a parameter in a path is always required. */
  readonly required?: boolean;
}

export interface BodyDescription {
  readonly text: string;
  readonly required: boolean;
  /** A name in `components.schemas`. */
  readonly schema: string;
  readonly examples: Readonly<Record<string, unknown>>;
}

export interface AnswerDescription {
  readonly text: string;
  readonly headers?: readonly ResponseHeader[];
  /** The body; undefined if there is none. */
  readonly content?: {
    readonly mediaType: string;
    /** Media types that it may have instead. */
    readonly more?: readonly string[];
    readonly schema: JsonSchema;
    readonly examples?: Readonly<Record<string, unknown>>;
  };
}

/** The groups of operations, in the order in which the reference page shows them. */
export const TAGS = {
  Payments:
    'Get a key, pay with it, repeat with the same key until the outcome is known. A payment has its own kind of id, `TXN` and digits.',
  'Payment records':
    'Payments as they are kept: by key, as a list, as a daily export, and their resolution by an operator.',
  Transactions:
    'Transactions between accounts, with entity tags. Their ids are numbers of 15 digits and have nothing to do with those of payments.',
  Webhooks: 'The endpoints that are told how payments and refunds ended.',
  Health: 'The key-value store.',
  Operations: 'Probes and metrics of the process.',
  Description: 'This description, and the page that shows it.',
  Console: "The operator's console, and what it asks first.",
  'Head requests': 'The headers of the answer to GET, without its body.',
} as const;

export type Tag = keyof typeof TAGS;
