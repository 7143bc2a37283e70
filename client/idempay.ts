import { createChanges } from './http/changes.js';
import { createRequests } from './http/requests.js';
import { createTransport } from './http/transport.js';
import { createPayments, type Payments } from './payments/payments.js';
import { type IdempayOptions, readSettings } from './settings.js';
import { createSettlements, type Settlements } from './settlements/settlements.js';
import { createTransactions, type Transactions } from './transactions/transactions.js';
import { createWebhooks, type Webhooks } from './webhooks/webhooks.js';

/** A client of one service. It holds no connections of its own, and needs no closing. */
export class Idempay {
  readonly payments: Payments;
  readonly settlements: Settlements;
  readonly transactions: Transactions;
  /** For operators. */
  readonly webhooks: Webhooks;

  /** Throws an InvalidRequestError that names the option that is wrong. */
  constructor(options: IdempayOptions) {
    const settings = readSettings(options);
    const transport = createTransport(settings);
    const requests = createRequests(transport, settings);
    const change = createChanges(settings, transport, requests);
    this.payments = createPayments(settings, transport, requests, change);
    this.settlements = createSettlements(settings, requests);
    this.transactions = createTransactions(settings, requests, change);
    this.webhooks = createWebhooks(requests, change);
  }
}
