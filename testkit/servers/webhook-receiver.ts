import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import type { Endpoint } from '#idempay/webhooks/endpoint-file.js';

const SECRET_BYTES = 32;

export interface ReceivedMessage {
  readonly id: string;
  readonly headers: IncomingMessage['headers'];
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** Answers one message. Without a call of `end` the receiver hangs. */
type AnswerMessage = (response: ServerResponse, message: ReceivedMessage) => void;

export type WebhookReceiver = Awaited<ReturnType<typeof startWebhookReceiver>>;

export const TAKE: AnswerMessage = (response) => void response.writeHead(204).end();
export const answerWith =
  (status: number, headers: Record<string, string> = {}): AnswerMessage =>
  (response) =>
    void response.writeHead(status, headers).end();

export const newWebhookSecret = () => `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`;

/** A receiver of webhooks as a shop would have one. It refuses what is not signed with its secret. */
export async function startWebhookReceiver(name = 'shop') {
  const secrets = [newWebhookSecret()];
  /** All messages that came, also repeats and refused ones. */
  const received: ReceivedMessage[] = [];
  /** The ids that were answered 2xx, as often as they were. */
  const taken: string[] = [];
  const unsigned: string[] = [];
  const sockets = new Set<Socket>();
  let answer = TAKE;
  const open = (port: number) => {
    const server = createServer(async (request, response) => {
      const text = (await buffer(request).catch(() => Buffer.alloc(0))).toString();
      const message = readMessage(request, text, secrets);
      if (!message) {
        unsigned.push(text);
        response.writeHead(401).end();
        return;
      }
      received.push(message);
      response.on('finish', () => response.statusCode < 300 && taken.push(message.id));
      answer(response, message);
    });
    server.on('connection', (socket: Socket) => {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    });
    server.listen(port, '127.0.0.1');
    return server;
  };
  let server = open(0);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  const endpoint: Endpoint = { name, url: `http://127.0.0.1:${port}/hooks?of=${name}`, secrets, private: true };
  return {
    endpoint,
    secrets,
    received,
    taken,
    unsigned,
    idsTaken: () => new Set(taken),
    /** Answers so from now on. */
    answer(next: AnswerMessage): void {
      answer = next;
    },
    /** Its connections are cut, and new ones are refused until it is opened again. */
    close,
    async openAgain(): Promise<void> {
      server = open(port);
      await once(server, 'listening');
    },
  };
}

function readMessage(request: IncomingMessage, text: string, secrets: readonly string[]): ReceivedMessage | undefined {
  const { headers } = request;
  try {
    for (const secret of secrets) new Webhook(secret).verify(text, headers as Record<string, string>);
    const { type, data } = JSON.parse(text) as Pick<ReceivedMessage, 'type' | 'data'>;
    return { id: String(headers['webhook-id']), headers, type, data, text };
  } catch {
    return undefined;
  }
}

/** A file of endpoints, and a way to change it. */
export async function writeEndpointFile(endpoints: readonly Endpoint[]) {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-webhooks-'));
  const path = join(folder, 'webhooks.json');
  const write = (text: string) => writeFile(path, text);
  await write(JSON.stringify(endpoints));
  return {
    path,
    write,
    change: (next: readonly Endpoint[]) => write(JSON.stringify(next)),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
