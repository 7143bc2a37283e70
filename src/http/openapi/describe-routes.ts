import type { FastifyInstance } from 'fastify';
import { BODY_LIMIT_BYTES } from '../requests/body-parser.js';
import { type DescribedRoute, type OpenApiDocuments, openApiDocuments } from './document.js';

declare module 'fastify' {
  interface FastifyInstance {
    /** Asked for when all routes are registered. Throws where a route and its description do not fit. */
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
