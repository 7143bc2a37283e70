import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { answerMalformedHttp, guardConnections } from './connections.js';
import { answerExpectations } from './expectations.js';
import { originForm } from './request-head.js';
import { answerStarting } from './starting.js';

/** A request that has not arrived whole by then is cut (408); the platform's own default is five minutes. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than the idle time-out of the usual load balancers (60 s), so that it is never us who close under a request. */
const KEEP_ALIVE_TIMEOUT_MS = 72_000;
const HTTP_OPTIONS = {
  requireHostHeader: false,
  requestTimeout: REQUEST_TIMEOUT_MS,
  keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
};

/** The port and its connections. It is open from the first moment on, and answers probes only until `serve` is called. */
export interface Listener {
  readonly server: Server;
  /** On the first address of the host. Resolves to the port once it is open. */
  listen(host: string, port: number): Promise<number>;
  /** From now on `answer` gets every request. */
  serve(answer: RequestListener): void;
  /** Accepts no more connections. Resolves when the last one has ended. */
  close(): Promise<void>;
}

/** Not yet listening. */
export function createListener(log: Pick<FastifyBaseLogger, 'warn'>): Listener {
  let answer: RequestListener = answerStarting;
  const server = createServer(HTTP_OPTIONS, (request, response) => {
    // The router knows paths only, and an origin server is also asked in absolute form.
    request.url = originForm(request.url ?? '');
    answer(request, response);
  });
  server.on('clientError', answerMalformedHttp);
  answerExpectations(server);
  const closeUnused = guardConnections(server, log);

  return {
    server,
    async listen(host, port) {
      server.listen({ host, port });
      await once(server, 'listening');
      return (server.address() as AddressInfo).port;
    },
    serve(handler) {
      answer = handler;
    },
    close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      closeUnused();
      return closed;
    },
  };
}
