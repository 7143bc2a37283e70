import type { StoreClock } from '../store-clock.js';
import type { Database } from './sqlite.js';

/** A commit's record of itself, in the database and in `lock.sqlite`. */
export interface CommitMark {
  /** Names the database; every restore gives it another name. */
  readonly incarnation: string;
  /** One more with each commit. */
  readonly number: number;
  /** The store's time, milliseconds since the epoch. */
  readonly clockMs: number;
}

/** The number in a database that was just made. */
const FIRST_NUMBER = 1;

const READ = 'SELECT incarnation, number, clock_ms, key_records FROM last_commit';
const WRITE = 'UPDATE last_commit SET number = ?, clock_ms = ?, key_records = ?, adopted = NULL';

interface Row {
  readonly incarnation: string;
  readonly number: number;
  readonly clock_ms: number;
  readonly key_records: number;
}

export function readLastCommit(database: Database): CommitMark {
  const { incarnation, number, clock_ms: clockMs } = database.prepare(READ).get() as unknown as Row;
  return { incarnation, number, clockMs };
}

/**
 * True if the database lacks commits that `lock.sqlite` knows of, or goes on from a copy that was adopted elsewhere. Without a
 * mark in `lock.sqlite` only a database that nothing was written to is complete for sure.
 */
export function lacksCommits(last: CommitMark, remembered: CommitMark | undefined): boolean {
  if (!remembered) return last.number > FIRST_NUMBER;
  return last.incarnation !== remembered.incarnation || last.number < remembered.number;
}

/** The row that every commit of the writer writes. */
export class LastCommit {
  /** How many key records there are: counted by the operations of a transaction, taken back if it is rolled back. */
  keyRecords: number;
  readonly #clock: StoreClock;
  readonly #remember: (mark: CommitMark) => void;
  readonly #write;
  readonly #totalChanges;
  #mark: CommitMark;
  #committedKeyRecords: number;
  #changes: number;
  #isDemanded = false;
  #next: CommitMark | undefined;

  /** `remember` is called after each commit, before anything is answered. */
  constructor(database: Database, clock: StoreClock, remember: (mark: CommitMark) => void = () => {}) {
    this.#clock = clock;
    this.#remember = remember;
    this.#write = database.prepare(WRITE);
    this.#totalChanges = database.prepare('SELECT total_changes() AS changes');
    this.#mark = readLastCommit(database);
    this.keyRecords = (database.prepare(READ).get() as unknown as Row).key_records;
    this.#committedKeyRecords = this.keyRecords;
    this.#changes = this.#countChanges();
  }

  /** The time that the last commit wrote: none of a later start is before it. */
  get clockMs(): number {
    return this.#mark.clockMs;
  }

  /** Makes the transaction write the row although nothing else may have changed. With a time past `pastMs`. */
  demand(pastMs = 0): void {
    this.#isDemanded = true;
    this.#clock.runTo(pastMs + 1);
  }

  /** The last statement of each transaction. */
  write(): void {
    if (!this.#isDemanded && this.#countChanges() === this.#changes) return;
    const { incarnation, number } = this.#mark;
    this.#next = { incarnation, number: number + 1, clockMs: this.#clock.now() };
    this.#write.run(this.#next.number, this.#next.clockMs, this.keyRecords);
  }

  committed(): void {
    this.#isDemanded = false;
    if (!this.#next) return;
    this.#mark = this.#next;
    this.#next = undefined;
    this.#committedKeyRecords = this.keyRecords;
    this.#changes = this.#countChanges();
    this.#clock.wrote(this.#mark.clockMs);
    this.#remember(this.#mark);
  }

  rolledBack(): void {
    this.#isDemanded = false;
    this.#next = undefined;
    this.keyRecords = this.#committedKeyRecords;
    this.#changes = this.#countChanges();
  }

  /** Rows that this connection has changed since it was opened. */
  #countChanges(): number {
    return (this.#totalChanges.get() as { changes: number }).changes;
  }
}
