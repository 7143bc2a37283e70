import { createListener } from '../http/connections/listener.js';
import { bytesOf, type SentRequest, type WholeAnswer } from './fake-connection.js';
import type { FakeListener } from './fake-exchange.js';
import { SILENT } from './silent.js';

const HOST = '127.0.0.1';

/** A server for clients in another process, or in another language. */
export async function listenWith(
  answer: (request: SentRequest) => Promise<WholeAnswer | 'lost'>,
): Promise<FakeListener> {
  const listener = createListener(SILENT);
  listener.serve(async (incoming, outgoing) => {
    const { method = 'GET', url = '/', rawHeaders } = incoming;
    const given = await answer({ method, url, rawHeaders, body: await bytesOf(incoming) });
    if (given === 'lost') incoming.socket.resetAndDestroy();
    else outgoing.writeHead(given.status, given.headers).end(given.body);
  });
  const port = await listener.listen(HOST, 0);
  return {
    url: `http://${HOST}:${port}`,
    async close() {
      const closed = listener.close();
      listener.server.closeAllConnections();
      await closed;
    },
  };
}
