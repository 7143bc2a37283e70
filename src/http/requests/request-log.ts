import type { FastifyInstance } from 'fastify';

/** One line for each answer, at debug (rule O4): below that level requests cost the log nothing. */
export function logRequests(app: FastifyInstance): void {
  if (!['debug', 'trace'].includes(app.log.level)) return;
  app.addHook('onResponse', (request, reply, done) => {
    const { id, address, method, url } = request;
    const durationMs = Math.round(reply.elapsedTime);
    app.log.debug({ requestId: id, address, method, url, status: reply.statusCode, durationMs }, 'request');
    done();
  });
}
