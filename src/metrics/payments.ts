import type { PaymentCounts } from '../payments/payment-counts.js';
import type { Backlog, PendingBacklog } from '../payments/ports/ledger.js';
import type { SettlementFeed } from '../payments/settlement-feed.js';
import { type Exposition, readingsOf } from './exposition.js';

/** Payments besides the answers: settled ones by their origin, payments under way, and payments that wait for recovery. */
export function showPayments(exposition: Exposition, counts: PaymentCounts): void {
  exposition.counter(
    'idempay_payments_settled_total',
    'Payments that this process settled, by who did it: a first claim, a repeat, recovery, an operator, or a cancellation.',
    () => readingsOf('by', counts.settled),
  );
  exposition.counter('idempay_refunds_settled_total', 'Refunds that this process settled, by their outcome.', () =>
    readingsOf('outcome', counts.refunds),
  );
  exposition.counter(
    'idempay_payment_attempts_fenced_off_total',
    'Attempts that found, at their end, that another attempt had taken their payment over.',
    () => [[{}, counts.fencedOff]],
  );
  exposition.counter(
    'idempay_payment_contradictions_total',
    'Payments and refunds that are final with another outcome than the processor tells: each needs a person, and the log names it.',
    () => [[{}, counts.contradictions]],
  );
  exposition.counter(
    'idempay_lease_renewals_total',
    'Renewals of leases; failed: the store did not take it; fenced_off: the payment was taken over, or ended meanwhile.',
    () => readingsOf('result', counts.renewals),
  );
  exposition.gauge('idempay_payment_attempts_in_flight', 'Attempts under way now, of requests and of recovery.', () => [
    [{ origin: 'request' }, counts.attemptsOfRequests],
    [{ origin: 'recovery' }, counts.attemptsOfRecovery],
  ]);
  exposition.gauge('idempay_payment_waiters', 'Requests that wait for another attempt now.', () => [
    [{}, counts.waiters],
  ]);
}

/** Nothing until it was seen once. It counts the whole deployment, so each of its processes shows the same. */
export function showBacklog(exposition: Exposition, latest: () => Backlog | undefined): void {
  exposition.gauge(
    'idempay_recovery_backlog_payments',
    'Payments that are PROCESSING although no attempt is at work on them, of the 5,000 oldest unfinished ones; every process shows those of the whole deployment, so use max and not sum.',
    () => {
      const backlog = latest();
      return backlog ? [[{}, backlog.payments]] : [];
    },
  );
  exposition.gauge(
    'idempay_recovery_oldest_unknown_seconds',
    'Since the first claim of the oldest payment of the backlog; 0 where there is none.',
    () => {
      const backlog = latest();
      return backlog ? [[{}, backlog.oldestMs / 1000]] : [];
    },
  );
}

/** Payments that wait at the processor are in none of the numbers above, because no person has to act. */
export function showPending(exposition: Exposition, latest: () => PendingBacklog | undefined): void {
  const shown = (of: (backlog: PendingBacklog) => number) => () => {
    const backlog = latest();
    return backlog ? ([[{}, of(backlog)]] as const) : [];
  };
  exposition.gauge(
    'idempay_payments_pending',
    'Payments that wait at the processor, for their payer or for a bank, of the 5,000 oldest; every process shows those of the whole deployment, so use max and not sum.',
    shown(({ payments }) => payments),
  );
  exposition.gauge(
    'idempay_payments_pending_oldest_seconds',
    'Since the first claim of the oldest pending payment; 0 where there is none.',
    shown(({ oldestMs }) => oldestMs / 1000),
  );
  exposition.gauge(
    'idempay_payments_pending_past_until',
    'Of the pending payments, those whose end the processor expected before now: if they stay, look at the processor.',
    shown(({ pastUntil }) => pastUntil),
  );
}

/** Readers of the feed of settlements in this process, and how old the bound is up to which they read. */
export function showFeed(
  exposition: Exposition,
  counts: Pick<PaymentCounts, 'feedReaders'>,
  feed: Pick<SettlementFeed, 'behindMs'>,
): void {
  exposition.gauge('idempay_settlement_readers', 'Requests that wait for a settlement now.', () => [
    [{}, counts.feedReaders],
  ]);
  exposition.gauge(
    'idempay_settlements_behind_seconds',
    'Since the time up to which settlements are shown was moved last. If it grows, a commit waits for its standby, or somebody else has changed payments and not committed; absent while nobody waits.',
    () => {
      const behindMs = feed.behindMs();
      return behindMs === undefined ? [] : [[{}, behindMs / 1000]];
    },
  );
}
