import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A question of the contract of docs/reference/processor.md, as an adapter gets it. */
export interface Asked {
  readonly reference: string;
  /** Undefined if the body is no JSON object. */
  readonly charge: Readonly<Record<string, unknown>> | undefined;
  /** Sent on a connection of its own, which the checker will cut. */
  readonly isToBeCut: boolean;
  /** For a call that is to be cut: resolves when the connection is gone. */
  readonly gone: Promise<unknown>;
}

export interface AdapterReply {
  readonly status: number;
  /** Sent as JSON, a string and bytes as they are. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

type Answer = AdapterReply | 'cut' | 'hang';

export interface Adapter {
  charge(asked: Asked): Answer | Promise<Answer>;
  lookUp(asked: Asked): Answer | Promise<Answer>;
}

/** The money that really moved, in its order. */
export interface Books {
  readonly moved: { readonly reference: string; readonly amount: unknown }[];
}

export const DECLINED_SOURCE = 'tok_declined';

/** Moves money and names the movement. */
export const move = (books: Books, { reference, charge }: Asked) =>
  `ch_${books.moved.push({ reference, amount: charge?.amount })}`;

/** Keeps the contract, in memory. Its replies name the charge, unless `isSilent`. */
export function keepingAdapter(books: Books, isSilent = false): Adapter {
  const outcomes = new Map<string, { readonly reply: AdapterReply; readonly amount: unknown }>();
  return {
    charge(asked) {
      const { reference, charge } = asked;
      if (reference === '' || typeof charge?.amount !== 'string') return { status: 400, body: { error: 'no charge' } };
      const known = outcomes.get(reference);
      if (known) return known.amount === charge.amount ? known.reply : anotherAmount();
      const reply = charge.source === DECLINED_SOURCE ? declined() : succeeded(move(books, asked), isSilent);
      outcomes.set(reference, { reply, amount: charge.amount });
      return reply;
    },
    lookUp({ reference }) {
      const known = outcomes.get(reference);
      return known ? { ...known.reply, status: 200 } : noRecord();
    },
  };
}

export const succeeded = (id: string, isSilent = false): AdapterReply => ({
  status: 200,
  body: { status: 'succeeded', ...(!isSilent && { id }) },
});
export const anotherAmount = (): AdapterReply => ({ status: 422, body: { error: 'another amount' } });
export const declined = (): AdapterReply => ({ status: 402, body: { status: 'declined', reason: 'No cover.' } });
export const noRecord = (): AdapterReply => ({ status: 404, body: { error: 'no record' } });

/**
 * Serves an adapter on a port of 127.0.0.1. It says that it reads content, and names the reference in a header, unless its headers say
 * otherwise. An empty header is left out.
 */
export async function serveAdapter({ charge, lookUp }: Adapter) {
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => '');
    const { method, url = '' } = request;
    const isToBeCut = request.headers.connection === 'close';
    const reference = method === 'POST' ? request.headers['idempotency-key'] : url.split('/').at(-1);
    const asked: Asked = {
      reference: String(reference ?? ''),
      charge: parsed(body),
      isToBeCut,
      gone: isToBeCut ? gone(request) : Promise.resolve(),
    };
    const answer = await (method === 'POST' ? charge(asked) : lookUp(asked));
    if (answer === 'hang') return;
    if (answer === 'cut') return void request.socket.destroy();
    send(response, asked.reference, answer);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function send(response: ServerResponse, reference: string, { status, body, headers }: AdapterReply): void {
  const usual = { 'content-type': 'application/json', 'idempay-contract': '2', 'idempotency-key': reference };
  const sent = Object.entries({ ...usual, ...headers }).filter(([, value]) => value !== '');
  const isRaw = typeof body === 'string' || body instanceof Uint8Array;
  response.writeHead(status, Object.fromEntries(sent)).end(isRaw ? body : JSON.stringify(body));
}

function gone({ socket }: IncomingMessage): Promise<unknown> {
  return socket.destroyed ? Promise.resolve() : new Promise((resolve) => socket.once('close', resolve));
}

function parsed(body: string): Asked['charge'] {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Asked['charge']) : undefined;
  } catch {
    return undefined;
  }
}
