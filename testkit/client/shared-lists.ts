import type { SharedListHistory } from '../checkers/shared-list-rules.js';

/** Then another account is paid, so that a list stays short enough to be read often. */
const MOST_CREATES = 120;
/** The one that grows, and the one before it. */
const READABLE = 2;

/** A list that all clients fill at the same time, with the ids under each tag that it had. */
export interface SharedList {
  readonly history: SharedListHistory;
  readonly idsByTag: Map<string, readonly number[]>;
  creates: number;
}

/** The accounts that all clients pay. */
export class SharedLists {
  readonly readable: SharedList[] = [];
  #accounts = 0;

  constructor(private readonly log: { readonly sharedLists: SharedListHistory[] }) {
    this.#openAnother();
  }

  /** The one that the next create belongs to. */
  takeTurn(): SharedList {
    const current = this.readable[0] as SharedList;
    current.creates += 1;
    if (current.creates >= MOST_CREATES) this.#openAnother();
    return current;
  }

  #openAnother(): void {
    this.#accounts += 1;
    const account = `payee-${this.#accounts}`;
    const history = { account, creates: new Map(), deletes: new Map(), reads: [] };
    this.log.sharedLists.push(history);
    this.readable.unshift({ history, idsByTag: new Map(), creates: 0 });
    this.readable.splice(READABLE);
  }
}
