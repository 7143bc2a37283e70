import { createHash } from 'node:crypto';
import { type ListHistory, listTag } from '../checkers/list-rules.js';
import {
  DONE,
  FINAL,
  GONE,
  type Input,
  NOT_AS_EXPECTED,
  type Output,
  type TransactionHistory,
} from '../checkers/transaction-rules.js';
import { inParallel } from '../concurrency.js';
import { type ClientLog, LAST_PATIENCE_MS, type Told } from '../history/client-log.js';
import type { SupervisedService } from '../processes/supervised-service.js';
import type { Random } from '../random.js';
import { pause } from '../time/until.js';
import { type SharedList, SharedLists } from './shared-lists.js';

const MOVABLE = ['PENDING', 'PROCESSING', 'ON_HOLD', 'FLAGGED', 'BLOCKED', 'COMPLETED'];
const FINALS = ['FAILED', 'CANCELLED'];
const ALL = [...MOVABLE, ...FINALS];
/** Transactions that all clients share at a time: few, so that they meet at them. */
const HOT = 48;
/** Then a transaction is left alone, so that its history stays short: its accesses, and writes of unknown outcome. */
const MOST_ACCESSES = 400;
const MOST_UNKNOWN = 3;
const LONGEST_LIST = 10;
const LONGEST_PAUSE_MS = 100;
const LONGEST_ABSENCE_MS = 400;
const FINAL_WIDTH = 16;
const UNCHANGED = 'nothing was changed';
/** One list in so many reads. */
const LIST_EVERY = 12;
/** Of those, one in so many is of an account that all clients pay. */
const SHARED_EVERY = 3;
/** One change in so many is only for the status that its client knows. */
const CONDITIONAL_EVERY = 6;

/** A transaction that clients read and change. */
interface Live {
  readonly history: TransactionHistory;
  readonly amount: number;
  readonly account: string;
  readonly shared: SharedList;
  unknown: number;
  /** The statuses it was last changed to: the next is another one, so that an old one is told from a new one. */
  readonly recent: string[];
}

/** A list that its owner makes longer and shorter, one request after the other. */
interface OwnList {
  readonly history: ListHistory;
  readonly members: Live[];
}

/** Clients that create, change and delete transactions, and read them back through any process. */
export class TransactionClients {
  #hot: Live[] = [];
  readonly #all: Live[] = [];
  readonly #openLists = new Map<string, OwnList>();
  #accounts = 0;
  #highestId = 0;
  readonly #shared: SharedLists;
  #patienceMs: number | undefined;

  constructor(
    private readonly log: ClientLog,
    private readonly random: Random,
  ) {
    this.#shared = new SharedLists(log);
  }

  async run(clients: number, stop: AbortSignal): Promise<void> {
    const randoms = Array.from({ length: clients }, () => this.random.fork());
    await Promise.all(randoms.map((random) => this.#client(random, stop)));
  }

  /** Everything once more, from every process, after healing: also what nobody has read since its last change. */
  async readAll(): Promise<void> {
    this.#patienceMs = LAST_PATIENCE_MS;
    for (const service of this.log.services) {
      await inParallel(this.#all.length, FINAL_WIDTH, async (index) => {
        const live = this.#all[index] as Live;
        const isKnown = await this.#read(live, service, this.random);
        if (!isKnown)
          this.log.violated('everything is back after healing', `${live.history.id}`, `no read at ${service.name}`);
      });
      for (const list of this.#openLists.values()) await this.#readList(list, service, this.random);
      for (const list of this.#shared.readable) await this.#readShared(list, service, this.random);
    }
  }

  async #client(random: Random, stop: AbortSignal): Promise<void> {
    let own = this.#newList();
    while (!stop.aborted) {
      if (own.members.length >= LONGEST_LIST || !this.#openLists.has(own.history.account)) {
        this.#openLists.delete(own.history.account);
        own = this.#newList();
      }
      const roll = random.below(100);
      let well: boolean;
      if (this.#hot.length < HOT || roll < 1) well = await this.#create(own, random);
      else if (roll < 2 && own.members.length > 0) well = await this.#delete(own, random);
      else if (roll < 11) well = await this.#change(random.pick(this.#hot), random);
      else if (random.below(LIST_EVERY) === 0) well = await this.#readSomeList(random);
      else well = await this.#read(random.pick(this.#hot), undefined, random);
      if (!well) await pause(random.below(this.log.isAnybodyThere() ? LONGEST_PAUSE_MS : LONGEST_ABSENCE_MS));
    }
  }

  #newList(): OwnList {
    this.#accounts += 1;
    const history: ListHistory = { account: `account-${this.#accounts}`, accesses: [] };
    this.log.lists.push(history);
    const list = { history, members: [] };
    this.#openLists.set(history.account, list);
    return list;
  }

  async #create(own: OwnList, random: Random): Promise<boolean> {
    const { account } = own.history;
    const amount = (1 + random.below(1_000_000)) / 100;
    const floor = this.#highestId;
    const shared = this.#shared.takeTurn();
    const payee = shared.history.account;
    const told = await this.#send(undefined, random, {
      method: 'POST',
      path: '/api/transactions',
      body: `{"fromAccount":"${account}","toAccount":"${payee}","amount":${amount}}`,
    });
    this.log.writes += 1;
    const { answer, sentAt, endedAt } = told;
    if (answer.status === 503 && answer.text.includes(UNCHANGED)) return false;
    if (answer.status !== 201) {
      this.#lostSight(own, sentAt);
      if (![0, 503].includes(answer.status)) this.#wrong('create', told);
      return false;
    }
    const id = Number(/"transactionId":(\d{15}),/.exec(answer.text)?.[1]);
    const expected = `{"transactionId":${id},"fromAccount":"${account}","toAccount":"${payee}","amount":${amount},"status":"PENDING",`;
    // Ids rise in commit order (decisions T1), so none is ever used twice.
    if (!answer.text.startsWith(expected) || id <= floor) this.#wrong(`create above ${floor}`, told);
    this.#highestId = Math.max(this.#highestId, id);
    shared.history.creates.set(id, { sentAt, endedAt });
    const live: Live = {
      history: { id, status: 'PENDING', accesses: [] },
      amount,
      account,
      shared,
      unknown: 0,
      recent: ['PENDING'],
    };
    this.log.transactions.push(live.history);
    this.#all.push(live);
    this.#hot.push(live);
    own.members.push(live);
    this.#moved(own, sentAt, endedAt);
    return true;
  }

  async #delete(own: OwnList, random: Random): Promise<boolean> {
    const [live] = own.members.splice(random.below(own.members.length), 1) as [Live];
    const told = await this.#send(undefined, random, { method: 'DELETE', path: pathOf(live) });
    const output = this.#wrote(live, { what: 'delete' }, told, 204);
    const endedAt = output === undefined ? undefined : told.endedAt;
    if (output !== 'unchanged') live.shared.history.deletes.set(live.history.id, { sentAt: told.sentAt, endedAt });
    if (output === undefined) {
      this.#lostSight(own, told.sentAt);
      return false;
    }
    if (output === 'unchanged') {
      own.members.push(live);
      return false;
    }
    this.#moved(own, told.sentAt, told.endedAt);
    await this.#readElsewhere(live, random);
    this.#leave(live);
    return true;
  }

  async #change(live: Live, random: Random): Promise<boolean> {
    const fresh = MOVABLE.filter((status) => !live.recent.includes(status));
    const status = random.pick(random.below(60) === 0 ? FINALS : fresh);
    const onlyFrom = random.below(CONDITIONAL_EVERY) === 0 ? live.recent.at(-1) : undefined;
    live.recent.push(status);
    if (live.recent.length > 3) live.recent.shift();
    const told = await this.#send(undefined, random, {
      method: 'PUT',
      path: `${pathOf(live)}/status`,
      headers: onlyFrom === undefined ? '' : `if-match: "${tagOf(live, onlyFrom)}"\r\n`,
      body: `{"status":"${status}"}`,
    });
    const output = this.#wrote(live, { what: 'change', status, onlyFrom }, told, 200);
    await this.#readElsewhere(live, random);
    return output !== undefined && output !== 'unchanged';
  }

  /** Right after a write of one's own, the other processes' caches are asked. */
  async #readElsewhere(live: Live, random: Random): Promise<void> {
    const services = this.log.services.length > 1 ? this.log.services : [undefined];
    await Promise.all(services.map((service) => this.#read(live, service, random)));
  }

  /** What the write did; undefined: nobody knows. */
  #wrote(live: Live, input: Input, told: Told, success: number): Output | 'unchanged' | undefined {
    const { answer, sentAt, endedAt } = told;
    this.log.writes += 1;
    if (answer.status === 503 && answer.text.includes(UNCHANGED)) return 'unchanged';
    const output = outputOf(answer.status, success, input.what);
    if (output === undefined) {
      live.unknown += 1;
      if (![0, 503].includes(answer.status)) this.#wrong(input.what, told);
    }
    if (output === DONE && input.what === 'change' && !answer.text.includes(`"status":"${input.status}"`)) {
      this.#wrong(input.what, told);
    }
    this.#accessed(live, input, sentAt, endedAt, output);
    return output;
  }

  /** False: no answer that shows anything. */
  async #read(live: Live, service: SupervisedService | undefined, random: Random): Promise<boolean> {
    const { history } = live;
    const known = random.below(4) === 0 ? `if-none-match: "${tagOf(live, random.pick(live.recent))}"\r\n` : '';
    const told = await this.#send(service, random, { method: 'GET', path: pathOf(live), headers: known });
    const { answer, sentAt, endedAt } = told;
    this.log.reads += 1;
    switch (answer.status) {
      case 200: {
        const [, status = ''] = /"status":"([A-Z_]+)"/.exec(answer.text) ?? [];
        const payee = live.shared.history.account;
        const start = `{"transactionId":${history.id},"fromAccount":"${live.account}","toAccount":"${payee}","amount":${live.amount},"status"`;
        const isTagged = answer.header('etag') === `"${tagOf(live, status)}"`;
        if (!answer.text.startsWith(start) || !isTagged) this.#wrong('read', told);
        this.#accessed(live, { what: 'read' }, sentAt, endedAt, status);
        return true;
      }
      case 304: {
        this.log.notModified += 1;
        const tag = answer.header('etag')?.slice(1, -1);
        const status = ALL.find((each) => tagOf(live, each) === tag);
        if (status === undefined || !known.includes(tag ?? '')) this.#wrong('read', told);
        else this.#accessed(live, { what: 'read' }, sentAt, endedAt, status);
        return true;
      }
      case 404:
        this.#accessed(live, { what: 'read' }, sentAt, endedAt, GONE);
        return true;
      default:
        if (![0, 503].includes(answer.status)) this.#wrong('read', told);
        return false;
    }
  }

  #readSomeList(random: Random): Promise<boolean> {
    return random.below(SHARED_EVERY) === 0
      ? this.#readShared(random.pick(this.#shared.readable), undefined, random)
      : this.#readList(this.#someList(random), undefined, random);
  }

  #someList(random: Random): OwnList {
    const lists = [...this.#openLists.values()];
    return lists.length > 0 ? random.pick(lists) : this.#newList();
  }

  async #readList(list: OwnList, service: SupervisedService | undefined, random: Random): Promise<boolean> {
    const { account, accesses } = list.history;
    const tagToldBefore = accesses.at(-1 - random.below(3))?.completed?.output;
    const known = tagToldBefore && random.below(5) > 0 ? `if-none-match: "${tagToldBefore}"\r\n` : '';
    const told = await this.#send(service, random, {
      method: 'GET',
      path: `/api/transactions?from=${account}`,
      headers: known,
    });
    const { answer, sentAt, endedAt } = told;
    this.log.reads += 1;
    if (answer.status !== 200 && answer.status !== 304) {
      if (![0, 503].includes(answer.status)) this.#wrong('list', told);
      return false;
    }
    const tag = answer.header('etag')?.slice(1, -1) ?? '';
    if (answer.status === 304) {
      this.log.notModified += 1;
      if (!known.includes(`"${tag}"`)) this.#wrong('list', told);
    } else {
      const ids = [...answer.text.matchAll(/"transactionId":(\d+)/g)].map(([, id]) => Number(id));
      if (listTag(ids) !== tag) this.#wrong('list', told);
    }
    // Its owner may have lost sight of it meanwhile: then nobody knows what it holds.
    if (this.#openLists.has(account)) {
      accesses.push({
        invokedAt: sentAt,
        completed: { at: endedAt, output: tag },
        input: 'read',
        status: answer.status,
      });
    }
    return true;
  }

  async #readShared(list: SharedList, service: SupervisedService | undefined, random: Random): Promise<boolean> {
    const { history, idsByTag } = list;
    const tagToldBefore = [...idsByTag.keys()].at(-1 - random.below(3));
    const known = tagToldBefore !== undefined && random.below(3) > 0 ? `if-none-match: "${tagToldBefore}"\r\n` : '';
    const path = `/api/transactions?to=${history.account}`;
    const told = await this.#send(service, random, { method: 'GET', path, headers: known });
    const { answer, sentAt, endedAt } = told;
    this.log.reads += 1;
    const tag = answer.header('etag')?.slice(1, -1) ?? '';
    if (answer.status === 200) {
      const ids = [...answer.text.matchAll(/"transactionId":(\d+)/g)].map(([, id]) => Number(id));
      if (listTag(ids) !== tag || ids.some((id, index) => id <= (ids[index - 1] ?? 0))) this.#wrong('list', told);
      idsByTag.set(tag, ids);
      history.reads.push({ sentAt, endedAt, ids });
      return true;
    }
    if (answer.status === 304) {
      this.log.notModified += 1;
      if (tag === tagToldBefore) history.reads.push({ sentAt, endedAt, ids: idsByTag.get(tag) ?? [] });
      else this.#wrong('list', told);
      return true;
    }
    if (![0, 503].includes(answer.status)) this.#wrong('list', told);
    return false;
  }

  /** A create or delete of unknown outcome, sent at this moment: what was seen of the list since then cannot be judged. */
  #lostSight({ history }: OwnList, since: number): void {
    this.#openLists.delete(history.account);
    const before = history.accesses.filter(({ completed }) => completed && completed.at < since);
    history.accesses.splice(0, history.accesses.length, ...before);
  }

  #moved(list: OwnList, invokedAt: number, at: number): void {
    const movedTo = listTag(list.members.map(({ history }) => history.id).sort((one, other) => one - other));
    list.history.accesses.push({ invokedAt, completed: { at, output: movedTo }, input: { movedTo } });
  }

  #accessed(live: Live, input: Input, invokedAt: number, at: number, output: Output | undefined): void {
    const { accesses } = live.history;
    accesses.push({ invokedAt, completed: output === undefined ? undefined : { at, output }, input });
    if (accesses.length > MOST_ACCESSES || live.unknown >= MOST_UNKNOWN || output === GONE) this.#leave(live);
  }

  #leave(live: Live): void {
    this.#hot = this.#hot.filter((each) => each !== live);
  }

  async #send(
    service: SupervisedService | undefined,
    random: Random,
    ask: Parameters<ClientLog['send']>[1],
  ): Promise<Told> {
    const to = service ?? this.log.choose(random.fraction());
    const told = await this.log.send(to, ask, this.#patienceMs);
    if (told.cutByTheLiving) this.#wrong(`cut off by the living ${to.name}`, told);
    return told;
  }

  #wrong(what: string, { answer }: Told): void {
    this.log.violated(
      'every answer is one that was promised',
      what,
      `${answer.status} ${answer.header('etag')} ${answer.text}`,
    );
  }
}

function outputOf(status: number, success: number, what: Input['what']): Output | undefined {
  if (status === success) return DONE;
  if (status === 404) return GONE;
  if (status === 412 && what === 'change') return NOT_AS_EXPECTED;
  return status === 409 && what === 'change' ? FINAL : undefined;
}

function pathOf({ history }: Live): string {
  return `/api/transactions/${history.id}`;
}

/** Of spec 4.3, unquoted. `String` of an amount with so few digits is its shortest plain decimal. */
function tagOf({ history, account, shared, amount }: Live, status: string): string {
  return createHash('md5').update(`${history.id}${account}${shared.history.account}${amount}${status}`).digest('hex');
}
