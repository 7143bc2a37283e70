import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { gate } from '../concurrency.js';
import { pause } from '../time/until.js';

type Direction = 'to server' | 'to client';

/** Listens on a port of its own and speaks to `port` of 127.0.0.1. */
export async function startTcpProxy(port: number): Promise<TcpProxy> {
  const listener = createServer({ noDelay: true }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  return new TcpProxy(listener, port);
}

/**
 * A proxy between a service and one of its servers that damages the traffic. Nothing is reordered. Like a network it delivers a
 * request, however late, also after its sender has closed the connection.
 */
export class TcpProxy {
  readonly #connections = new Set<Connection>();
  readonly #watches = new Set<Watch>();
  readonly #blocked = new Set<Direction>();
  #delayMs = 0;
  #refusing = false;
  #healing = gate();

  constructor(
    private readonly listener: Server,
    private target: number,
  ) {
    listener.on('connection', (client) => this.#connect(client));
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  through(url: string): string {
    return url.replace(/127\.0\.0\.1:\d+/, `127.0.0.1:${this.port}`);
  }

  /** Resets every connection; new ones work. */
  cut(): void {
    for (const connection of this.#connections) reset(connection);
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

  /** Each piece of either direction waits this long, until `heal`. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  heal(): void {
    this.#refusing = false;
    this.#delayMs = 0;
    this.#blocked.clear();
    this.#healing.open();
    this.#healing = gate();
  }

  /**
   * Lets the nth request that holds the text through, loses its reply and resets that connection. Resolves to true then, and
   * to false when no such request came within `withinMs`.
   */
  async loseReply(text: string, nth = 1, withinMs?: number): Promise<boolean> {
    const lost = gate();
    let left = nth;
    const watch = this.#watch(text, (connection) => {
      left -= 1;
      if (left > 0) return;
      this.#watches.delete(watch);
      connection.onReply = () => {
        reset(connection);
        lost.open();
      };
    });
    const ends = [lost.opened.then(() => true)];
    if (withinMs !== undefined) ends.push(pause(withinMs).then(() => false));
    const isLost = await Promise.race(ends);
    this.#watches.delete(watch);
    return isLost;
  }

  /** Keeps the next request that holds the text, or its reply, on the way until it is released. */
  hold(text: string, what: 'request' | 'reply'): { readonly reached: Promise<void>; release(): void } {
    const [reached, released] = [gate(), gate()];
    const keep = (piece: Piece) => {
      piece.held = released.opened;
      reached.open();
    };
    const watch = this.#watch(text, (connection, piece) => {
      this.#watches.delete(watch);
      if (what === 'request') keep(piece);
      else connection.onReply = keep;
    });
    return { reached: reached.opened, release: released.open };
  }

  count(text: string): () => number {
    let seen = 0;
    this.#watch(text, () => {
      seen += 1;
    });
    return () => seen;
  }

  async close(): Promise<void> {
    this.heal();
    const closed = once(this.listener, 'close');
    this.listener.close();
    this.cut();
    await closed;
  }

  #watch(text: string, found: Watch['found']): Watch {
    const watch = { text: Buffer.from(text), found };
    this.#watches.add(watch);
    return watch;
  }

  #connect(client: Socket): void {
    client.on('error', () => {});
    if (this.#refusing) return void client.resetAndDestroy();
    const server = connect({ host: '127.0.0.1', port: this.target, noDelay: true });
    server.on('error', () => {});
    const connection: Connection = { to: { 'to server': server, 'to client': client }, passed: {}, stranded: false };
    this.#connections.add(connection);
    const end = () => {
      if (connection.stranded) return;
      this.#connections.delete(connection);
      client.destroySoon();
      server.destroySoon();
    };
    client.on('data', (bytes) => {
      const piece: Piece = { bytes };
      for (const { text, found } of this.#watches) if (bytes.includes(text)) found(connection, piece);
      this.#pass(connection, 'to server', piece);
    });
    server.on('data', (bytes) => {
      const piece: Piece = { bytes };
      const { onReply } = connection;
      connection.onReply = undefined;
      onReply?.(piece);
      this.#pass(connection, 'to client', piece);
    });
    // All that it sent arrives before.
    client.on('close', () => Promise.resolve(connection.passed['to server']).then(end));
    server.on('close', end);
  }

  #pass(connection: Connection, direction: Direction, { bytes, held }: Piece): void {
    const { to, passed } = connection;
    const before = passed[direction];
    const isDue = this.#delayMs > 0 && Promise.race([pause(this.#delayMs), this.#healing.opened]);
    const pass = async () => {
      await Promise.all([before, held, isDue]);
      while (this.#blocked.has(direction)) await this.#healing.opened;
      if (!connection.stranded && !to[direction].destroyed) to[direction].write(bytes);
    };
    passed[direction] = pass();
  }
}

interface Piece {
  readonly bytes: Buffer;
  held?: Promise<void>;
}

interface Watch {
  readonly text: Buffer;
  readonly found: (connection: Connection, piece: Piece) => void;
}

interface Connection {
  readonly to: Readonly<Record<Direction, Socket>>;
  /** Resolves when all that came so far has been passed on. */
  readonly passed: Partial<Record<Direction, Promise<void>>>;
  onReply?: ((piece: Piece) => void) | undefined;
  stranded: boolean;
}

function reset({ to }: Connection): void {
  to['to client'].resetAndDestroy();
  to['to server'].destroy();
}
