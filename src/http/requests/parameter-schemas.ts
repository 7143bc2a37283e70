import type { FastifyTypeProvider } from 'fastify';

// All parameters are texts, which the routes read themselves. So the schemas only refuse a query that has a parameter twice.

interface TextSchema<Name extends string> {
  readonly type: 'object';
  readonly properties: { readonly [N in Name]: { readonly type: 'string' } };
}

/** A query may omit each of its parameters. */
export type QuerySchema<Name extends string = string> = TextSchema<Name>;

/** A path has all of its parameters. */
export interface PathSchema<Name extends string = string> extends TextSchema<Name> {
  readonly required: readonly Name[];
}

/** The parameters as a request has them. */
export type ParametersOf<Schema> =
  Schema extends PathSchema<infer Name>
    ? { readonly [N in Name]: string }
    : Schema extends QuerySchema<infer Name>
      ? { readonly [N in Name]?: string }
      : unknown;

/** Routes whose schemas are made here have typed parameters. */
export interface ParametersProvider extends FastifyTypeProvider {
  readonly validator: ParametersOf<this['schema']>;
}

export function querySchema<Name extends string>(...names: readonly Name[]): QuerySchema<Name> {
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string' }]));
  return { type: 'object', properties: properties as QuerySchema<Name>['properties'] };
}

export function pathSchema<Name extends string>(...names: readonly Name[]): PathSchema<Name> {
  return { ...querySchema(...names), required: names };
}
