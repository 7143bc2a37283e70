import { listTag } from '../checkers/lists.js';
import type { History, Reply, Target } from '../history/history.js';
import type { ListHistory, SharedListHistory } from '../history/transactions.js';
import type { Random } from '../random.js';

/** Then another account is paid, so that a list stays short enough to be read often. */
const MOST_CREATES = 120;
/** Lists that are read under load: the one that grows, and the one before it. */
const READ_OFTEN = 2;
/** One read in so many is of an account that all clients pay. */
const SHARED_EVERY = 3;

/** A list that its owner makes longer and shorter, one request after the other. */
export interface OwnList {
  readonly history: ListHistory;
  /** Its ids as its owner knows them. */
  ids: number[];
}

/** A list that all clients fill at the same time, with the ids under each tag that it had. */
export interface SharedList {
  readonly history: SharedListHistory;
  readonly idsByTag: Map<string, readonly number[]>;
}

/** The lists that the clients know, and how they are read. */
export class TransactionLists {
  readonly #own = new Map<string, OwnList>();
  readonly #shared: SharedList[] = [];
  #accounts = 0;

  constructor(private readonly history: History) {
    this.#openShared();
  }

  openOwn(): OwnList {
    this.#accounts += 1;
    const history: ListHistory = { account: `account-${this.#accounts}`, accesses: [] };
    this.history.lists.push(history);
    const list = { history, ids: [] };
    this.#own.set(history.account, list);
    return list;
  }

  isOpen({ history }: OwnList): boolean {
    return this.#own.has(history.account);
  }

  /** What it holds is not known any more, or it is long enough. */
  closeOwn({ history }: OwnList): void {
    this.#own.delete(history.account);
  }

  /** A create or delete of unknown outcome, sent at this moment: what was seen of the list since then shows nothing. */
  loseSight(list: OwnList, since: number): void {
    this.closeOwn(list);
    const { accesses } = list.history;
    const before = accesses.filter(({ completed }) => completed && completed.at < since);
    accesses.splice(0, accesses.length, ...before);
  }

  moved({ history, ids }: OwnList, invokedAt: number, at: number): void {
    const movedTo = listTag(ids.toSorted((one, other) => one - other));
    history.accesses.push({ invokedAt, completed: { at, output: movedTo }, input: { movedTo } });
  }

  /** The account that the next create belongs to. */
  sharedForCreate(): SharedList {
    const current = this.#shared.at(-1) as SharedList;
    return current.history.creates.size < MOST_CREATES ? current : this.#openShared();
  }

  /** False: no answer that shows anything. */
  readSome(random: Random, to: Target): Promise<boolean> {
    if (random.below(SHARED_EVERY) === 0)
      return this.#readShared(random.pick(this.#shared.slice(-READ_OFTEN)), to, random);
    const own = [...this.#own.values()];
    return this.#readOwn(own.length > 0 ? random.pick(own) : this.openOwn(), to, random);
  }

  async readAll(random: Random, to: Target): Promise<void> {
    for (const list of this.#own.values()) await this.#readOwn(list, to, random);
    for (const list of this.#shared) await this.#readShared(list, to, random);
  }

  async #readOwn(list: OwnList, to: Target, random: Random): Promise<boolean> {
    const { account, accesses } = list.history;
    const known = random.below(5) > 0 ? accesses.at(-1 - random.below(3))?.completed?.output : undefined;
    const read = await this.#read(to, `from=${account}`, known);
    if (!read) return false;
    const { tag, status, sentAt, endedAt } = read;
    // Its owner may have lost sight of it meanwhile: then nobody knows what it holds.
    if (this.isOpen(list)) {
      accesses.push({ invokedAt: sentAt, completed: { at: endedAt, output: tag }, input: 'read', status });
    }
    return true;
  }

  async #readShared({ history, idsByTag }: SharedList, to: Target, random: Random): Promise<boolean> {
    const known = random.below(3) > 0 ? [...idsByTag.keys()].at(-1 - random.below(3)) : undefined;
    const read = await this.#read(to, `to=${history.account}`, known);
    if (!read) return false;
    const { tag, sentAt, endedAt } = read;
    const ids = read.ids ?? idsByTag.get(tag) ?? [];
    idsByTag.set(tag, ids);
    history.reads.push({ sentAt, endedAt, ids });
    return true;
  }

  /** A 304 must confirm the known tag; a 200 must have rising ids under their own tag. */
  async #read(
    to: Target,
    filter: string,
    known: string | undefined,
  ): Promise<(Reply & { readonly tag: string; readonly ids?: readonly number[] }) | undefined> {
    const headers: Record<string, string> = known === undefined ? {} : { 'If-None-Match': `"${known}"` };
    const reply = await this.history.send(to, `/api/transactions?${filter}`, { headers });
    const tag = reply.headers.etag?.slice(1, -1) ?? '';
    const wrong = () => this.history.unexpected(`list ${filter}`, reply);
    this.history.reads += 1;
    if (reply.status === 304) {
      this.history.notModified += 1;
      if (tag !== known) wrong();
      return { ...reply, tag };
    }
    if (reply.status === 200) {
      const ids = [...reply.text.matchAll(/"transactionId":(\d+)/g)].map(([, id]) => Number(id));
      if (listTag(ids) !== tag || ids.some((id, index) => id <= (ids[index - 1] ?? 0))) wrong();
      return { ...reply, tag, ids };
    }
    wrong();
    return undefined;
  }

  #openShared(): SharedList {
    const account = `payee-${this.#shared.length + 1}`;
    const history: SharedListHistory = { account, creates: new Map(), deletes: new Map(), reads: [] };
    this.history.sharedLists.push(history);
    const list = { history, idsByTag: new Map() };
    this.#shared.push(list);
    return list;
  }
}
