import type { FastifyInstance } from 'fastify';

/** One line for each answer, at debug (rule O4): below that level requests cost the log nothing. */
export function logRequests(app: FastifyInstance): void {
  if (!['debug', 'trace'].includes(app.log.level)) return;
  app.addHook('onResponse', (request, reply, done) => {
    const { id, address, method, url } = request;
    const durationMs = Math.round(reply.elapsedTime);
    const target = withoutCredentials(url);
    app.log.debug({ requestId: id, address, method, url: target, status: reply.statusCode, durationMs }, 'request');
    done();
  });
}

/** Some HTTP libraries put a credential into the query by themselves (RFC 6750 2.3). It is refused there, but may be a good one. */
function withoutCredentials(target: string): string {
  return target.replace(CREDENTIAL_PARAMETER, '$1…').replace(API_KEY, 'idem_…');
}

const CREDENTIAL_PARAMETER = /([?&][^=&]*(?:token|secret|password|api_?-?key|authorization)[^=&]*=)[^&]*/gi;
const API_KEY = /idem_[\w-]+/g;
