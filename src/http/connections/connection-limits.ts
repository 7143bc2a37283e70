import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { FastifyBaseLogger } from 'fastify';

/** The share of the process that a connection may take. Durations are milliseconds. */
export interface ConnectionLimits {
  /** Open at once, at most. */
  readonly maxConnections: number;
  /** From a connection to the end of its TLS handshake. */
  readonly handshakeTimeout: number;
  /** From the first byte of a request, or from the connection, to the end of its head. */
  readonly headersTimeout: number;
  /** To the end of its body. */
  readonly requestTimeout: number;
  /** From an answer to the next request. */
  readonly keepAliveTimeout: number;
  /** How long a client may leave the rest of an answer unread. */
  readonly unreadTimeout: number;
  /** How often the first two are checked: nothing is cut sooner, and nothing later than by this. */
  readonly connectionsCheckingInterval: number;
}

export const CONNECTION_LIMITS: ConnectionLimits = {
  /** 10 to 20 kB each. */
  maxConnections: 10_000,
  /** Bounds the cost of a connection that sends nothing; the platform's own default is two minutes. */
  handshakeTimeout: 10_000,
  /** A head fits into a few packets; only a hostile or disconnected client needs longer. */
  headersTimeout: 15_000,
  /** 16 KiB over the slowest mobile network. The platform's own default is five minutes. */
  requestTimeout: 30_000,
  /** Longer than the idle time-out of the usual load balancers (60 s), so that the load balancer, not the service, closes idle connections. */
  keepAliveTimeout: 72_000,
  unreadTimeout: 60_000,
  /** All that are due are cut in one turn of the event loop, so the turns must be small: of thousands a second, a few hundred. */
  connectionsCheckingInterval: 100,
};

/** Accepted beyond the limit, to serve probes and to answer 503. Node closes any further connection without an answer. */
const RESERVED_CONNECTIONS = 100;
/**
 * The time that such a connection has from its accept to the end of its request's head, with TLS. Otherwise silent connections take these
 * places.
 */
const CROWDED_MS = 1_000;

/** Connections of the process, as `/metrics` shows them. */
export interface ConnectionCounts {
  /** Now, with TLS set up if it is on. */
  readonly open: number;
  /** Answers and connections that MAX_CONNECTIONS refused. */
  readonly refused: number;
}

/** The connections beyond the limit, by the socket beneath TLS and by the one above it: that one counts as soon as it is there. */
const crowded = new WeakMap<Socket, { socket: Socket }>();

/** The log is for the first of many. */
export const WARN_AGAIN_AFTER_MS = 60_000;

/** Node's own name for the connection beneath. */
export type SecuredSocket = TLSSocket & { readonly _parent: Socket };

/**
 * Marks each connection beyond the limit, and bounds its time. `accepted` counts the open connections, also the one that begins, and
 * connections whose TLS is not set up yet. `onDropped` is called for each that Node closes unseen.
 */
export function limitConnections(
  server: Server,
  { maxConnections, unreadTimeout }: ConnectionLimits,
  accepted: () => number,
  log: Pick<FastifyBaseLogger, 'warn'>,
  onDropped: () => void,
): void {
  let warnedAt = Number.NEGATIVE_INFINITY;
  server.maxConnections = maxConnections + RESERVED_CONNECTIONS;
  server.on('drop', onDropped);
  server.on('secureConnection', (socket: SecuredSocket) => {
    const place = crowded.get(socket._parent);
    if (!place) return;
    place.socket = socket;
    crowded.set(socket, place);
  });
  server.on('connection', (socket: Socket) => {
    if (accepted() <= maxConnections) return;
    const place = { socket };
    crowded.set(socket, place);
    // The answer to a probe takes less than a second, and ends its connection.
    const cut = () => answerOn(place.socket) ?? place.socket.destroy();
    const limit = setTimeout(cut, CROWDED_MS).unref();
    socket.once('close', () => clearTimeout(limit));
    if (performance.now() - warnedAt < WARN_AGAIN_AFTER_MS) return;
    warnedAt = performance.now();
    log.warn({ maxConnections }, 'too many connections are open: further ones are refused (MAX_CONNECTIONS)');
  });
  server.timeout = unreadTimeout;
  // Node leaves the socket to a listener. It is silent because its client idles, or does not read, or waits for our answer.
  server.on('timeout', (socket) => {
    if (!isAwaitingAnswer(socket)) socket.destroy();
  });
}

/** True if its connection is one too many: only probes are answered there. */
export function isCrowded({ socket }: IncomingMessage): boolean {
  return crowded.has(socket);
}

function isAwaitingAnswer(socket: Socket): boolean {
  return answerOn(socket) !== undefined && socket.writableLength === 0;
}

/** The answer that is being written, or that is waited for. */
export function answerOn(socket: Socket): ServerResponse | undefined {
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? undefined;
}
