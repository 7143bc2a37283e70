import { expect } from 'vitest';
import { type Answer, transactionIdOf } from '../client/http-client.js';
import { IN_PROGRESS } from '../client/payment-answers.js';

const FIRST_TEXT = /^"Payment processed successfully with Transaction ID: TXN\d+"$/;
const REPEAT_TEXT = /^"Transaction ID: TXN\d+"$/;
const DECLINED_MESSAGE = 'Payment declined: insufficient funds';

/** What stands for a decline where a transaction id stands for a completed payment. */
export const DECLINED = 'declined';

/** What the clients know of one key that the service issued, and of the one payment that they make with it. */
export interface KeyEntry {
  readonly key: string;
  readonly amount: string;
  readonly currency: string;
  /** What the answers have told: a transaction id, or that it was declined. */
  outcome?: string;
  /** Outcomes that were told as new, not as repeated. */
  firsts: number;
  inFlight: number;
  /** A connection broke before the answer. */
  cut: boolean;
  /** Told with 504 that its outcome is not known. */
  unknown: boolean;
}

/**
 * Every key and every answer, kept through all kills. Each answer is held against the earlier ones of its key as it comes:
 *
 * 1. A key is issued once, and never refused as invalid.
 * 2. All outcomes of one key are the same: one transaction id, or declined; and no two keys show one transaction id.
 * 3. One answer at most tells it as new, none after it was told, and all others carry `Idempotent-Replayed: true`.
 * 4. Once the outcome was told, nobody is told that it is in progress or unknown.
 * 5. A connection breaks only where its process was killed.
 */
export class KillJournal {
  readonly entries = new Map<string, KeyEntry>();
  readonly violations: string[] = [];
  readonly #keyOfId = new Map<string, string>();
  /** How many answers had each status. */
  readonly #answers: Record<number, number> = {};

  /** `money` is what will be paid with this key. */
  issued(answer: Answer, money: { amount: string; currency: string }): KeyEntry | undefined {
    if (answer.status !== 200) {
      if (answer.status !== 503) this.violations.push(`generate-key: ${answer.status} ${answer.text}`);
      return undefined;
    }
    const key = answer.json<string>();
    if (this.entries.has(key)) this.violations.push(`key ${key} was issued twice`);
    const entry: KeyEntry = { key, ...money, firsts: 0, inFlight: 0, cut: false, unknown: false };
    this.entries.set(key, entry);
    return entry;
  }

  /** Sends one payment and records its answer; undefined when the connection broke, which `mayBeCut` must allow. */
  async attempt(entry: KeyEntry, send: () => Promise<Answer>, mayBeCut: () => boolean): Promise<Answer | undefined> {
    const told = entry.outcome;
    entry.inFlight += 1;
    const answer = await send().catch((fault: NodeJS.ErrnoException) => {
      // Refused is not cut: nobody has heard of that request.
      if (fault.code !== 'ECONNREFUSED') entry.cut = true;
      if (!mayBeCut()) this.violations.push(`${entry.key}: cut off by a living process: ${fault.message}`);
      return undefined;
    });
    entry.inFlight -= 1;
    if (answer) this.#answered(entry, answer, told);
    return answer;
  }

  /** Keys that somebody waits for an answer of. */
  inFlight(): number {
    return [...this.entries.values()].filter(({ inFlight }) => inFlight > 0).length;
  }

  figures(): Readonly<Record<'keys' | 'declined' | 'cut' | 'unknown', number>> & { readonly answers: object } {
    const entries = [...this.entries.values()];
    const count = (is: (entry: KeyEntry) => boolean) => entries.filter(is).length;
    return {
      keys: entries.length,
      declined: count(({ outcome }) => outcome === DECLINED),
      cut: count(({ cut }) => cut),
      unknown: count(({ unknown }) => unknown),
      answers: this.#answers,
    };
  }

  withoutOutcome(): KeyEntry[] {
    return [...this.entries.values()].filter(({ outcome }) => outcome === undefined);
  }

  /** One failure can break hundreds of promises: the first few of them tell which. */
  expectNoViolations(when: string): void {
    const { length } = this.violations;
    expect(this.violations.slice(0, 20), `${length} violations ${when}, the first of them`).toEqual([]);
  }

  #answered(entry: KeyEntry, answer: Answer, told: string | undefined): void {
    this.#answers[answer.status] = (this.#answers[answer.status] ?? 0) + 1;
    switch (answer.status) {
      case 200:
      case 402:
        this.#outcome(entry, answer, told);
        break;
      case 409:
        if (!answer.text.includes(IN_PROGRESS)) this.#wrong(entry, answer, 'with another sentence');
        if (told !== undefined) this.#wrong(entry, answer, `after its outcome ${told}`);
        break;
      case 503:
        // Also after the outcome was told: a process that wakes up has missed the deadlines of its stores.
        break;
      case 504:
        entry.unknown = true;
        if (told !== undefined) this.#wrong(entry, answer, `after its outcome ${told}`);
        break;
      default:
        this.#wrong(entry, answer, 'which nothing here can cause');
    }
  }

  #outcome(entry: KeyEntry, answer: Answer, told: string | undefined): void {
    const replayed = answer.headers['idempotent-replayed'] === 'true';
    const outcome = answer.status === 402 ? DECLINED : transactionIdOf(answer);
    const asItShould =
      answer.status === 402
        ? answer.json<{ message: string }>().message === DECLINED_MESSAGE
        : (replayed ? REPEAT_TEXT : FIRST_TEXT).test(answer.text);
    if (!asItShould || outcome === undefined) {
      this.#wrong(entry, answer, `replayed: ${replayed}`);
      return;
    }

    if (!replayed && told !== undefined) this.#wrong(entry, answer, 'as new after it was told');
    if (!replayed && ++entry.firsts > 1) this.#wrong(entry, answer, 'as new twice');
    entry.outcome ??= outcome;
    if (entry.outcome !== outcome) this.#wrong(entry, answer, `after ${entry.outcome}`);
    if (outcome === DECLINED) return;
    const owner = this.#keyOfId.get(outcome) ?? entry.key;
    if (owner !== entry.key) this.#wrong(entry, answer, `which is the id of ${owner}`);
    this.#keyOfId.set(outcome, entry.key);
  }

  #wrong(entry: KeyEntry, answer: Answer, why: string): void {
    this.violations.push(`${entry.key}: ${answer.status} ${answer.text} ${why}`);
  }
}
