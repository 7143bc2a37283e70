import { type Answer, transactionIdOf } from '../client/http-client.js';

const FIRST_TEXT = /^"Payment processed successfully with Transaction ID: TXN\d+"$/;
const REPEAT_TEXT = /^"Transaction ID: TXN\d+"$/;

/** What the clients know of one key that the service issued. */
export interface PaymentEntry {
  readonly key: string;
  /** The one transaction id that answers for this key have shown. */
  id?: string;
  /** A payment was sent with this key, whatever became of it. */
  asked: boolean;
  /** A payment was sent, and no answer has told its outcome: a cut connection, 503 or 504. */
  unresolved: boolean;
  /** Payments with this key that wait for their answer now. */
  inFlight: number;
  firstTexts: number;
}

/**
 * Every key and payment that the clients sent and what was answered, in memory. Each answer is held against all earlier
 * ones as it comes; what cannot be reconciled is a violation:
 *
 * 1. A key is issued once.
 * 2. A key shows one transaction id, in whatever answer, through every restart; no two keys show the same one.
 * 3. The first text is given once at most, and never once the id has been told (decision P13).
 * 4. The repeat text carries `Idempotent-Replayed: true`, the first text does not (decision P5).
 * 5. 409 is given only where another attempt can be at work.
 * 6. No other answer is given, but 503 and 504 where the test allows for them.
 */
export class PaymentJournal {
  readonly entries = new Map<string, PaymentEntry>();
  readonly #keyOfId = new Map<string, string>();

  constructor(
    readonly violations: string[],
    readonly mayBeUnavailable: () => boolean,
  ) {}

  issued(answer: Answer): PaymentEntry | undefined {
    if (answer.status !== 200) {
      this.#unexpected('generate-key', answer);
      return undefined;
    }
    const key = answer.json<string>();
    if (this.entries.has(key)) this.violations.push(`key ${key} was issued twice`);
    const entry = { key, asked: false, unresolved: false, inFlight: 0, firstTexts: 0 };
    this.entries.set(key, entry);
    return entry;
  }

  /** Sends one payment through the journal: `send` is asked once, and its answer or its failure is recorded. */
  async attempt(entry: PaymentEntry, send: () => Promise<Answer>): Promise<Answer> {
    const toldBefore = entry.id !== undefined;
    const aloneBefore = entry.inFlight === 0 && !entry.unresolved;
    entry.asked = true;
    entry.inFlight += 1;
    let answer: Answer;
    try {
      answer = await send();
    } catch (cause) {
      entry.unresolved = true;
      throw cause;
    } finally {
      entry.inFlight -= 1;
    }
    if (answer.status === 200) this.#told(entry, answer, toldBefore);
    else if (answer.status === 409) {
      // Another attempt may also have been sent after this one and have overtaken it.
      if (aloneBefore && entry.inFlight === 0 && entry.id === undefined && !entry.unresolved) {
        this.violations.push(`payment ${entry.key} was in progress with nobody at work on it`);
      }
      if (toldBefore) this.violations.push(`payment ${entry.key} was in progress after its outcome ${entry.id}`);
    } else {
      entry.unresolved = true;
      this.#unexpected(`payment ${entry.key}`, answer);
    }
    return answer;
  }

  /** An id seen elsewhere than in the answer to a payment: in payment-status or in the key's record. */
  sawId(entry: PaymentEntry, id: string | undefined, where: string): void {
    if (id === undefined) return void this.violations.push(`${where} shows no transaction id for ${entry.key}`);
    if (entry.id !== undefined && entry.id !== id) {
      this.violations.push(`key ${entry.key} shows two ids: ${entry.id} before, ${id} in ${where}`);
    }
    const owner = this.#keyOfId.get(id) ?? entry.key;
    if (owner !== entry.key) this.violations.push(`keys ${owner} and ${entry.key} both show ${id}`);
    this.#keyOfId.set(id, entry.key);
    entry.id ??= id;
    entry.unresolved = false;
  }

  /** Keys whose payment was sent and never answered with an outcome. */
  unresolved(): PaymentEntry[] {
    return [...this.entries.values()].filter((entry) => entry.unresolved);
  }

  /** Keys that no payment was ever sent with. */
  unused(): PaymentEntry[] {
    return [...this.entries.values()].filter((entry) => !entry.asked);
  }

  finished(): PaymentEntry[] {
    return [...this.entries.values()].filter((entry) => entry.id !== undefined);
  }

  #told(entry: PaymentEntry, answer: Answer, toldBefore: boolean): void {
    const first = FIRST_TEXT.test(answer.text);
    if (!first && !REPEAT_TEXT.test(answer.text)) this.violations.push(`payment ${entry.key} answered ${answer.text}`);
    if (first && toldBefore) this.violations.push(`payment ${entry.key} was told as first after its id was known`);
    if (first && ++entry.firstTexts > 1) this.violations.push(`payment ${entry.key} was told as first twice`);
    if ((answer.headers['idempotent-replayed'] === 'true') === first) {
      this.violations.push(`payment ${entry.key}: ${answer.text} with a wrong Idempotent-Replayed`);
    }
    this.sawId(entry, transactionIdOf(answer), 'the answer to a payment');
  }

  #unexpected(what: string, answer: Answer): void {
    if ((answer.status === 503 || answer.status === 504) && this.mayBeUnavailable()) return;
    this.violations.push(`${what} answered ${answer.status}: ${answer.text}`);
  }
}
