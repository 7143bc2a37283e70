import { expect } from 'vitest';
import { PaymentJournal } from './payment-journal.js';
import { TransactionJournal } from './transaction-journal.js';

/** What all clients of one test sent and were answered, kept across every restart of the service. */
export class LoadJournal {
  /** One sentence for each answer that breaks a promise; a test ends by asserting that there is none. */
  readonly violations: string[] = [];
  /** Set while the test has taken something away from the service, so that 503 is a right answer, and its end too. */
  mayBeUnavailable = false;
  readonly payments = new PaymentJournal(this.violations, () => this.mayBeUnavailable);
  readonly transactions = new TransactionJournal(this.violations, () => this.mayBeUnavailable);

  /** One failure can break hundreds of promises: the first few of them tell which. */
  expectNoViolations(when = 'at the end'): void {
    const { length } = this.violations;
    expect(this.violations.slice(0, 20), `${length} violations ${when}, the first of them`).toEqual([]);
  }

  summary(): string {
    const { payments, transactions } = this;
    return (
      `${payments.entries.size} keys, ${payments.finished().length} payments, ` +
      `${transactions.entries.size} transactions, ${transactions.deleted().length} of them deleted`
    );
  }
}
