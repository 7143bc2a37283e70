import { CHARGES } from '../../payments/history/charge.js';
import type { JsonSchema } from '../../platform/json-schema.js';
import { StoreStatistics, StoreStatus, StoreValue } from '../operations/key-value-store.js';
import { LiveSamplesSchema } from '../operations/live.js';
import { ReadinessSchema } from '../operations/probes.js';
import { SessionSchema } from '../operations/session.js';
import { SettlementPageSchema } from '../payments/list-settlements.js';
import { CurrencySchema, PaymentRequestSchema } from '../payments/pay.js';
import { PaymentTimelineSchema } from '../payments/payment-timeline.js';
import { ProcessorAnswerSchema } from '../payments/processor-answer.js';
import { RefundRequestSchema } from '../payments/refund-payment.js';
import { ResolutionSchema } from '../payments/resolve-payment.js';
import { PaymentSchema, PendingPaymentSchema } from '../payments/shown-payment.js';
import { StatusChangeSchema } from '../transactions/change-status.js';
import { CreatedTransactionsSchema, NewTransactionsSchema } from '../transactions/create-transactions.js';
import { NewTransactionSchema } from '../transactions/new-transaction.js';
import { FoundTransactionSchema } from '../transactions/search-transactions.js';
import { TransactionSchema, TransactionStatusSchema } from '../transactions/shown-transaction.js';
import { WebhookDetailsSchema, WebhookSchema } from '../webhooks/webhooks.js';
import { moment, whole } from './json-schema.js';

const Problem = whole(
  {
    status: { type: 'integer', description: 'The HTTP status code.' },
    error: { type: 'string', description: 'The HTTP reason phrase.' },
    message: { type: 'string', description: 'What happened, and what to do.' },
  },
  'Every error of the service has this body.',
);

const ProblemDetails = {
  type: 'object',
  description:
    'Every error of the service, for a request that prefers it with `Accept: application/problem+json` (RFC 9457).',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: {
      type: 'string',
      pattern: '^/problems#[a-z-]+$',
      description: 'What programs act on. The page `/problems` explains each; names never change.',
      examples: ['/problems#payment-in-progress'],
    },
    title: { type: 'string', description: 'What the type means.' },
    status: { type: 'integer', description: 'The HTTP status code.' },
    detail: { type: 'string', description: 'The `message` of `Problem`.' },
    charge: {
      type: 'string',
      enum: CHARGES,
      description:
        'For payments: whether the key was charged, or any attempt at the reference if one is named or the key is computed from one. `made`: it was. `none`: it is certain that nothing was, and nothing will be without another attempt. If absent, it is `unknown`.',
    },
    refund: {
      type: 'string',
      enum: CHARGES,
      description:
        'The same of a refund: whether the money was given back under this name. If absent, it is `unknown`.',
    },
    from: { ...moment, description: 'For the feed of settlements: the time to begin again from.' },
  },
  additionalProperties: false,
};

/** `components.schemas`: each stands next to the routes that have it. */
export const SCHEMAS = {
  Problem,
  ProblemDetails,
  Payment: PaymentSchema,
  PendingPayment: PendingPaymentSchema,
  PaymentTimeline: PaymentTimelineSchema,
  ProcessorAnswer: ProcessorAnswerSchema,
  SettlementPage: SettlementPageSchema,
  Currency: CurrencySchema,
  PaymentRequest: PaymentRequestSchema,
  RefundRequest: RefundRequestSchema,
  Resolution: ResolutionSchema,
  Transaction: TransactionSchema,
  FoundTransaction: FoundTransactionSchema,
  CreatedTransactions: CreatedTransactionsSchema,
  TransactionStatus: TransactionStatusSchema,
  NewTransaction: NewTransactionSchema,
  NewTransactions: NewTransactionsSchema,
  StatusChange: StatusChangeSchema,
  Webhook: WebhookSchema,
  WebhookDetails: WebhookDetailsSchema,
  Session: SessionSchema,
  StoreStatus,
  StoreValue,
  StoreStatistics,
  Readiness: ReadinessSchema,
  LiveSamples: LiveSamplesSchema,
} satisfies Record<string, JsonSchema>;
