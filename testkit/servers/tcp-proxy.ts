import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { pause } from '../time/until.js';

/** Which way the bytes go. */
export type Direction = 'to server' | 'to client';

/** A wire between a service and one of its servers that can be damaged while bytes are on it. Nothing is reordered. */
export interface TcpProxy {
  /** The server's URL, with this wire in its place. */
  through(url: string): string;
  /** Resets every connection, and until `heal` every new one at once. */
  cutOff(): void;
  /** From here on to another port: connections are reset, and new ones go there. */
  leadTo(other: number): void;
  /** Resets every connection; new ones work. */
  cut(): void;
  /** Bytes of one direction wait, connections stay open, as behind a network that drops packets; `heal` lets them go on. */
  blackhole(direction: Direction): void;
  /** Present connections stay open and carry nothing ever again; new ones work. */
  strand(): void;
  /** Each piece waits so long on its way to the server. */
  delay(ms: number): void;
  /** Ends `cutOff`, `blackhole` and `delay`. */
  heal(): void;
  /** Lets the nth request that holds the text through, waits for its reply, loses it, and resets that connection. */
  loseReply(text: string, nth?: number): Promise<void>;
  /** Keeps the next request that holds the text, or its reply, on the way until it is released. */
  hold(text: string, what: 'request' | 'reply'): { readonly reached: Promise<void>; release(): void };
  /** How many requests held the text since this was called. */
  count(text: string): () => number;
  close(): Promise<void>;
}

interface Connection {
  readonly client: Socket;
  readonly server: Socket;
  stranded: boolean;
  /** What is to be done with the next reply; false: it is lost. */
  onReply?: (() => Promise<boolean>) | undefined;
}

interface Watch {
  readonly text: Buffer;
  /** Of the matching request; what it resolves to is when the request may go on. */
  seen(connection: Connection): Promise<void> | undefined;
}

/** Listens on a port of its own and speaks to `port` of 127.0.0.1. */
export async function startTcpProxy(port: number): Promise<TcpProxy> {
  const connections = new Set<Connection>();
  const watches = new Set<Watch>();
  const gates = new Map<Direction, { open: () => void; opened: Promise<void> }>();
  let refusing = false;
  let target = port;
  let delayMs = 0;

  const listener = createServer({ noDelay: true, allowHalfOpen: true }, (client) => {
    client.on('error', () => {});
    if (refusing) return void client.resetAndDestroy();
    const server = connect({ host: '127.0.0.1', port: target, noDelay: true, allowHalfOpen: true });
    server.on('error', () => {});
    const connection: Connection = { client, server, stranded: false };
    connections.add(connection);
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      from.on('close', () => {
        if (connection.stranded) return;
        connections.delete(connection);
        to.destroy();
      });
    }
    pump('to server', client, server, connection, request).catch(() => {});
    pump('to client', server, client, connection, reply).catch(() => {});
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const own = (listener.address() as AddressInfo).port;

  /** Every piece in turn; the next is not read before this one has gone on. */
  async function pump(
    direction: Direction,
    from: Socket,
    to: Socket,
    connection: Connection,
    pass: (piece: Buffer, connection: Connection) => Promise<boolean>,
  ): Promise<void> {
    for await (const piece of from) {
      if (direction === 'to server' && delayMs > 0) await pause(delayMs);
      const goesOn = await pass(piece as Buffer, connection);
      await gates.get(direction)?.opened;
      if (goesOn && !connection.stranded) to.write(piece as Buffer);
    }
    if (!connection.stranded) to.end();
  }

  async function request(piece: Buffer, connection: Connection): Promise<boolean> {
    for (const watch of [...watches]) if (piece.includes(watch.text)) await watch.seen(connection);
    return true;
  }

  async function reply(_piece: Buffer, connection: Connection): Promise<boolean> {
    const { onReply } = connection;
    connection.onReply = undefined;
    return onReply ? onReply() : true;
  }

  function cut(): void {
    for (const connection of [...connections]) reset(connection);
  }

  function heal(): void {
    refusing = false;
    delayMs = 0;
    for (const gate of gates.values()) gate.open();
    gates.clear();
  }

  return {
    through: (url) => url.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${own}`),
    cut,
    cutOff() {
      refusing = true;
      cut();
    },
    leadTo(other) {
      target = other;
      cut();
    },
    blackhole(direction) {
      const { promise: opened, resolve: open } = deferred();
      gates.set(direction, { open, opened });
    },
    strand() {
      for (const connection of connections) connection.stranded = true;
    },
    delay(ms) {
      delayMs = ms;
    },
    heal,
    loseReply(text, nth = 1) {
      const { promise, resolve } = deferred();
      let left = nth;
      const watch: Watch = {
        text: Buffer.from(text),
        seen(connection) {
          left -= 1;
          if (left > 0) return undefined;
          watches.delete(watch);
          connection.onReply = async () => {
            reset(connection);
            resolve();
            return false;
          };
          return undefined;
        },
      };
      watches.add(watch);
      return promise;
    },
    hold(text, what) {
      const reached = deferred();
      const released = deferred();
      const wait = async () => {
        reached.resolve();
        await released.promise;
      };
      const watch: Watch = {
        text: Buffer.from(text),
        seen(connection) {
          watches.delete(watch);
          if (what === 'request') return wait();
          connection.onReply = async () => {
            await wait();
            return true;
          };
          return undefined;
        },
      };
      watches.add(watch);
      return { reached: reached.promise, release: released.resolve };
    },
    count(text) {
      let seen = 0;
      watches.add({
        text: Buffer.from(text),
        seen() {
          seen += 1;
          return undefined;
        },
      });
      return () => seen;
    },
    async close() {
      heal();
      const closed = once(listener, 'close');
      listener.close();
      cut();
      await closed;
    },
  };
}

function reset({ client, server }: Connection): void {
  client.resetAndDestroy();
  server.destroy();
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
