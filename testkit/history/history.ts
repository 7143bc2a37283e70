import { Agent } from 'node:http';
import { type Answer, type Ask, ask, IDLE_CONNECTION_MS } from '../client/http-client.js';
import { Disturbances } from './disturbances.js';
import type { KeyHistory } from './payments.js';
import type { ListHistory, SharedListHistory, TransactionHistory } from './transactions.js';

/** A client disconnects after this time; a later answer is not received. */
const PATIENCE_MS = 2_000;
/** After healing the checks are about lost data, not about the speed of a busy machine. */
export const LAST_PATIENCE_MS = 15_000;
/** After a failure at a process most clients go to the others for this long. */
const AVOIDED_MS = 250;
/** At most, before a client goes on after a failure, or when it finds no process: an immediate retry would only load the machine. */
const LONGEST_PAUSE_MS = 100;
const LONGEST_ABSENCE_MS = 400;
export const KEY_HEADER = 'Idempotency-Key';

export interface Target {
  readonly name: string;
  /** Read for each request: the process may come back at another address. */
  readonly url: string;
}

/** An answer, or with `status` 0 the reason why none came, and from when to when. All times are of `performance.now()`. */
export interface Reply extends Pick<Answer, 'status' | 'headers' | 'text'> {
  /** `refused`, `cut`: the connection; `late`: the client did not wait any longer. */
  readonly failure?: 'refused' | 'cut' | 'late';
  readonly sentAt: number;
  readonly endedAt: number;
}

/** A 503, or a connection that was refused or cut: it needs a reason outside. */
export interface Refusal extends Reply {
  readonly what: string;
  readonly to: string;
  readonly key: string | undefined;
}

export interface Violation {
  readonly rule: string;
  readonly subject: string;
  readonly what: string;
  readonly history: readonly unknown[];
}

export const PROMISED_ANSWERS = 'every answer is one that was promised';
/** A rule for the test run itself, not a promise of the service. */
const BACK_AFTER_HEALING = 'everything is back after healing';

/** Everything that the clients sent and were answered, and everything that was done to the system: kept outside of it. */
export class History {
  readonly keys: KeyHistory[] = [];
  readonly transactions: TransactionHistory[] = [];
  readonly lists: ListHistory[] = [];
  readonly sharedLists: SharedListHistory[] = [];
  readonly refusals: Refusal[] = [];
  readonly disturbances = new Disturbances();
  /** Answers that break a promise by themselves, whatever else was answered. */
  readonly violations: Violation[] = [];
  readonly answers = new Map<number, number>();
  patienceMs = PATIENCE_MS;
  requests = 0;
  reads = 0;
  writes = 0;
  notModified = 0;
  cacheHits = 0;
  /** When the last request was sent that was answered with a new payment. */
  lastPaymentSentAt = Number.NEGATIVE_INFINITY;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_CONNECTION_MS });
  readonly #avoidedUntil = new Map<Target, number>();

  constructor(public targets: readonly Target[] = []) {}

  get longestPauseMs(): number {
    return this.#healthy().length > 0 ? LONGEST_PAUSE_MS : LONGEST_ABSENCE_MS;
  }

  choose(fraction: number): Target {
    const healthy = this.#healthy();
    const among = healthy.length > 0 ? healthy : this.targets;
    return among[Math.floor(fraction * among.length)] as Target;
  }

  /** Sends once. Resolves in any case, after about `patienceMs` at the latest. */
  async send(to: Target, path: string, request: Ask = {}, patienceMs = this.patienceMs): Promise<Reply> {
    const sentAt = performance.now();
    const signal = AbortSignal.timeout(patienceMs);
    const answer = await ask(`${to.url}${path}`, { agent: this.#agent, ...request, signal }).catch(withoutAnswer);
    const { status, headers, text, failure } = answer as Reply;
    const reply: Reply = { status, headers, text, ...(failure && { failure }), sentAt, endedAt: performance.now() };
    this.requests += 1;
    this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
    if (status === 0) this.#avoidedUntil.set(to, reply.endedAt + AVOIDED_MS);
    if (status === 503 || failure === 'cut' || failure === 'refused') {
      const named = request.headers?.[KEY_HEADER] ?? headers['idempotency-key'];
      const key = named as string | undefined;
      this.refusals.push({ ...reply, what: `${request.method ?? 'GET'} ${path}`, to: to.name, key });
    }
    return reply;
  }

  /** Records an answer that was not promised. No answer, and a 503, may have a reason: the checker of refusals looks it up. */
  unexpected(subject: string, { status, headers, text }: Reply): void {
    if (status === 0 || status === 503) return;
    const what = `${status} ${headers.etag ?? ''} ${text}`;
    this.violations.push({ rule: PROMISED_ANSWERS, subject, what, history: [] });
  }

  notRestored(subject: string, what: string): void {
    this.violations.push({ rule: BACK_AFTER_HEALING, subject, what, history: [] });
  }

  close(): void {
    this.#agent.destroy();
  }

  #healthy(): Target[] {
    const now = performance.now();
    return this.targets.filter((target) => (this.#avoidedUntil.get(target) ?? 0) < now);
  }
}

function withoutAnswer(error: NodeJS.ErrnoException): Pick<Reply, 'status' | 'headers' | 'text' | 'failure'> {
  const isLate = error.name === 'AbortError' || error.name === 'TimeoutError';
  const failure = isLate ? 'late' : error.code === 'ECONNREFUSED' ? 'refused' : 'cut';
  return { status: 0, headers: {}, text: '', failure };
}
