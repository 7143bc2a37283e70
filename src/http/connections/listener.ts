import { once } from 'node:events';
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import { answerCrowded, answerStarting } from './bare-answers.js';
import { type CertificateFiles, followCertificate, readCertificate } from './certificate-files.js';
import { CONNECTION_LIMITS, type ConnectionCounts, type ConnectionLimits, isCrowded } from './connection-limits.js';
import { answerMalformedHttp, guardConnections } from './connections.js';
import { refuseExpectation, takeExpectations } from './expectations.js';
import { limitPipelined } from './pipelined-requests.js';
import { isUpgradeAsked, originForm } from './request-head.js';

const TLS_OPTIONS = { minVersion: 'TLSv1.2' } as const;
/**
 * Connections that wait to be accepted; the kernel takes `net.core.somaxconn` if that is less. Node.js accepts one in each turn of its loop, and
 * the kernel drops what comes to a full queue, so its client tries again after one second, and then after ever longer ones. Node's own 511 are
 * full as soon as one client opens so many at once.
 */
const ACCEPT_QUEUE = 4_096;

/** The port and its connections. It is open from the first moment on, and answers probes only until `serve` is called. */
export interface Listener {
  readonly server: Server;
  readonly connections: ConnectionCounts;
  /** On the first address of the host. Resolves to the port once it is open. */
  listen(host: string, port: number): Promise<number>;
  /** From now on `answer` gets every request. */
  serve(answer: RequestListener): void;
  /** Accepts no more connections. Resolves when the last one has ended. */
  close(): Promise<void>;
}

type Log = Pick<FastifyBaseLogger, 'info' | 'warn' | 'error'>;

/** Not yet listening. With `certificateFiles` it speaks TLS only; throws CertificateError if these cannot be used. */
export function createListener(
  log: Log,
  certificateFiles?: CertificateFiles,
  limits: ConnectionLimits = CONNECTION_LIMITS,
): Listener {
  const options = { ...limits, requireHostHeader: false };
  let answer: RequestListener = answerStarting;
  let refused = 0;
  const onRequest = limitPipelined((request, response) => {
    // So nothing is begun of the bytes behind it.
    if (isUpgradeAsked(request)) response.shouldKeepAlive = false;
    if (refuseExpectation(request, response)) return;
    // The router knows paths only, and an origin server is also asked in absolute form.
    request.url = originForm(request.url ?? '');
    if (!isCrowded(request)) answer(request, response);
    else if (!answerCrowded(request, response, answer)) refused += 1;
  });
  const server = certificateFiles
    ? createSecuredServer(certificateFiles, options, onRequest, log)
    : createServer(options, onRequest);
  // Node drops all headers after the first thousand or so, and says nothing. Here none is dropped: `headProblem` refuses too many.
  server.maxHeadersCount = 0;
  server.on('clientError', answerMalformedHttp);
  takeExpectations(server);
  const { open, closeUnused } = guardConnections(server, limits, log, () => {
    refused += 1;
  });

  return {
    server,
    connections: {
      get open() {
        return open.size;
      },
      get refused() {
        return refused;
      },
    },
    async listen(host, port) {
      server.listen({ host, port, backlog: ACCEPT_QUEUE });
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

/** New connections get a renewed certificate; open ones go on with theirs. */
function createSecuredServer(
  files: CertificateFiles,
  options: ServerOptions,
  onRequest: RequestListener,
  log: Log,
): TlsServer {
  const pair = readCertificate(files);
  const server = createTlsServer({ ...options, ...TLS_OPTIONS, ...pair }, onRequest);
  const stopFollowing = followCertificate(
    files,
    pair,
    (renewed) => server.setSecureContext({ ...TLS_OPTIONS, ...renewed }),
    log,
  );
  return server.once('close', stopFollowing);
}
