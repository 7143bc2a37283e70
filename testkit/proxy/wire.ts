import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Which way the bytes go. */
export const DIRECTIONS = ['to server', 'to client'] as const;
export type Direction = (typeof DIRECTIONS)[number];

/** How exactly a delay is kept. */
const TICK_MS = 2;

/**
 * A wire between services and one of their servers that can be damaged while bytes are on it, and that can be made to end
 * at another server. Nothing is reordered. All traffic of a run goes through it, so whole pieces go straight on. A request
 * arrives, however late, also when its sender has closed the connection meanwhile: so does a network.
 */
export class Wire {
  readonly #connections = new Set<Connection>();
  readonly #closed: Record<Direction, boolean> = { 'to server': false, 'to client': false };
  readonly #watches: Watch[] = [];
  #delayMs = 0;
  #refusing = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(
    private readonly listener: Server,
    private serverPort: number,
  ) {}

  static async to(serverPort: number): Promise<Wire> {
    const listener = createServer({ noDelay: true });
    const wire = new Wire(listener, serverPort);
    listener.on('connection', (client) => wire.#connect(client));
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return wire;
  }

  get port(): number {
    return (this.listener.address() as AddressInfo).port;
  }

  /** Of the server, with this wire in its place. */
  url(scheme: string): string {
    return `${scheme}://127.0.0.1:${this.port}`;
  }

  /** Resets every connection; new ones end at that server. */
  pointTo(serverPort: number): void {
    this.serverPort = serverPort;
    this.cut();
  }

  /** Resets every connection. */
  cut(): void {
    for (const connection of this.#connections) connection.reset();
  }

  /** Resets every connection, and until `heal` every new one at once. */
  cutOff(): void {
    this.#refusing = true;
    this.cut();
  }

  /** Bytes of one direction wait, connections stay open, as behind a network that drops packets; until `heal`. */
  block(direction: Direction): void {
    this.#closed[direction] = true;
  }

  /** Each piece of either direction waits so long; until `heal`. */
  delay(ms: number): void {
    this.#delayMs = ms;
    this.#timer ??= setInterval(() => this.#flush(), TICK_MS);
  }

  heal(): void {
    this.#refusing = false;
    this.#delayMs = 0;
    for (const direction of DIRECTIONS) this.#closed[direction] = false;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#flush(Number.POSITIVE_INFINITY);
  }

  /** Lets the nth request that holds the text through, loses its reply, and resets that connection; then resolves. */
  loseReply(text: string, nth: number): { readonly lost: Promise<void>; forget(): void } {
    let lost = () => {};
    const promise = new Promise<void>((resolve) => {
      lost = resolve;
    });
    const watch = { text: Buffer.from(text), left: nth, lost };
    this.#watches.push(watch);
    return { lost: promise, forget: () => this.#forget(watch) };
  }

  async close(): Promise<void> {
    this.heal();
    const closed = once(this.listener, 'close');
    this.listener.close();
    this.cut();
    await closed;
  }

  #connect(client: Socket): void {
    client.on('error', () => {});
    if (this.#refusing) return void client.resetAndDestroy();
    const server = connect({ host: '127.0.0.1', port: this.serverPort, noDelay: true });
    server.on('error', () => {});
    const connection = new Connection(client, server);
    this.#connections.add(connection);
    client.on('data', (piece) => this.#toServer(connection, piece));
    server.on('data', (piece) => this.#toClient(connection, piece));
    client.on('close', () => {
      connection.isLeft = true;
      this.#endIfDone(connection);
    });
    server.on('close', () => {
      this.#connections.delete(connection);
      connection.end();
    });
  }

  #toServer(connection: Connection, piece: Buffer): void {
    for (const watch of this.#watches) {
      if (!piece.includes(watch.text)) continue;
      watch.left -= 1;
      if (watch.left > 0) continue;
      this.#forget(watch);
      connection.onReply = watch.lost;
      break;
    }
    this.#pass(connection, 'to server', piece);
  }

  #toClient(connection: Connection, piece: Buffer): void {
    if (connection.onReply) {
      connection.onReply();
      connection.reset();
    } else {
      this.#pass(connection, 'to client', piece);
    }
  }

  #pass(connection: Connection, direction: Direction, piece: Buffer): void {
    const waiting = connection.waiting[direction];
    if (waiting.length === 0 && this.#delayMs === 0 && !this.#closed[direction]) connection.write(direction, piece);
    else waiting.push({ piece, dueAt: performance.now() + this.#delayMs });
  }

  #flush(now = performance.now()): void {
    for (const connection of this.#connections) {
      for (const direction of DIRECTIONS) {
        const waiting = connection.waiting[direction];
        while (!this.#closed[direction] && waiting[0] && waiting[0].dueAt <= now) {
          connection.write(direction, waiting.shift()?.piece as Buffer);
        }
      }
      if (connection.isLeft) this.#endIfDone(connection);
    }
  }

  /** Of one that its client has left: when all that it sent has arrived. */
  #endIfDone(connection: Connection): void {
    if (connection.waiting['to server'].length > 0) return;
    this.#connections.delete(connection);
    connection.end();
  }

  #forget(watch: Watch): void {
    const index = this.#watches.indexOf(watch);
    if (index >= 0) this.#watches.splice(index, 1);
  }
}

interface Watch {
  readonly text: Buffer;
  left: number;
  readonly lost: () => void;
}

class Connection {
  readonly waiting: Record<Direction, { piece: Buffer; dueAt: number }[]> = { 'to server': [], 'to client': [] };
  onReply: (() => void) | undefined;
  /** Its client has closed it. */
  isLeft = false;

  constructor(
    private readonly client: Socket,
    private readonly server: Socket,
  ) {}

  write(direction: Direction, piece: Buffer): void {
    const to = direction === 'to server' ? this.server : this.client;
    if (!to.destroyed) to.write(piece);
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
