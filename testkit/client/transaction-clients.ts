import { createHash } from 'node:crypto';
import { inParallel } from '../concurrency.js';
import type { History, Reply, Target } from '../history/history.js';
import {
  FINAL_STATUSES,
  type Input,
  MOVABLE_STATUSES,
  type Output,
  STATUSES,
  type Status,
  type TransactionHistory,
} from '../history/transactions.js';
import type { Random } from '../random.js';
import { pause } from '../time/until.js';
import type { Ask } from './http-client.js';
import { type OwnList, type SharedList, TransactionLists } from './transaction-lists.js';

/** Transactions that all clients share at a time: few, so that they meet at them. */
const HOT = 48;
/** Then a transaction is left alone, so that its history stays short: its accesses, and writes of unknown outcome. */
const MOST_ACCESSES = 400;
const MOST_UNKNOWN = 3;
const LONGEST_LIST = 10;
const FINAL_WIDTH = 16;
/** A store that was slow for a moment refuses one read. */
const MOST_READS = 3;
const READ_AGAIN_MS = 500;
const LIST_EVERY = 12;
const CONDITIONAL_EVERY = 6;
/** A create with a key whose outcome is not known is repeated so often, at any process. */
const MOST_REPEATS = 5;

interface Live {
  readonly history: TransactionHistory;
  readonly amount: number;
  readonly account: string;
  readonly shared: SharedList;
  unknown: number;
  /** The statuses it was last changed to: the next is another one, so that an old one is told from a new one. */
  readonly recent: Status[];
}

/** Clients that create, change and delete transactions, and read them back through any process. */
export class TransactionClients {
  #hot: Live[] = [];
  readonly #all: Live[] = [];
  readonly #lists: TransactionLists;
  #highestId = 0;

  constructor(
    private readonly history: History,
    private readonly random: Random,
    /** True if creates may have keys: if a version runs that does not know them, a repeat creates again. */
    private readonly withKeys = true,
  ) {
    this.#lists = new TransactionLists(history);
  }

  async run(clients: number, stop: AbortSignal): Promise<void> {
    const randoms = Array.from({ length: clients }, () => this.random.fork());
    await Promise.all(randoms.map((random) => this.#client(random, stop)));
  }

  /** Everything once more, from every process, after healing: also what nobody has read since its last change. */
  async readAll(): Promise<void> {
    for (const to of this.history.targets) {
      await inParallel(this.#all.length, FINAL_WIDTH, async (index) => {
        const live = this.#all[index] as Live;
        for (let tries = 0; tries < MOST_READS; tries += 1) {
          if (await this.#read(live, to, this.random)) return;
          await pause(READ_AGAIN_MS);
        }
        this.history.notRestored(`transaction ${live.history.id}`, `no read at ${to.name}`);
      });
      await this.#lists.readAll(this.random, to);
    }
  }

  async #client(random: Random, stop: AbortSignal): Promise<void> {
    let own = this.#lists.openOwn();
    while (!stop.aborted) {
      if (own.ids.length >= LONGEST_LIST || !this.#lists.isOpen(own)) {
        this.#lists.closeOwn(own);
        own = this.#lists.openOwn();
      }
      const isWell = await this.#next(own, random);
      if (!isWell) await pause(random.below(this.history.longestPauseMs));
    }
  }

  #next(own: OwnList, random: Random): Promise<boolean> {
    const roll = random.below(100);
    const to = this.history.choose(random.fraction());
    if (this.#hot.length < HOT || roll < 1) return this.#create(own, to, random);
    if (roll < 2 && own.ids.length > 0) return this.#delete(own, to, random);
    if (roll < 11) return this.#change(random.pick(this.#hot), to, random);
    if (random.below(LIST_EVERY) === 0) return this.#lists.readSome(random, to);
    return this.#read(random.pick(this.#hot), to, random);
  }

  async #create(own: OwnList, to: Target, random: Random): Promise<boolean> {
    const { account } = own.history;
    const amount = (1 + random.below(1_000_000)) / 100;
    const floor = this.#highestId;
    const shared = this.#lists.sharedForCreate();
    const members = `"fromAccount":"${account}","toAccount":"${shared.history.account}","amount":${amount}`;
    const isKeyed = this.withKeys && random.below(2) === 0;
    const key: Ask['headers'] = isKeyed ? { 'Idempotency-Key': `${account}:${random.below(2 ** 32)}` } : {};
    const send = (process: Target) => this.#write(process, '/api/transactions', 'POST', `{${members}}`, key);
    let reply = await send(to);
    const { sentAt } = reply;
    if (isUnchanged(reply)) return false;
    for (let repeats = 0; isKeyed && reply.status !== 201 && repeats < MOST_REPEATS; repeats += 1) {
      await pause(random.below(this.history.longestPauseMs));
      reply = await send(this.history.choose(random.fraction()));
    }
    const { status, text, endedAt } = reply;
    if (status !== 201) {
      this.#lists.dropReads(own, sentAt);
      this.history.unexpected('create', reply);
      return false;
    }
    const id = Number(/"transactionId":(\d{15}),/.exec(text)?.[1]);
    // Ids rise in commit order (rule T1), so none is ever used twice.
    if (!text.startsWith(`{"transactionId":${id},${members},"status":"PENDING",`) || id <= floor) {
      this.history.unexpected(`create above ${floor}`, reply);
    }
    this.#highestId = Math.max(this.#highestId, id);
    shared.history.creates.set(id, { sentAt, endedAt });
    const history: TransactionHistory = { id, status: 'PENDING', accesses: [] };
    const live: Live = { history, amount, account, shared, unknown: 0, recent: ['PENDING'] };
    this.history.transactions.push(history);
    this.#all.push(live);
    this.#hot.push(live);
    own.ids.push(id);
    this.#lists.moved(own, sentAt, endedAt);
    return true;
  }

  async #delete(own: OwnList, to: Target, random: Random): Promise<boolean> {
    const id = random.pick(own.ids);
    const live = this.#all.findLast(({ history }) => history.id === id) as Live;
    own.ids = own.ids.filter((each) => each !== id);
    const reply = await this.#write(to, pathOf(live), 'DELETE');
    if (isUnchanged(reply)) {
      own.ids.push(id);
      return false;
    }
    const { sentAt } = reply;
    const endedAt = this.#wrote(live, { what: 'delete' }, reply) === undefined ? undefined : reply.endedAt;
    live.shared.history.deletes.set(id, { sentAt, endedAt });
    if (endedAt === undefined) {
      this.#lists.dropReads(own, sentAt);
      return false;
    }
    this.#lists.moved(own, sentAt, endedAt);
    await this.#readEverywhere(live, random);
    this.#leave(live);
    return true;
  }

  async #change(live: Live, to: Target, random: Random): Promise<boolean> {
    const fresh = MOVABLE_STATUSES.filter((status) => !live.recent.includes(status));
    const status = random.below(60) === 0 ? random.pick(FINAL_STATUSES) : random.pick(fresh);
    const onlyFrom = random.below(CONDITIONAL_EVERY) === 0 ? live.recent.at(-1) : undefined;
    live.recent.push(status);
    if (live.recent.length > 3) live.recent.shift();
    const condition: Ask['headers'] = onlyFrom === undefined ? {} : { 'If-Match': `"${tagOf(live, onlyFrom)}"` };
    const reply = await this.#write(to, `${pathOf(live)}/status`, 'PUT', `{"status":"${status}"}`, condition);
    const output = isUnchanged(reply) ? undefined : this.#wrote(live, { what: 'change', status, onlyFrom }, reply);
    await this.#readEverywhere(live, random);
    return output !== undefined;
  }

  async #readEverywhere(live: Live, random: Random): Promise<void> {
    await Promise.all(this.history.targets.map((to) => this.#read(live, to, random)));
  }

  #wrote(live: Live, input: Exclude<Input, { what: 'read' }>, reply: Reply): Output | undefined {
    const output = OUTPUTS[input.what][reply.status];
    if (output === undefined) {
      live.unknown += 1;
      this.history.unexpected(input.what, reply);
    }
    if (output === 'done' && input.what === 'change' && !reply.text.includes(`"status":"${input.status}"`)) {
      this.history.unexpected(input.what, reply);
    }
    this.#accessed(live, input, reply, output);
    return output;
  }

  /** False: no answer that shows anything. */
  async #read(live: Live, to: Target, random: Random): Promise<boolean> {
    const known = random.below(4) === 0 ? tagOf(live, random.pick(live.recent)) : undefined;
    const headers: Record<string, string> = known === undefined ? {} : { 'If-None-Match': `"${known}"` };
    const reply = await this.history.send(to, pathOf(live), { headers });
    const { status } = reply;
    this.history.reads += 1;
    if (![200, 304, 404].includes(status)) {
      this.history.unexpected('read', reply);
      return false;
    }
    if (status === 304) this.history.notModified += 1;
    if (reply.headers['cache-status'] === 'transactionCache; hit') this.history.cacheHits += 1;
    const shown = shownStatus(live, reply, known);
    if (shown === undefined) this.history.unexpected('read', reply);
    else this.#accessed(live, { what: 'read' }, reply, shown);
    return true;
  }

  #accessed(live: Live, input: Input, { sentAt, endedAt: at }: Reply, output: Output | undefined): void {
    const { accesses } = live.history;
    accesses.push({ invokedAt: sentAt, completed: output === undefined ? undefined : { at, output }, input });
    if (accesses.length > MOST_ACCESSES || live.unknown >= MOST_UNKNOWN || output === 'gone') this.#leave(live);
  }

  #leave(live: Live): void {
    this.#hot = this.#hot.filter((each) => each !== live);
  }

  #write(to: Target, path: string, method: string, body?: string, more: Ask['headers'] = {}): Promise<Reply> {
    this.history.writes += 1;
    const headers = { 'Content-Type': 'application/json', ...more };
    return this.history.send(to, path, { method, headers, ...(body && { body }) });
  }
}

const OUTPUTS: Readonly<Record<'change' | 'delete', Readonly<Record<number, Output>>>> = {
  change: { 200: 'done', 404: 'gone', 409: 'final', 412: 'not as expected' },
  delete: { 204: 'done', 404: 'gone' },
};

/** The status that a reply shows; undefined if it shows what may never be shown of this transaction. */
function shownStatus(live: Live, { status, text, headers }: Reply, known: string | undefined): Output | undefined {
  if (status === 404) return 'gone';
  const tag = headers.etag?.slice(1, -1);
  const shown = STATUSES.find((each) => tagOf(live, each) === tag);
  if (status === 304) return tag === known ? shown : undefined;
  const { history, account, shared, amount } = live;
  const parties = `"fromAccount":"${account}","toAccount":"${shared.history.account}"`;
  const start = `{"transactionId":${history.id},${parties},"amount":${amount},"status":"${shown}"`;
  return text.startsWith(start) ? shown : undefined;
}

const isUnchanged = ({ status, text }: Reply) => status === 503 && text.includes('nothing was changed');

const pathOf = ({ history }: Live) => `/api/transactions/${history.id}`;

/** The entity tag of spec 4.3, unquoted. `String` of an amount with so few digits is its shortest plain decimal. */
function tagOf({ history, account, shared, amount }: Live, status: string): string {
  return createHash('md5').update(`${history.id}${account}${shared.history.account}${amount}${status}`).digest('hex');
}
