import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { pause } from '../time/until.js';

/** Which way the bytes go. */
export const DIRECTIONS = ['to server', 'to client'] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** How exactly a delay is kept. */
const TICK_MS = 2;

/** Listens on a port of its own and speaks to `port` of 127.0.0.1. */
export async function startTcpProxy(port: number): Promise<TcpProxy> {
  const listener = createServer({ noDelay: true });
  const proxy = new TcpProxy(listener, port);
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return proxy;
}

/**
 * Stands between a service and one of its servers, and damages what passes. Nothing is reordered. A request arrives, however
 * late, also when its sender has closed the connection meanwhile: so does a network.
 */
export class TcpProxy {
  readonly #connections = new Set<Connection>();
  readonly #watches = new Set<Watch>();
  readonly #blocked = new Set<Direction>();
  #delayMs = 0;
  #refusing = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly listener: Server,
    private target: number,
  ) {
    listener.on('connection', (client) => this.#connect(client));
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  /** The server's URL, with this proxy in its place. */
  through(url: string): string {
    return url.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${this.port}`);
  }

  /** Resets every connection; new ones work. */
  cut(): void {
    for (const connection of this.#connections) connection.reset();
    this.#connections.clear();
  }

  /** Resets every connection, and until `heal` every new one at once. */
  cutOff(): void {
    this.#refusing = true;
    this.cut();
  }

  /** Resets every connection; new ones end at that port. */
  leadTo(port: number): void {
    this.target = port;
    this.cut();
  }

  /** Bytes of one direction wait, connections stay open, as behind a network that drops packets; until `heal`. */
  blackhole(direction: Direction): void {
    this.#blocked.add(direction);
  }

  /** Present connections stay open and carry nothing ever again; new ones work. */
  strand(): void {
    for (const connection of this.#connections) connection.stranded = true;
  }

  /** Each piece of either direction waits so long; until `heal`. */
  delay(ms: number): void {
    this.#delayMs = ms;
    this.#timer ??= setInterval(() => this.#flush(), TICK_MS);
  }

  heal(): void {
    this.#refusing = false;
    this.#delayMs = 0;
    this.#blocked.clear();
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#flush(Number.POSITIVE_INFINITY);
  }

  /**
   * Lets the nth request that holds the text through, loses its reply and resets that connection. Resolves to true then, and
   * to false when no such request came within `withinMs`.
   */
  async loseReply(text: string, nth = 1, withinMs?: number): Promise<boolean> {
    const lost = deferred();
    const watch = this.#watch(text, nth, (connection) => {
      connection.onReply = () => {
        connection.reset();
        lost.resolve();
      };
    });
    if (withinMs === undefined) return lost.promise.then(() => true);
    const isLost = await Promise.race([lost.promise.then(() => true), pause(withinMs).then(() => false)]);
    this.#watches.delete(watch);
    return isLost;
  }

  /** Keeps the next request that holds the text, or its reply, on the way until it is released. */
  hold(text: string, what: 'request' | 'reply'): { readonly reached: Promise<void>; release(): void } {
    const reached = deferred();
    const held: Piece[] = [];
    const keep = (piece: Piece) => {
      piece.held = true;
      held.push(piece);
      reached.resolve();
    };
    this.#watch(text, 1, (connection, piece) => {
      if (what === 'request') keep(piece);
      else connection.onReply = keep;
    });
    const release = () => {
      for (const piece of held) piece.held = false;
      this.#flush();
    };
    return { reached: reached.promise, release };
  }

  /** How many requests held the text since this was called. */
  count(text: string): () => number {
    let seen = 0;
    this.#watch(
      text,
      Number.POSITIVE_INFINITY,
      () => {},
      () => (seen += 1),
    );
    return () => seen;
  }

  async close(): Promise<void> {
    this.heal();
    const closed = once(this.listener, 'close');
    this.listener.close();
    this.cut();
    await closed;
  }

  #watch(text: string, nth: number, found: Watch['found'], seen?: () => void): Watch {
    const watch = { text: Buffer.from(text), left: nth, found, seen };
    this.#watches.add(watch);
    return watch;
  }

  #connect(client: Socket): void {
    client.on('error', () => {});
    if (this.#refusing) return void client.resetAndDestroy();
    const server = connect({ host: '127.0.0.1', port: this.target, noDelay: true });
    server.on('error', () => {});
    const connection = new Connection(client, server);
    this.#connections.add(connection);
    client.on('data', (bytes) => this.#toServer(connection, bytes));
    server.on('data', (bytes) => this.#toClient(connection, bytes));
    client.on('close', () => {
      connection.isLeft = true;
      this.#endIfDone(connection);
    });
    server.on('close', () => {
      if (connection.stranded) return;
      this.#connections.delete(connection);
      connection.end();
    });
  }

  #toServer(connection: Connection, bytes: Buffer): void {
    const piece = this.#pieceOf(bytes);
    for (const watch of this.#watches) {
      if (!bytes.includes(watch.text)) continue;
      watch.seen?.();
      watch.left -= 1;
      if (watch.left > 0) continue;
      this.#watches.delete(watch);
      watch.found(connection, piece);
    }
    this.#pass(connection, 'to server', piece);
  }

  #toClient(connection: Connection, bytes: Buffer): void {
    const piece = this.#pieceOf(bytes);
    const { onReply } = connection;
    connection.onReply = undefined;
    onReply?.(piece);
    this.#pass(connection, 'to client', piece);
  }

  #pieceOf(bytes: Buffer): Piece {
    return { bytes, dueAt: this.#delayMs === 0 ? 0 : performance.now() + this.#delayMs, held: false };
  }

  #pass(connection: Connection, direction: Direction, piece: Piece): void {
    connection.waiting[direction].push(piece);
    this.#flushOne(connection, direction, performance.now());
  }

  #flush(now = performance.now()): void {
    for (const connection of this.#connections) {
      for (const direction of DIRECTIONS) this.#flushOne(connection, direction, now);
      if (connection.isLeft) this.#endIfDone(connection);
    }
  }

  #flushOne(connection: Connection, direction: Direction, now: number): void {
    if (this.#blocked.has(direction)) return;
    const waiting = connection.waiting[direction];
    while (waiting[0] && !waiting[0].held && waiting[0].dueAt <= now) {
      connection.write(direction, (waiting.shift() as Piece).bytes);
    }
  }

  /** Of one that its client has left: when all that it sent has arrived. */
  #endIfDone(connection: Connection): void {
    if (connection.stranded || connection.waiting['to server'].length > 0) return;
    this.#connections.delete(connection);
    connection.end();
  }
}

interface Piece {
  readonly bytes: Buffer;
  readonly dueAt: number;
  held: boolean;
}

interface Watch {
  readonly text: Buffer;
  left: number;
  readonly found: (connection: Connection, piece: Piece) => void;
  readonly seen?: (() => void) | undefined;
}

class Connection {
  readonly waiting: Record<Direction, Piece[]> = { 'to server': [], 'to client': [] };
  /** Of the next piece of the server. */
  onReply: ((piece: Piece) => void) | undefined;
  /** Its client has closed it. */
  isLeft = false;
  stranded = false;

  constructor(
    private readonly client: Socket,
    private readonly server: Socket,
  ) {}

  write(direction: Direction, bytes: Buffer): void {
    const to = direction === 'to server' ? this.server : this.client;
    if (!this.stranded && !to.destroyed) to.write(bytes);
  }

  end(): void {
    this.client.destroySoon();
    this.server.destroySoon();
  }

  reset(): void {
    this.client.resetAndDestroy();
    this.server.destroy();
  }
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
