export type { Clock } from './clock.js';
export * from './errors.js';
export type { CallOptions } from './http/call.js';
export type { PagedList } from './http/pages.js';
export { Idempay } from './idempay.js';
export type { CancelledReference, CancelResult, CancelTarget } from './payments/cancel.js';
export { isSamePayment, type PaidMoney } from './payments/money.js';
export type {
  KeyOptions,
  PaidResult,
  PayOptions,
  PayResult,
  PendingResult,
  PresentPayResult,
  ReferenceOptions,
} from './payments/pay.js';
export type { PaymentFilter, PaymentKind, PaymentList } from './payments/payment-records.js';
export type { Payments } from './payments/payments.js';
export type { OperatedReference, PaymentReference } from './payments/references.js';
export type {
  PendingRefundResult,
  RefundedKey,
  RefundedReference,
  RefundedResult,
  RefundRequest,
  RefundResult,
} from './payments/refund.js';
export type * from './representations.js';
export type { Fetch, IdempayOptions, TokenSource } from './settings.js';
export type { SettlementFilter, SettlementPage, Settlements } from './settlements/settlements.js';
export type {
  ChangeOptions,
  CreateBatchResult,
  CreateOptions,
  CreateResult,
  Target,
  TransactionFilter,
  TransactionSearchFilter,
  Transactions,
} from './transactions/transactions.js';
export { verifyWebhook, type WebhookEvent, type WebhookHeaders } from './verify-webhook.js';
export type { Webhooks } from './webhooks/webhooks.js';
