import { type History, LAST_PATIENCE_MS } from '../history/history.js';
import type { Random } from '../random.js';
import { patience } from '../time/patience.js';
import { PaymentClients } from './payment-clients.js';
import { TransactionClients } from './transaction-clients.js';

/** Several leases, back-offs and rounds of recovery on a busy machine: what has no outcome then is stuck. */
const FINISH_DEADLINE_MS = 60_000;
/** Outcomes that each process is asked for once more at the end; all are held against the charges. */
const REPEATED = 1_000;

export type Clients = Readonly<Record<'payments' | 'transactions', number>>;

export class Load {
  readonly payments: PaymentClients;
  readonly transactions: TransactionClients;

  constructor(
    readonly history: History,
    random: Random,
    /** False if the oldest running version does not support keys of creates. */
    { withKeysOfCreates = true, withOrders = false } = {},
  ) {
    this.payments = new PaymentClients(history, random.fork(), withOrders);
    this.transactions = new TransactionClients(history, random.fork(), withKeysOfCreates);
  }

  async during<T>({ payments, transactions }: Clients, work: () => Promise<T>): Promise<T> {
    const stop = new AbortController();
    const running = [this.payments.run(payments, stop.signal), this.transactions.run(transactions, stop.signal)];
    try {
      return await work();
    } finally {
      stop.abort();
      await Promise.all(running);
    }
  }

  /** With nothing in the way any more: every payment gets its outcome, and everything is read and repeated once more. */
  async finish(): Promise<void> {
    await this.payments.finish(FINISH_DEADLINE_MS);
    const { patienceMs } = this.history;
    this.history.patienceMs = patience(LAST_PATIENCE_MS);
    await this.transactions.readAll();
    await this.payments.repeat(REPEATED);
    this.history.patienceMs = patienceMs;
  }
}
