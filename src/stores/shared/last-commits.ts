import { randomUUID } from 'node:crypto';
import { isComputed } from '../../payments/values/computed-key.js';
import type { Clock } from '../../platform/clock.js';

/** A process that has written nothing for this long has probably ended. */
const IDLE_MS = 600_000;
/**
 * This number of the settled rows that were read is kept: the rows that were settled last. A database that has one of them also has the
 * rows that were settled long before it. More rows are kept than are settled while one statement runs, so a row that is not kept was
 * settled long before one that is.
 */
const MOST_SEEN = 64;

/**
 * A row as a commit left it. No later commit takes this back: epochs and versions only grow, and a settled payment stays so.
 * A database in which the row is older, or was never written, has lost the commit.
 */
export type Commit =
  | PaymentCommit
  /** A transaction was created or changed. */
  | { readonly id: number; readonly version: number }
  | { readonly listVersion: number };

interface PaymentCommit {
  readonly key: string;
  readonly epoch: number;
  readonly settled: boolean;
  /**
   * When it became known, or was settled if its row was read, ms since the epoch. Only a computed key needs it, because it has no time
   * that says whether retention may have removed its row.
   */
  readonly atMs?: number;
}

/** A database between two replacements. A higher generation is a later one; two of one generation are told apart by the incarnation. */
export interface Incarnation {
  readonly generation: number;
  readonly incarnation: string;
  /** System identifier, database, timeline and incarnation, with hyphens between. Texts of earlier builds lack it. */
  readonly server?: string | undefined;
}

/** The last commits of a process, and their database. */
export interface ProcessCommits extends Incarnation {
  readonly commits: readonly Commit[];
}

/** Kept outside the database, which may be restored. */
export interface RememberedCommits {
  /** The text that each process wrote last, by process. */
  read(): Promise<ReadonlyMap<string, string>>;
  /**
   * Replaces the text of the process, if `number` is higher than the number of the text that is there, and removes the texts in `ended`
   * that are still the same. `now`: the command is handed to the operating system before this returns.
   */
  write(texts: {
    process: string;
    number: number;
    text: string;
    now: boolean;
    ended: ReadonlyMap<string, string>;
  }): Promise<void>;
}

interface Known {
  readonly commit: Commit;
  /** How many commits were known when its statement began, and when it was known itself. */
  readonly begunAt: number;
  readonly knownAt: number;
  /** When it was settled, ms since the epoch. Undefined if its row was not read, but written. */
  readonly seenSettledAtMs?: number;
}

interface Idle {
  readonly text: string;
  readonly sinceMs: number;
  /** The number of known commits when the database was found to have the commits of the text. */
  readonly knownAt: number;
}

/**
 * The newest commits of this process. A database that has one of them also has every commit that was known before its statement
 * began, so these are forgotten. The rest is about as much as the process does at once, and a bounded number of rows that were read. A
 * database that lacks one of them lacks the rows that were settled after it, too.
 */
export class LastCommits {
  private readonly process = randomUUID();
  private known: readonly Known[] = [];
  private count = 0;
  private incarnation: Incarnation | undefined;
  private remembered: RememberedCommits | undefined;
  private texts = 0;
  private text = '';
  private idle = new Map<string, Idle>();

  constructor(private readonly clock: Clock) {}

  get own(): ProcessCommits | undefined {
    return this.incarnation && { ...this.incarnation, commits: this.known.map(({ commit }) => commit) };
  }

  keepIn(remembered: RememberedCommits): void {
    this.remembered = remembered;
  }

  /** Before a statement is sent; the result is for `add`. */
  begin(): number {
    return this.count;
  }

  /**
   * The commit of a statement is known. Before a charge is sent for it, or its client is answered, Redis is sent it: a process that
   * is killed later cannot take that back.
   */
  add(commit: Commit, begunAt = 0): void {
    this.count += 1;
    const known = { commit: dated(commit, this.clock.now()), begunAt, knownAt: this.count };
    this.known = [...this.known.filter(({ knownAt }) => knownAt > begunAt), known];
    // A settled payment is not charged; its commit may be sent with the other commands that are collected.
    this.write('settled' in commit && !commit.settled).catch(() => {});
  }

  /** The row of a settled payment was read, for a client that is answered. Retention removes it by the time of its settlement. */
  saw({ key, epoch }: Pick<PaymentCommit, 'key' | 'epoch'>, settledAtMs: number): void {
    const isKnown = ({ commit }: Known) => 'key' in commit && commit.key === key && commit.settled;
    if (this.known.some(isKnown)) return;
    const seen = this.known.filter((each) => each.seenSettledAtMs !== undefined);
    if (seen.length >= MOST_SEEN) {
      const oldest = seen.reduce((one, other) => (settledAt(other) < settledAt(one) ? other : one));
      if (settledAt(oldest) >= settledAtMs) return;
      this.known = this.known.filter((each) => each !== oldest);
    }
    this.count += 1;
    const commit = dated({ key, epoch, settled: true }, settledAtMs);
    this.known = [...this.known, { commit, begunAt: 0, knownAt: this.count, seenSettledAtMs: settledAtMs }];
    this.write(false).catch(() => {});
  }

  /** The database is in this incarnation now, and lacks the commits in `missing`. */
  moveTo({ generation, incarnation, server }: Incarnation, missing: ReadonlySet<Commit>): void {
    if (this.incarnation?.incarnation === incarnation) return;
    this.incarnation = { generation, incarnation, server };
    this.known = this.known.filter(({ commit }) => !missing.has(commit));
    this.write(true).catch(() => {});
  }

  /** Throws when they cannot be read. */
  async ofAll(): Promise<ReadonlyMap<string, string>> {
    if (!this.remembered) throw new Error('not connected yet');
    return await this.remembered.read();
  }

  /**
   * The database has all commits of these texts. Restores what Redis has lost, and finds texts that are no longer needed: unchanged
   * for long, and older than a commit of this process.
   */
  async found(texts: ReadonlyMap<string, string>): Promise<void> {
    const nowMs = this.clock.monotonic();
    this.count += 1;
    const idle = new Map<string, Idle>();
    const ended = new Map<string, string>();
    for (const [process, text] of texts) {
      if (process === this.process) continue;
      const before = this.idle.get(process);
      const same = before?.text === text ? before : { text, sinceMs: nowMs, knownAt: this.count };
      const isOlder = this.known.some(({ begunAt }) => begunAt >= same.knownAt);
      if (isOlder && nowMs - same.sinceMs >= IDLE_MS) ended.set(process, text);
      else idle.set(process, same);
    }
    this.idle = idle;
    if (texts.get(this.process) !== this.text || ended.size > 0) await this.write(false, ended);
  }

  private async write(now: boolean, ended: ReadonlyMap<string, string> = new Map()): Promise<void> {
    const { own } = this;
    if (!own || !this.remembered) return;
    this.texts += 1;
    this.text = `${this.texts} ${JSON.stringify(own)}`;
    const { process, texts: number, text } = this;
    await this.remembered.write({ process, number, text, now, ended });
  }
}

function dated(commit: Commit, atMs: number): Commit {
  return 'key' in commit && isComputed(commit.key) ? { ...commit, atMs } : commit;
}

const settledAt = ({ seenSettledAtMs = 0 }: Known) => seenSettledAtMs;

/** The opposite of what `LastCommits` writes. */
export function readCommits(text: string): ProcessCommits {
  return JSON.parse(text.slice(text.indexOf(' ') + 1));
}
