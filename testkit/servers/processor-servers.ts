import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import type { ProcessorClient } from '#idempay/payments/ports/processor.js';
import { createHttpProcessor } from '#idempay/payments/processors/http.js';

export const MOST_CONNECTIONS = 256;

type Received = Readonly<Record<'method' | 'url' | 'body', string>> & Pick<IncomingMessage, 'headers'>;

/** A processor's server that speaks HTTP: answers each request, once it is here whole, as the test says. */
export const startHttpServer = async (answer: Parameters<typeof openHttpServer>[0]) =>
  closedByTest(await openHttpServer(answer));

/** The same for a whole suite, which must close it. */
export async function openHttpServer(answer: (response: ServerResponse, received: Received) => void) {
  const received: Received[] = [];
  const server = createHttpServer({ keepAliveTimeout: 60_000 }, async (request, response) => {
    const { method = '', url = '', headers } = request;
    const body = (await buffer(request).catch(() => Buffer.alloc(0))).toString();
    const got = { method, url, headers, body };
    received.push(got);
    answer(response, got);
  });
  return { ...(await listen(server)), received };
}

/** A server that speaks in bytes: `answer` is called once per whole request, which `received` and `asked` (its socket) keep. */
export async function startByteServer(answer: (socket: Socket, requestsBefore: number) => void) {
  const received: string[] = [];
  const asked: Socket[] = [];
  const server = createTcpServer((socket) => {
    let text = '';
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const [head = '', body] = text.split(/\r\n\r\n(.*)/s);
      if (body === undefined || body.length < Number(/content-length: (\d+)/.exec(head)?.[1] ?? 0)) return;
      received.push(text);
      asked.push(socket);
      text = '';
      answer(socket, received.length - 1);
    });
  });
  const references = () => received.map((text) => /idempotency-key: (\w+)/.exec(text)?.[1]);
  return closedByTest({ ...(await listen(server)), received, asked, references });
}

function closedByTest<Opened extends { close(): Promise<unknown> }>(opened: Opened): Opened {
  onTestFinished(async () => void (await opened.close()));
  return opened;
}

async function listen(server: Server) {
  const open = new Set<Socket>();
  let connections = 0;
  let mostAtOnce = 0;
  server.on('connection', (socket: Socket) => {
    connections += 1;
    open.add(socket);
    mostAtOnce = Math.max(mostAtOnce, open.size);
    socket.on('close', () => open.delete(socket));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    mostAtOnce: () => mostAtOnce,
    async close() {
      const closed = once(server.close(), 'close');
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** Our side of it. Long enough for any machine, unless the test is about the deadline. */
export function processorAt(
  at: { readonly port: number; readonly path?: string; readonly userInfo?: string; readonly protocol?: string },
  timeoutMs = 20_000,
): ProcessorClient & { readonly alarms: readonly string[] } {
  const alarms: string[] = [];
  const url = `${at.protocol ?? 'http:'}//${at.userInfo ?? ''}127.0.0.1:${at.port}${at.path ?? ''}`;
  const alarm = (cause: string) => alarms.push(cause);
  const processor = createHttpProcessor({ url, timeoutMs, dedupMs: 0, connections: MOST_CONNECTIONS, alarm });
  onTestFinished(() => processor.close());
  return Object.assign(processor, { alarms });
}
