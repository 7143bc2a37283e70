import type { FastifyInstance } from 'fastify';
import { type HttpMeasures, NO_ROUTE } from './measures.js';

/**
 * Measures every answer, by the pattern of its route. A hook of each route, with the route's own counters in it: to look them
 * up by request would cost more than to count.
 */
export function countRequests(app: FastifyInstance, measures: HttpMeasures): void {
  app.addHook('onRoute', (route) => {
    const measure = measures.route(route.url);
    const hooks = route.onResponse === undefined ? [] : [route.onResponse].flat();
    route.onResponse = [
      ...hooks,
      (request, reply, done) => {
        measure.ended(request.method, reply.statusCode, reply.elapsedTime);
        done();
      },
    ];
  });

  const elsewhere = measures.route(NO_ROUTE);
  app.addHook('onResponse', (request, reply, done) => {
    if (request.is404) elsewhere.ended(request.method, reply.statusCode, reply.elapsedTime);
    done();
  });
}
