import type { FastifyInstance } from 'fastify';
import { BODY_LIMIT_BYTES } from '../requests/body-parser.js';
import { type DescribedRoute, openApiDocument } from './document.js';
import type { OpenApiDocument } from './openapi.js';

declare module 'fastify' {
  interface FastifyInstance {
    /** What `/openapi.json` serves. Asked for when all routes are registered; throws where a route and its description do not fit. */
    openApiDocument(): OpenApiDocument;
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
  let document: OpenApiDocument | undefined;
  app.decorate('openApiDocument', () => {
    document ??= openApiDocument(routes);
    return document;
  });
}

function namesOf(schema: unknown): string[] {
  return Object.keys((schema as { properties?: object } | undefined)?.properties ?? {});
}
