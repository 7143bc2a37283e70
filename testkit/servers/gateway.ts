import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { ask } from '../client/http-client.js';

/** Headers that belong to one connection (RFC 9110 7.6.1), or that are written anew for the next one. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'host']);

export interface GatewayAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** The client's answer to a request. `forward` lets the service carry it out, and gives its answer. */
export type GatewayRule = (
  request: { readonly method: string; readonly path: string },
  forward: () => Promise<GatewayAnswer>,
) => Promise<GatewayAnswer>;

/** A gateway in front of a service that may answer by itself, before or after the service carried the request out. */
export async function startGateway(target: string, rule: GatewayRule = (_request, forward) => forward()) {
  const gateway = { rule };
  const server = createServer((request, response) => {
    const { method = 'GET', url: path = '/' } = request;
    void (async () => {
      const body = (await buffer(request)).toString();
      const headers = passed(request.headers) as Record<string, string>;
      const forward = async (): Promise<GatewayAnswer> => ask(`${target}${path}`, { method, headers, body });
      const answer = await gateway.rule({ method, path }, forward);
      response.writeHead(answer.status, passed(answer.headers)).end(answer.text);
    })().catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** From the next request on. */
    use(next: GatewayRule): void {
      gateway.rule = next;
    },
    async close(): Promise<void> {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

export type Gateway = Awaited<ReturnType<typeof startGateway>>;

/** An answer of the gateway's own with the three members of the service's errors. */
export function ownJson(status: number): GatewayAnswer {
  const body = { status, error: 'Gateway rule', message: 'Response blocked' };
  return { status, headers: { 'content-type': 'application/json' }, text: JSON.stringify(body) };
}

export function ownPage(status: number): GatewayAnswer {
  return { status, headers: { 'content-type': 'text/html' }, text: '<html><h1>Gateway</h1></html>' };
}

function passed(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)));
}
