import type { JsonSchema } from '../../platform/json-schema.js';

/** The parts of OpenAPI 3.1 (spec.openapis.org/oas/v3.1.0) that the description uses. */
export interface OpenApiDocument {
  readonly openapi: '3.1.0';
  readonly info: Readonly<Record<string, unknown>>;
  readonly servers: readonly { readonly url: string }[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, PathItem>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>;
}

export interface PathItem {
  readonly parameters: readonly object[];
  /** By method, in lower case. */
  [method: string]: Operation | readonly object[];
}

export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly (Parameter | Reference)[];
  readonly requestBody?: object;
  readonly responses: Readonly<Record<string, Response | Reference>>;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
}

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly description: string;
  readonly required: boolean;
  readonly schema: JsonSchema;
  readonly example?: unknown;
}

export interface Response {
  readonly description: string;
  /** Besides the headers of every answer, which the response `default` of its operation has. */
  readonly headers?: Readonly<Record<string, Reference>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

export interface MediaType {
  readonly schema: JsonSchema;
  readonly examples?: Readonly<Record<string, { readonly value: unknown } | Reference>>;
}

export interface Reference {
  readonly $ref: string;
}

export function reference(kind: string, name: string): Reference {
  return { $ref: `#/components/${kind}/${name}` };
}
