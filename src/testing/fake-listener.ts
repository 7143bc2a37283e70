import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { FakeAnswer, FakeRequest } from './fake-exchange.js';

export interface FakeListener {
  /** The `baseUrl` of a client. */
  readonly url: string;
  close(): Promise<void>;
}

/** A server for clients in another process, or in another language. */
export async function listenWith(handle: (request: FakeRequest) => FakeAnswer | 'lost'): Promise<FakeListener> {
  const server = createServer(async (incoming, outgoing) => {
    const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://any');
    const answer = handle({
      method: incoming.method ?? 'GET',
      path: pathname,
      query: Object.fromEntries(searchParams),
      headers: incoming.headers as Record<string, string>,
      body: await text(incoming),
    });
    if (answer === 'lost') incoming.socket.resetAndDestroy();
    else outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
