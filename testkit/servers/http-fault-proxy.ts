import { once } from 'node:events';
import {
  Agent,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { type Answer, ask, IDLE_CONNECTION_MS } from '../client/http-client.js';
import { answerOf, OWN_ANSWERS } from '../client-library/answering-gateway.js';
import type { Random } from '../random.js';
import { pause, until } from '../time/until.js';

/**
 * The fate of one request. `before`: it never reaches the service; `after`: the service has answered it. `answers`: the proxy answers by
 * itself, with any status.
 */
const FAULTS = ['reset before', 'reset after', 'answers before', 'answers after', 'cut', 'slow', 'late'] as const;
export type ProxyFault = (typeof FAULTS)[number];

/** Longer than an attempt of the clients that run through it, sometimes. */
const LONGEST_DELAY_MS = 2_500;
const IDLE_DEADLINE_MS = 30_000;
/** Headers that belong to one connection (RFC 9110 7.6.1), or that are written anew for the next one. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'host']);

export interface HttpFaultProxyOptions {
  readonly random: Random;
  /** The share of requests that meet a fault, from 0 to 1. */
  rate: number;
  /** One of them gets each request. Read each time. */
  readonly targets: () => readonly { readonly url: string }[];
  /** Called with the body as soon as it is here, whatever becomes of it. */
  readonly onRequest?: (path: string, body: string) => void;
}

/** A load balancer that fails as the network and other balancers do. A service that cannot be reached is its 502. */
export async function startHttpFaultProxy(options: HttpFaultProxyOptions): Promise<HttpFaultProxy> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  return new HttpFaultProxy(server, options);
}

export class HttpFaultProxy {
  readonly counts = new Map<ProxyFault | 'none', number>();
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS });
  #underWay = 0;

  constructor(
    private readonly server: Server,
    private readonly options: HttpFaultProxyOptions,
  ) {
    server.on('request', (request, response) => {
      this.#underWay += 1;
      void this.#serve(request, response)
        .catch(() => response.destroy())
        .finally(() => {
          this.#underWay -= 1;
        });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** From now on everything passes. Resolves when nothing is on the way any more, late requests included. */
  async heal(): Promise<void> {
    this.options.rate = 0;
    await until('requests on the way to arrive', IDLE_DEADLINE_MS, () => this.#underWay === 0);
  }

  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    this.server.closeAllConnections();
    await closed;
    this.#agent.destroy();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { random, rate, onRequest } = this.options;
    const body = (await buffer(request)).toString();
    const path = request.url ?? '/';
    onRequest?.(path, body);
    const fault = random.fraction() < rate ? random.pick(FAULTS) : 'none';
    this.counts.set(fault, (this.counts.get(fault) ?? 0) + 1);
    const forward = () => this.#forward(request, path, body);
    const delayed = () => pause(random.below(LONGEST_DELAY_MS));
    const reset = () => request.socket.resetAndDestroy();
    switch (fault) {
      case 'none':
        return send(response, await forward());
      case 'reset before':
        return void reset();
      case 'answers before':
        return send(response, ownAnswer(random));
      case 'reset after':
        await forward();
        return void reset();
      case 'answers after':
        await forward();
        return send(response, ownAnswer(random));
      case 'late':
        // The client's connection is reset, and the request is still delivered later.
        reset();
        await delayed();
        await forward();
        return;
      case 'slow':
        if (random.below(2) === 0) await delayed();
        else {
          const answer = await forward();
          await delayed();
          return send(response, answer);
        }
        return send(response, await forward());
      case 'cut': {
        const { status, headers, text } = await forward();
        const bytes = Buffer.from(text);
        response.writeHead(status, { ...passed(headers), 'content-length': bytes.length });
        // All of it but the last byte, now and then.
        response.write(bytes.subarray(0, random.below(bytes.length + 1)), reset);
        return;
      }
    }
  }

  #forward(request: IncomingMessage, path: string, body: string): Promise<Pick<Answer, 'status' | 'headers' | 'text'>> {
    const { random, targets } = this.options;
    const { method = 'GET' } = request;
    const headers = passed(request.headers) as Record<string, string>;
    return ask(`${random.pick(targets()).url}${path}`, { method, headers, body, agent: this.#agent }).catch(
      () => NO_SERVICE,
    );
  }
}

/** A page of 503 in half of the cases, because that is what balancers answer most. */
function ownAnswer(random: Random) {
  if (random.below(2) === 0) return answerOf({ status: 503, body: 'a page', header: 'stripped' });
  return answerOf(random.pick(OWN_ANSWERS.filter(({ status }) => status !== 204)));
}
const NO_SERVICE = { status: 502, headers: { 'content-type': 'text/html' }, text: '<html>502 Bad Gateway</html>' };

function send(response: ServerResponse, { status, headers, text }: Pick<Answer, 'status' | 'headers' | 'text'>): void {
  response.writeHead(status, { ...passed(headers) }).end(text);
}

function passed(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)));
}
