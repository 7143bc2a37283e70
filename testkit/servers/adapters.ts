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
  /** If omitted, an ending gets the answer of an unknown path. */
  end?(asked: Asked): Answer | Promise<Answer>;
  /** If they are omitted, refunds are answered as an unknown path is. `charge` is the body of the refund. */
  refund?(asked: Asked): Answer | Promise<Answer>;
  lookUpRefund?(asked: Asked): Answer | Promise<Answer>;
}

/** The money that really moved, in its order. */
export interface Books {
  readonly moved: { readonly reference: string; readonly amount: unknown }[];
  /** The money that really went back, in its order. */
  readonly givenBack?: { readonly reference: string; readonly charge: unknown; readonly amount: unknown }[];
}

export const DECLINED_SOURCE = 'tok_declined';
/** The source whose payer must confirm, if a payer is present. */
export const CONFIRMING_SOURCE = 'tok_confirming';

/** Moves money and names the movement. */
export const move = (books: Books, { reference, charge }: Asked) =>
  `ch_${books.moved.push({ reference, amount: charge?.amount })}`;

/** Gives money back and names the refund. */
export const giveBack = (books: Books, { reference, charge: refund }: Asked) =>
  `re_${reference}${books.givenBack?.push({ reference, charge: refund?.charge, amount: refund?.amount }) ?? ''}`;

/** An adapter whose payers can be played. */
export interface PlayedAdapter extends Required<Adapter> {
  /** Confirms or refuses a pending charge as its payer, who was given this action. A charge that has an outcome keeps it. */
  play(does: 'confirm' | 'refuse', action: unknown): void;
}

/** Keeps the contract, in memory. Its replies name the charge, unless `isSilent`. */
export function keepingAdapter(books: Books, isSilent = false): PlayedAdapter {
  const outcomes = new Map<string, { readonly reply: AdapterReply; readonly amount: unknown }>();
  const waiting = new Map<string, Asked>();
  const refunds = new Map<string, AdapterReply>();
  const givenBack = new Map<string, number>();
  return {
    charge(asked) {
      const { reference, charge } = asked;
      if (reference === '' || typeof charge?.amount !== 'string') return { status: 400, body: { error: 'no charge' } };
      const known = outcomes.get(reference);
      if (known) return known.amount === charge.amount ? known.reply : anotherAmount();
      const reply = replyTo(asked);
      outcomes.set(reference, { reply, amount: charge.amount });
      return reply;
    },
    end({ reference, charge: ending }) {
      const known = outcomes.get(reference);
      if (known && known.reply.status !== 202) return { ...known.reply, status: 200 };
      waiting.delete(reference);
      outcomes.set(reference, { reply: declined(), amount: ending?.amount });
      return { ...declined(), status: 200 };
    },
    play(does, action) {
      const { page } = Object(action) as { page?: string };
      const asked = waiting.get(page ?? '');
      if (asked === undefined) return;
      waiting.delete(asked.reference);
      const reply = does === 'confirm' ? succeeded(move(books, asked), isSilent) : declined();
      outcomes.set(asked.reference, { reply, amount: asked.charge?.amount });
    },
    lookUp({ reference }) {
      const known = outcomes.get(reference);
      return known ? { ...known.reply, status: 200 } : noRecord();
    },
    refund(asked) {
      const reply = refunds.get(asked.reference) ?? refundReplyTo(asked);
      refunds.set(asked.reference, reply);
      return reply;
    },
    lookUpRefund({ reference }) {
      const known = refunds.get(reference);
      return known ? { ...known, status: 200 } : noRecord();
    },
  };

  function refundReplyTo(asked: Asked): AdapterReply {
    const charge = String(asked.charge?.charge);
    const known = outcomes.get(charge);
    const sum = (givenBack.get(charge) ?? 0) + Number(asked.charge?.amount);
    if (known?.reply.status !== 200 || sum > Number(known.amount)) return declined();
    givenBack.set(charge, sum);
    return succeeded(giveBack(books, asked), isSilent);
  }

  function replyTo(asked: Asked): AdapterReply {
    const { reference, charge } = asked;
    if (charge?.source === DECLINED_SOURCE) return declined();
    if (charge?.source !== CONFIRMING_SOURCE) return succeeded(move(books, asked), isSilent);
    if (charge.returnUrl === undefined) return declined();
    waiting.set(reference, asked);
    return pending(asked);
  }
}

/** The page of its payer is named by the reference. */
export const pending = ({ reference, charge }: Asked): AdapterReply => ({
  status: 202,
  body: {
    status: 'pending',
    until: new Date(Date.now() + 3_600_000).toISOString(),
    action: { page: reference },
    amount: charge?.amount,
    currency: charge?.currency,
  },
});

export const succeeded = (id: string, isSilent = false): AdapterReply => ({
  status: 200,
  body: { status: 'succeeded', ...(!isSilent && { id }) },
});
export const anotherAmount = (): AdapterReply => ({ status: 422, body: { error: 'another amount' } });
export const declined = (): AdapterReply => ({ status: 402, body: { status: 'declined', reason: 'No cover.' } });
export const noRecord = (): AdapterReply => ({ status: 404, body: { error: 'no record' } });

/**
 * Serves an adapter on a port of 127.0.0.1. It names contract 3, and names the reference in a header, unless its headers say
 * otherwise. An empty header is left out.
 */
export async function serveAdapter({ charge, lookUp, end = noRecord, ...more }: Adapter) {
  const { refund = noRecord, lookUpRefund = noRecord } = more;
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => '');
    const { method, url = '' } = request;
    const isToBeCut = request.headers.connection === 'close';
    const [, inPath] = /^\/(?:charges|refunds)\/([^/?]+)/.exec(url) ?? [];
    const act = operationOf(method, url);
    const reference = act === 'charge' || act === 'refund' ? request.headers['idempotency-key'] : inPath;
    const asked: Asked = {
      reference: String(reference ?? ''),
      charge: parsed(body),
      isToBeCut,
      gone: isToBeCut ? gone(request) : Promise.resolve(),
    };
    const answer = await { charge, lookUp, end, refund, lookUpRefund }[act](asked);
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

function operationOf(method: string | undefined, url: string): keyof Adapter {
  const isOfRefund = url.startsWith('/refunds');
  if (method !== 'POST') return isOfRefund ? 'lookUpRefund' : 'lookUp';
  if (isOfRefund) return 'refund';
  return url.endsWith('/ending') ? 'end' : 'charge';
}

function send(response: ServerResponse, reference: string, { status, body, headers }: AdapterReply): void {
  const usual = { 'content-type': 'application/json', 'idempay-contract': '3', 'idempotency-key': reference };
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
