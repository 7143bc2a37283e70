import { listTag } from '../checkers/lists.js';
import type { History, Target } from '../history/history.js';
import type { ListHistory, SharedListHistory } from '../history/transactions.js';
import type { Random } from '../random.js';

/** Then another account is paid, so that a list stays short enough to be read often. */
const MOST_CREATES = 120;
/** Lists that are read under load: the one that grows, and the one before it. */
const READ_OFTEN = 2;
/** One read in this number is of an account that all clients pay. */
const SHARED_EVERY = 3;

/** A list that its owner makes longer and shorter, one request after the other, with its ids as the owner knows them. */
export interface OwnList {
  readonly history: ListHistory;
  ids: number[];
}

/** A list that all clients fill at the same time, with the ids under each tag that it had. */
export interface SharedList {
  readonly history: SharedListHistory;
  readonly idsByTag: Map<string, readonly number[]>;
}

/** The lists that the clients know, and how they are read. */
export class TransactionLists {
  readonly #own = new Set<OwnList>();
  readonly #shared: SharedList[] = [];

  constructor(private readonly history: History) {
    this.#openShared();
  }

  openOwn(): OwnList {
    const list: OwnList = { history: { account: `account-${this.history.lists.length + 1}`, accesses: [] }, ids: [] };
    this.history.lists.push(list.history);
    this.#own.add(list);
    return list;
  }

  isOpen(list: OwnList): boolean {
    return this.#own.has(list);
  }

  closeOwn(list: OwnList): void {
    this.#own.delete(list);
  }

  /** After a create or delete of unknown outcome sent at `since`: later reads of the list prove nothing, and are dropped. */
  dropReads(list: OwnList, since: number): void {
    this.closeOwn(list);
    const { accesses } = list.history;
    const before = accesses.filter(({ completed }) => completed && completed.at < since);
    accesses.splice(0, accesses.length, ...before);
  }

  moved({ history, ids }: OwnList, invokedAt: number, at: number): void {
    const movedTo = listTag(ids.toSorted((one, other) => one - other));
    history.accesses.push({ invokedAt, completed: { at, output: movedTo }, input: { movedTo } });
  }

  sharedForCreate(): SharedList {
    const current = this.#shared.at(-1) as SharedList;
    return current.history.creates.size < MOST_CREATES ? current : this.#openShared();
  }

  /** False: no answer that shows anything. */
  readSome(random: Random, to: Target): Promise<boolean> {
    if (random.below(SHARED_EVERY) === 0)
      return this.#readShared(random.pick(this.#shared.slice(-READ_OFTEN)), to, random);
    return this.#readOwn(this.#own.size > 0 ? random.pick([...this.#own]) : this.openOwn(), to, random);
  }

  async readAll(random: Random, to: Target): Promise<void> {
    for (const list of this.#own) await this.#readOwn(list, to, random);
    for (const list of this.#shared) await this.#readShared(list, to, random);
  }

  async #readOwn(list: OwnList, to: Target, random: Random): Promise<boolean> {
    const { account, accesses } = list.history;
    const known = random.below(5) > 0 ? accesses.at(-1 - random.below(3))?.completed?.output : undefined;
    const read = await this.#read(to, `from=${account}`, known);
    // A change of unknown outcome may have closed the list meanwhile: then its content is not known.
    if (read && this.isOpen(list)) {
      const completed = { at: read.endedAt, output: read.tag };
      accesses.push({ invokedAt: read.sentAt, completed, input: 'read', status: read.status });
    }
    return read !== undefined;
  }

  async #readShared({ history, idsByTag }: SharedList, to: Target, random: Random): Promise<boolean> {
    const known = random.below(3) > 0 ? [...idsByTag.keys()].at(-1 - random.below(3)) : undefined;
    const read = await this.#read(to, `to=${history.account}`, known);
    if (!read) return false;
    const { tag, sentAt, endedAt, ids = idsByTag.get(tag) ?? [] } = read;
    idsByTag.set(tag, ids);
    history.reads.push({ sentAt, endedAt, ids });
    return true;
  }

  /** A 304 must confirm the known tag; a 200 must have rising ids under their own tag. */
  async #read(to: Target, filter: string, known: string | undefined) {
    const headers: Record<string, string> = known === undefined ? {} : { 'If-None-Match': `"${known}"` };
    const reply = await this.history.send(to, `/api/transactions?${filter}`, { headers });
    const tag = reply.headers.etag?.slice(1, -1) ?? '';
    const wrong = () => this.history.unexpected(`list ${filter}`, reply);
    this.history.reads += 1;
    if (reply.status === 304) {
      this.history.notModified += 1;
      if (tag !== known) wrong();
      return { ...reply, tag, ids: undefined };
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
