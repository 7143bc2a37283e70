import { connect, type Socket } from 'node:net';

/** One answer. `status` 0: none came, and `failure` says why. */
export interface Answer {
  readonly status: number;
  readonly failure?: 'refused' | 'cut' | 'late';
  /** The value of a header; the name in lower case. */
  header(name: string): string | undefined;
  /** Latin-1: whoever is asked here answers in ASCII. */
  readonly text: string;
}

export interface Ask {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** Whole lines, each with its end. */
  readonly headers?: string;
  readonly body?: string;
}

/** Connections that idled longer are not used again. */
const IDLE_MS = 5_000;
/** How often requests are looked through for those that nobody waits for any more. */
const SWEEP_MS = 50;
const HEAD_END = '\r\n\r\n';

/**
 * Requests to one address over kept connections, one at a time on each. It does what a run of millions of requests needs
 * and nothing more, so that the machine's time goes to what is judged. Nothing is sent twice, and nothing throws.
 */
export class HttpPool {
  readonly #idle: Connection[] = [];
  readonly #busy = new Set<Connection>();
  readonly #sweeper = setInterval(() => this.#sweep(), SWEEP_MS).unref();

  constructor(readonly port: number) {}

  /** Resolves in any case, after about `patienceMs` at the latest. */
  ask({ method, path, headers = '', body }: Ask, patienceMs: number): Promise<Answer> {
    const length = body === undefined ? '' : `content-type: application/json\r\ncontent-length: ${body.length}\r\n`;
    const text = `${method} ${path} HTTP/1.1\r\nhost: localhost\r\n${headers}${length}\r\n${body ?? ''}`;
    const connection = this.#kept() ?? new Connection(this.port);
    this.#busy.add(connection);
    return new Promise((resolve) => {
      connection.send(text, performance.now() + patienceMs, (answer) => {
        this.#busy.delete(connection);
        if (connection.isOpen) this.#idle.push(connection);
        resolve(answer);
      });
    });
  }

  close(): void {
    clearInterval(this.#sweeper);
    for (const connection of this.#idle) connection.end('cut');
    for (const connection of [...this.#busy]) connection.end('cut');
  }

  /** The most recently used one that its server has not closed meanwhile. */
  #kept(): Connection | undefined {
    let kept = this.#idle.pop();
    while (kept && !kept.isOpen) kept = this.#idle.pop();
    return kept;
  }

  #sweep(): void {
    const now = performance.now();
    for (const connection of [...this.#busy]) if (connection.deadline < now) connection.end('late');
    while (this.#idle[0] && (!this.#idle[0].isOpen || this.#idle[0].deadline + IDLE_MS < now)) {
      this.#idle.shift()?.end('late');
    }
  }
}

class Connection {
  deadline = 0;
  isOpen = true;
  readonly #socket: Socket;
  #connected = false;
  #received = '';
  #done: ((answer: Answer) => void) | undefined;

  constructor(port: number) {
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true });
    this.#socket.setEncoding('latin1');
    this.#socket.on('connect', () => {
      this.#connected = true;
    });
    this.#socket.on('data', (text: string) => {
      this.#received = this.#received === '' ? text : this.#received + text;
      this.#read();
    });
    this.#socket.on('error', () => this.end(this.#connected ? 'cut' : 'refused'));
    this.#socket.on('close', () => this.end(this.#connected ? 'cut' : 'refused'));
  }

  send(text: string, deadline: number, done: (answer: Answer) => void): void {
    this.deadline = deadline;
    this.#done = done;
    if (this.isOpen) this.#socket.write(text, 'latin1');
    else this.end('refused');
  }

  end(failure: 'refused' | 'cut' | 'late'): void {
    this.isOpen = false;
    this.#socket.destroy();
    this.#answer({ status: 0, failure, header: () => undefined, text: '' });
  }

  #read(): void {
    const headEnd = this.#received.indexOf(HEAD_END);
    if (headEnd < 0) return;
    const head = this.#received.slice(0, headEnd);
    const status = Number(head.slice(9, 12));
    const hasBody = status !== 204 && status !== 304;
    const length = hasBody ? Number(headerOf(head, 'content-length')) : 0;
    // Lists here are short: an answer without a length is not expected of anybody.
    if (!(length >= 0)) {
      this.end('cut');
      return;
    }
    const end = headEnd + HEAD_END.length + length;
    if (this.#received.length < end) return;
    const text = this.#received.slice(headEnd + HEAD_END.length, end);
    this.#received = '';
    if (headerOf(head, 'connection') === 'close') this.isOpen = false;
    this.#answer({ status, header: (name) => headerOf(head, name), text });
  }

  #answer(answer: Answer): void {
    const done = this.#done;
    this.#done = undefined;
    done?.(answer);
  }
}

function headerOf(head: string, name: string): string | undefined {
  let start = head.indexOf(`\r\n${name}: `);
  if (start < 0) start = head.toLowerCase().indexOf(`\r\n${name}: `);
  if (start < 0) return undefined;
  const from = start + name.length + 4;
  const end = head.indexOf('\r\n', from);
  return end < 0 ? head.slice(from) : head.slice(from, end);
}
