import type { LoadJournal } from '../history/load-journal.js';
import type { PaymentEntry } from '../history/payment-journal.js';
import { DELETE, type TransactionEntry } from '../history/transaction-journal.js';
import type { Random } from '../random.js';
import { ask, pay } from './http-client.js';
import {
  changeStatus,
  deleteTransaction,
  FINAL_STATUSES,
  MOVABLE_STATUSES,
  postTransaction,
  readTransaction,
  type Transaction,
} from './transactions.js';

/** The body of every payment: the same again in a repeat. */
export const PAYMENT = { amount: '12.50', currency: 'EUR' };

/** Clients that go on, each with its own keys and transactions, wherever the service is restarted. */
export class LoadClients {
  readonly #clients: LoadClient[];

  constructor(
    count: number,
    readonly journal: LoadJournal,
    random: Random,
  ) {
    this.#clients = Array.from({ length: count }, () => new LoadClient(journal, random.fork()));
  }

  /** Resolves when `stop` has been aborted and every client has seen the end of its last request. */
  async run(url: string, stop: AbortSignal): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.run(url, stop)));
  }
}

/** One client: it sends one request after the other, so that a transaction has at most one change in flight. */
class LoadClient {
  #url = '';
  readonly #fresh: PaymentEntry[] = [];
  readonly #paid: PaymentEntry[] = [];
  #transactions: TransactionEntry[] = [];

  constructor(
    readonly journal: LoadJournal,
    readonly random: Random,
  ) {}

  async run(url: string, stop: AbortSignal): Promise<void> {
    this.#url = url;
    while (!stop.aborted) {
      try {
        await this.#step();
      } catch (cause) {
        if (stop.aborted || this.journal.mayBeUnavailable) return;
        this.journal.violations.push(`a connection was cut while the service was up: ${cause}`);
        return;
      }
    }
  }

  #step(): Promise<unknown> {
    const roll = this.random.below(100);
    // More keys are asked for than are paid with, so that a kill also finds keys that wait for their payment.
    if (roll < 32) return this.#generateKey();
    if (roll < 52) return this.#payFirst(1);
    if (roll < 58) return this.#payFirst(2);
    if (roll < 66) return this.#payAgain();
    if (roll < 80) return this.#create();
    if (roll < 91) return this.#changeStatus();
    if (roll < 96) return this.#remove();
    return this.#read();
  }

  async #generateKey(): Promise<void> {
    const { payments } = this.journal;
    const entry = payments.issued(await ask(`${this.#url}/api/server-generated/generate-key`));
    if (entry) this.#fresh.push(entry);
  }

  /** Sends the payment of a key that was never used, `times` over at the same moment. */
  async #payFirst(times: number): Promise<void> {
    const entry = this.#fresh.shift();
    if (!entry) return this.#generateKey();
    this.#paid.push(entry);
    const attempts = Array.from({ length: times }, () => this.#pay(entry));
    // Every attempt is seen to its end, so that none is still under way when this step throws.
    const failed = (await Promise.allSettled(attempts)).find((outcome) => outcome.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #payAgain(): Promise<void> {
    if (this.#paid.length > 0) await this.#pay(this.random.pick(this.#paid));
  }

  #pay(entry: PaymentEntry) {
    return this.journal.payments.attempt(entry, () => pay(this.#url, entry.key, PAYMENT));
  }

  async #create(): Promise<void> {
    const { transactions } = this.journal;
    const draft = transactions.draft((1 + this.random.below(1_000_000)) / 100);
    const { fromAccount, toAccount, amount } = draft;
    const answer = await postTransaction(this.#url, { fromAccount, toAccount, amount });
    const entry = transactions.created(draft, answer);
    if (entry) this.#transactions.push(entry);
  }

  async #changeStatus(): Promise<void> {
    const entry = await this.#pickSettled();
    if (!entry || FINAL_STATUSES.includes(entry.seen.status)) return;
    const status = this.random.pick(this.random.below(10) === 0 ? FINAL_STATUSES : MOVABLE_STATUSES);
    const id = entry.seen.transactionId;
    await this.journal.transactions.change(entry, status, () => changeStatus(this.#url, id, status));
  }

  async #remove(): Promise<void> {
    const entry = await this.#pickSettled();
    if (!entry) return;
    const id = entry.seen.transactionId;
    await this.journal.transactions.change(entry, DELETE, () => deleteTransaction(this.#url, id));
  }

  /** A read right after the own writes: it must show the last of them, from the cache or not. */
  async #read(): Promise<void> {
    const entry = await this.#pickSettled();
    if (entry) await readInto(this.journal, this.#url, entry);
  }

  /** A transaction of this client that is there; a change of it whose outcome is not known is looked up first. */
  async #pickSettled(): Promise<TransactionEntry | undefined> {
    if (this.#transactions.length === 0) return undefined;
    const entry = this.random.pick(this.#transactions);
    if (entry.pending !== undefined) await readInto(this.journal, this.#url, entry);
    if (!entry.gone) return entry;
    this.#transactions = this.#transactions.filter((other) => other !== entry);
    return undefined;
  }
}

/** Reads one transaction and holds what comes against the journal. */
export async function readInto(journal: LoadJournal, url: string, entry: TransactionEntry): Promise<void> {
  const id = entry.seen.transactionId;
  const answer = await readTransaction(url, id);
  if (answer.status === 200) return journal.transactions.showed(entry, answer.json<Transaction>());
  const missing = answer.status === 404 && answer.text.includes(`Transaction not found for id: ${id}`);
  if (missing) return journal.transactions.showed(entry, undefined);
  journal.violations.push(`a read of transaction ${id} answered ${answer.status}: ${answer.text}`);
}
