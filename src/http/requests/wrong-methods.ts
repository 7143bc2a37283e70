import { METHODS } from 'node:http';
import type { FastifyInstance, HTTPMethods } from 'fastify';
import { publicErrors } from '../errors/catalogue.js';

/** CONNECT never becomes a request; the server answers it alongside the router. */
const UNROUTABLE = new Set(['CONNECT']);

/**
 * Watches the routes that are registered from now on. The function it returns then adds, for each of their paths, the 405
 * with `Allow` for every other method (RFC 9110 15.5.6); the router alone would answer 404.
 */
export function watchMethods(app: FastifyInstance): () => void {
  const allowedByPath = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }) => {
    const allowed = allowedByPath.get(url) ?? new Set();
    for (const name of [method].flat()) allowed.add(name);
    allowedByPath.set(url, allowed);
  });

  return function answerWrongMethods() {
    for (const method of METHODS) {
      if (!UNROUTABLE.has(method) && !app.supportedMethods.includes(method)) app.addHttpMethod(method);
    }
    for (const [url, allowed] of [...allowedByPath]) {
      const allow = [...allowed].sort().join(', ');
      const wrong = app.supportedMethods.filter((method) => !allowed.has(method)) as HTTPMethods[];
      const refuse = () => {
        throw publicErrors.methodNotAllowed(allow);
      };
      // Refused before the body is read: a wrong method comes before a wrong body.
      app.route({
        url,
        method: wrong,
        config: { scopes: 'open', description: 'none' },
        onRequest: refuse,
        handler: refuse,
      });
    }
  };
}
