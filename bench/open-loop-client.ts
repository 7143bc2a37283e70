// A process that sends requests at a fixed rate, whatever the answers do (open loop). The latency of a request counts from the
// moment when it should have been sent, so it includes the wait for a connection. Without a rate it sends as fast as its
// connections allow. `open-loop.ts` starts it; it keeps keys and transactions from one plan to the next.
import { connect, type Socket } from 'node:net';
import { GOOD_BODY as PAYMENT } from '../testkit/client/payment-bodies.js';

const TRANSACTION = '{"fromAccount":"A","toAccount":"B","amount":100.5}';
const GENERATE_KEY = '/api/server-generated/generate-key';
/** After the last request was due. A request without an answer then is lost. */
const PATIENCE_MS = 20_000;
const SECOND_MS = 1000;

export interface Plan {
  readonly port: number;
  /** Sent in turn. */
  readonly mix: readonly RequestKind[];
  /** Requests a second. */
  readonly rate?: number;
  /** It ends after this time, or after `count` requests. */
  readonly seconds?: number;
  readonly count?: number;
  readonly connections: number;
  /** Requests that were due within the first of them are sent and not reported. */
  readonly unmeasuredSeconds?: number;
  /** The result has so many of the slowest requests. */
  readonly slowest?: number;
  /** Keys and transactions of before, instead of what it has. */
  readonly given?: Partial<Known>;
}

export interface LatencySummary {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly p99MsBySecond: readonly number[];
}

export interface PlanResult extends LatencySummary {
  readonly lost: number;
  readonly bytesOut: number;
  readonly bytesIn: number;
  /** By kind and status, such as `pay 200`. */
  readonly answers: Readonly<Record<string, LatencySummary>>;
  readonly slowest?: readonly SlowRequest[];
}

/** Times of the machine's monotonic clock in milliseconds, as every process reads it. */
export interface SlowRequest {
  readonly dueAt: number;
  readonly sentAt: number;
  readonly answeredAt: number;
}

interface Known {
  unpaid: string[];
  paid: string[];
  transactions: number[];
  listTag: string;
}

interface ToSend {
  readonly text: string;
  readonly answered?: (answer: { status: number; body: string }) => void;
}

type RequestKind = keyof typeof KINDS;
type QueuedRequest = ToSend & { readonly kind: RequestKind; readonly dueAt: number; sentAt?: number };

const known: Known = { unpaid: [], paid: [], transactions: [], listTag: '' };
let turn = 0;

/** Another one each time, far from the last. */
function anyOf<T>(list: readonly T[]): T | undefined {
  turn += 7919;
  return list[turn % list.length];
}

const KINDS = {
  key: (): ToSend => ({
    text: get(GENERATE_KEY),
    answered: ({ body }) => known.unpaid.push(copyOf(body.slice(1, -1))),
  }),
  create: (): ToSend => ({
    text: post('/api/transactions', '', TRANSACTION),
    answered: ({ body }) => known.transactions.push((JSON.parse(body) as { transactionId: number }).transactionId),
  }),
  pay: (): ToSend => {
    const key = known.unpaid.pop();
    if (!key) throw new Error('no key is left');
    return { text: payText(key), answered: ({ status }) => status === 200 && known.paid.push(key) };
  },
  repeat: (): ToSend => ({ text: payText(anyOf(known.paid)) }),
  status: (): ToSend => ({ text: get('/api/payment-status', `Idempotency-Key: ${anyOf(known.paid)}\r\n`) }),
  read: (): ToSend => ({ text: get(`/api/transactions/${anyOf(known.transactions)}`) }),
  list: (): ToSend => ({ text: get('/api/transactions', `If-None-Match: ${known.listTag}\r\n`) }),
};

/** A part of a text keeps the whole of it in memory, here an answer for each key. */
function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}

function payText(key: string | undefined): string {
  return post('/api/payment', `Idempotency-Key: ${key}\r\n`, PAYMENT);
}

function get(path: string, headers = ''): string {
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`;
}

function post(path: string, headers: string, body: string): string {
  const describes = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}${describes}\r\n${body}`;
}

interface Connection {
  readonly socket: Socket;
  request: QueuedRequest | undefined;
  text: string;
}

/** Connections to one port, each with one request at a time. */
class Connections {
  readonly #free: Connection[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #queue: QueuedRequest[] = [];
  /** Requests whose connection was closed before an answer. */
  cut = 0;
  bytesOut = 0;
  bytesIn = 0;

  constructor(
    private readonly port: number,
    private readonly most: number,
    private readonly onAnswer: (request: QueuedRequest, status: number, body: string) => void,
  ) {}

  get areBusy(): boolean {
    return this.#free.length === 0 && this.#sockets.size >= this.most;
  }

  send(request: QueuedRequest): void {
    this.#queue.push(request);
    this.#sendNext();
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #sendNext(): void {
    if (this.#queue.length === 0 || this.areBusy) return;
    const connection = this.#free.pop() ?? this.#open();
    const request = this.#queue.shift() as QueuedRequest;
    connection.request = request;
    request.sentAt = performance.now();
    connection.socket.write(request.text);
    this.bytesOut += request.text.length;
  }

  #open(): Connection {
    const socket = connect({ host: '127.0.0.1', port: this.port, noDelay: true });
    const connection: Connection = { socket, request: undefined, text: '' };
    this.#sockets.add(socket);
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => this.#read(connection, text));
    socket.on('error', () => {});
    socket.once('close', () => this.#closed(connection));
    return connection;
  }

  #closed(connection: Connection): void {
    this.#sockets.delete(connection.socket);
    const index = this.#free.indexOf(connection);
    if (index >= 0) this.#free.splice(index, 1);
    if (connection.request) this.cut += 1;
    connection.request = undefined;
    this.#sendNext();
  }

  #read(connection: Connection, text: string): void {
    connection.text += text;
    this.bytesIn += text.length;
    const headEnd = connection.text.indexOf('\r\n\r\n');
    const { request } = connection;
    if (headEnd < 0 || !request) return;
    const bodyLength = Number(/\r\ncontent-length: (\d+)/i.exec(connection.text)?.[1] ?? 0);
    if (connection.text.length < headEnd + 4 + bodyLength) return;
    const [status, body] = [Number(connection.text.slice(9, 12)), connection.text.slice(headEnd + 4)];
    const isLast = /\r\nconnection: close/i.test(connection.text.slice(0, headEnd + 2));
    connection.request = undefined;
    connection.text = '';
    if (!isLast) this.#free.push(connection);
    this.onAnswer(request, status, body);
    this.#sendNext();
  }
}

async function run(plan: Plan): Promise<PlanResult> {
  const { mix, rate, seconds = 300, count = Number.MAX_SAFE_INTEGER, unmeasuredSeconds = 0 } = plan;
  Object.assign(known, plan.given);
  const measured = new Map<string, Samples>();
  const beganAt = performance.now();
  const endsAt = beganAt + seconds * SECOND_MS;
  let [due, answers] = [0, 0];
  const { promise: finished, resolve: finish } = promiseWithResolver();

  const connections = new Connections(plan.port, plan.connections, (request, status, body) => {
    const now = performance.now();
    if (request.dueAt - beganAt >= unmeasuredSeconds * SECOND_MS) {
      const name = `${request.kind} ${status}`;
      const samples = measured.get(name) ?? { dueMs: [], tookMs: [], waitedMs: [] };
      measured.set(name, samples);
      // Numbers alone: to collect an object for each would take milliseconds, and all that is answered then would seem late.
      samples.dueMs.push(request.dueAt - beganAt);
      samples.tookMs.push(now - request.dueAt);
      samples.waitedMs.push((request.sentAt ?? now) - request.dueAt);
    }
    request.answered?.({ status, body });
    answers += 1;
    if (!rate) begin();
  });

  /** As many as are due by now; without a rate one for each free connection. */
  function begin(): void {
    const now = performance.now();
    const until = Math.min(now, endsAt);
    const isDue = () => (rate ? due < ((until - beganAt) * rate) / SECOND_MS : now < endsAt && !connections.areBusy);
    while (due < count && isDue()) {
      const kind = mix[due % mix.length] as RequestKind;
      due += 1;
      connections.send({ kind, dueAt: rate ? beganAt + ((due - 1) * SECOND_MS) / rate : now, ...KINDS[kind]() });
    }
    const isOver = now >= endsAt || due >= count;
    if ((isOver && answers + connections.cut >= due) || now > endsAt + PATIENCE_MS) finish();
  }

  const timer = setInterval(begin, 1);
  begin();
  await finished;
  clearInterval(timer);
  connections.close();
  const { bytesOut, bytesIn } = connections;
  const slowest = plan.slowest && slowestOf(measured, plan.slowest, beganAt);
  return { lost: due - answers, bytesOut, bytesIn, ...summaryOf(measured), ...(slowest && { slowest }) };
}

function promiseWithResolver() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

interface Samples {
  readonly dueMs: number[];
  readonly tookMs: number[];
  /** From when it was due until it was sent. */
  readonly waitedMs: number[];
}

function slowestOf(measured: ReadonlyMap<string, Samples>, count: number, beganAt: number): SlowRequest[] {
  const base = Number(process.hrtime.bigint()) / 1e6 - performance.now() + beganAt;
  const all = [...measured.values()].flatMap(({ dueMs, tookMs, waitedMs }) =>
    dueMs.map((due, index) => ({ due, took: tookMs[index] ?? 0, waited: waitedMs[index] ?? 0 })),
  );
  const slowest = all.toSorted((one, other) => other.took - one.took).slice(0, count);
  return slowest.map(({ due, took, waited }) => ({
    dueAt: base + due,
    sentAt: base + due + waited,
    answeredAt: base + due + took,
  }));
}

/** The latencies of the answers of each kind and status, and of all answers together. */
function summaryOf(measured: ReadonlyMap<string, Samples>) {
  const all = [...measured.values()];
  const together = { dueMs: all.flatMap(({ dueMs }) => dueMs), tookMs: all.flatMap(({ tookMs }) => tookMs) };
  return {
    ...latenciesOf(together),
    answers: Object.fromEntries(Array.from(measured, ([name, samples]) => [name, latenciesOf(samples)])),
  };
}

function latenciesOf({ dueMs, tookMs }: Pick<Samples, 'dueMs' | 'tookMs'>): LatencySummary {
  const bySecond: number[][] = [];
  for (const [index, atMs] of dueMs.entries()) {
    const second = Math.floor(atMs / SECOND_MS);
    bySecond[second] ??= [];
    bySecond[second].push(tookMs[index] ?? 0);
  }
  const sorted = tookMs.toSorted((a, b) => a - b);
  return {
    count: sorted.length,
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    p999Ms: quantile(sorted, 0.999),
    p99MsBySecond: Array.from(bySecond, (values = []) =>
      quantile(
        values.toSorted((a, b) => a - b),
        0.99,
      ),
    ),
  };
}

function quantile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

process.on('message', (plan: Plan) => void run(plan).then((result) => process.send?.(result)));
process.once('disconnect', () => process.exit());
