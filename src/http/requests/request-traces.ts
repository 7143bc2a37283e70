import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';

/** The traces of requests (rule O3). */
export interface RequestTraces {
  /** `route` is the pattern, because a path may hold a key. It is undefined if no route matches. */
  begin(method: string, route: string | undefined, headers: IncomingHttpHeaders): RequestTrace;
}

export interface RequestTrace {
  /** Work that the step begins, now or later, belongs to this trace. */
  run(step: () => void): void;
  ended(status: number): void;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Undefined if traces are off. */
    requestTrace?: RequestTrace | undefined;
  }
}

/** Monitoring and open consoles poll these every few seconds, and would make most of the traces. */
const UNTRACED = ['/livez', '/readyz', '/metrics', '/api/live'];

/** Must be registered before every other hook, so that these belong to the trace of their request too. */
export function traceRequests(app: FastifyInstance, traces: RequestTraces): void {
  app.decorateRequest('requestTrace', undefined);

  app.addHook('onRequest', (request, _reply, done) => {
    const { url } = request.routeOptions;
    if (url !== undefined && UNTRACED.includes(url)) {
      done();
      return;
    }
    request.requestTrace = traces.begin(request.method, url, request.headers);
    request.requestTrace.run(done);
  });
  // The end of an answer is an event of the connection, outside of the request's async context.
  app.addHook('onResponse', (request, reply, done) => {
    const { requestTrace } = request;
    if (!requestTrace) {
      done();
      return;
    }
    requestTrace.ended(reply.statusCode);
    requestTrace.run(done);
  });
}
