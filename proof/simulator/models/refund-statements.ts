import { StatementRefused } from '#idempay/stores/postgres/connection/postgres.js';
import { areReferencesLookedUp } from './loss.js';
import {
  countSettled,
  type Fenced,
  fencedUpdate,
  NOT_OPEN,
  newest,
  noted,
  nthId,
  PAYMENT_STATEMENTS,
  recordColumnsOf,
  type StoredPayment,
  settled,
  settledPage,
} from './payment-statements.js';
import type { ModelledStatement, Statements, Tables, Values } from './postgres-server.js';
import { ageOfHour } from './retention-statements.js';

type ClaimRefund = [
  ...[key: string, transactionId: string, amount: string, currency: string, fingerprint: string, processor: string],
  ...[owner: string, leaseMs: number, claimBefore: number, payment: string, name: string, reason: string | null],
  ...[chargeId: string | null, units: number, charged: string, chargedUnits: number, processors: readonly string[]],
  lateMs: number | null,
];
type ExplainRefund = [
  ...[payment: string, charged: string, currency: string, processors: readonly string[], lateMs: number | null],
  chargedUnits: number,
];

/** The payment, if it is what the attempt says. */
function refundable({ payments }: Tables, key: string, charged: string, currency: string, processors: Values) {
  const row = payments.get(key);
  if (row?.state !== 'COMPLETED' || row.refund_of !== null || row.amount !== charged) return undefined;
  return row.currency === currency && processors.includes(row.processor) ? row : undefined;
}

const isInTime = ({ retention }: Tables, { settled_hour }: StoredPayment, lateMs: number | null) =>
  lateMs === null || (ageOfHour(retention, settled_hour) ?? Infinity) < lateMs;

/** Lowers the sum of the payment by the refund that has just ended, if that was declined. */
function lower({ payments }: Tables, key: string): void {
  const ended = payments.get(key);
  const payment = payments.get(ended?.refund_of ?? '');
  if (ended?.state !== 'DECLINED' || !payment) return;
  payments.set(payment.key, { ...payment, refunded: Number(payment.refunded) - Number(ended.refund_units) });
}

/** The fenced update has columns, and these statements are for one refund. */
const settleRefund = fencedUpdate((row, fenced, now, tables) => {
  const [, , , , , , , event] = fenced as unknown as (string | null)[];
  return { ...settled(row, fenced, now, tables), ...(event !== null && { events: noted(row, now, event) }) };
});

const settleOne: ModelledStatement = (tables, values: Fenced, ...how) => {
  const [row] = settleRefund(
    tables,
    values.map((value) => [value]),
    ...how,
  );
  if (!row) return [];
  lower(tables, values[0]);
  return [{ ...row, epoch: tables.payments.get(values[0])?.epoch }];
};

const isRefund = ({ refund_of }: StoredPayment) => refund_of !== null;

/** The statements of `refund-statements.ts`, and those of `payment-history-statements.ts` for refunds alone. */
export const REFUND_STATEMENTS: Statements = {
  claim_refund(tables, values: ClaimRefund, [now]) {
    const { payments, processors, loss } = tables;
    const [key, transaction_id, amount, currency, fingerprint, processor, owner, leaseMs, claimBefore, ...more] =
      values;
    const [refund_of, refund_name, refund_reason, refund_charge_id, refund_units, charged, chargedUnits, names] = more;
    const payment = refundable(tables, refund_of, charged, currency, names);
    const refunded = (payment?.refunded ?? 0) + refund_units;
    const isAllowed = now <= claimBefore && refunded <= chargedUnits && processors.includes(processor);
    if (!payment || !isAllowed || !isInTime(tables, payment, more[8])) return [];
    const isThere = payments.has(key) || [...payments.values()].some((row) => row.transaction_id === transaction_id);
    if (isThere) throw new StatementRefused('23505', new Error(`${key} or ${transaction_id} is there already`));
    const claimed_after_loss = areReferencesLookedUp(tables) || null;
    payments.set(refund_of, { ...payment, refunded });
    payments.set(key, {
      ...{ key, transaction_id, amount, currency, fingerprint, client: payment.client, processor, state: 'PROCESSING' },
      ...{ epoch: 1, owner, lease_until: now + leaseMs, recover_at: now + leaseMs, claimed_at: now },
      ...{ ...NOT_OPEN, generation: loss.generation, refund_of, refund_name, refund_reason, refund_charge_id },
      ...{ refund_units, reference: null, attempt: null, source: null, content: null, claimed_after_loss },
      ...{ unsent_epoch: null, reason: null, resolution: null, events: null },
      ...{ expires_at: null, settled_at: null, settled_hour: null },
    });
    return [{ key, client: payment.client, claimed_after_loss }];
  },

  explain_refund(tables, [key, charged, currency, processors, lateMs, chargedUnits]: ExplainRefund) {
    const payment = refundable(tables, key, charged, currency, processors);
    if (!payment) return [];
    return [{ inTime: isInTime(tables, payment, lateMs), leftUnits: chargedUnits - (payment.refunded ?? 0) }];
  },

  settle_refund: settleOne,

  settle_refund_after_loss(tables, values: Fenced, ...how) {
    const [key, , , , , , , , payment] = values;
    const [amount, fingerprint, refund_units] = values.slice(9) as [string, string, number];
    const before = tables.payments.get(key);
    const given = tables.payments.get(payment as string);
    const settled = settleOne(tables, values, ...how);
    const row = tables.payments.get(key);
    if (settled.length === 0 || !before || !given || !row) return settled;
    tables.payments.set(key, { ...row, amount, fingerprint, refund_units });
    const units = (row.state === 'DECLINED' ? 0 : refund_units) - Number(before.refund_units);
    tables.payments.set(given.key, { ...given, refunded: Number(given.refunded) + units });
    return settled;
  },

  resolve_refund(tables, values: [string, ...Values], ...how) {
    const resolved = (PAYMENT_STATEMENTS.resolve as ModelledStatement)(tables, values, ...how);
    if (resolved.length > 0) lower(tables, values[0]);
    return resolved;
  },

  refunds_of({ payments }, [payment, limit]: [string, number]) {
    return [...payments.values()]
      .filter(({ refund_of }) => refund_of === payment)
      .sort((one, other) => (one.transaction_id < other.transaction_id ? -1 : 1))
      .slice(-limit)
      .map(recordColumnsOf);
  },

  newest_refunds: newest(isRefund),
  nth_refund_id: nthId(isRefund),
  payments_of_reference_with_refunds: newest(
    (row, reference, tables) => row.reference === reference || isRefundOf(tables, row, reference),
  ),
  nth_refund_id_of_reference: nthId((row, reference, tables) => isRefundOf(tables, row, reference)),
  settled_refunds: settledPage(isRefund),
  count_settled_refunds: countSettled(isRefund),
};

const isRefundOf = ({ payments }: Tables, { refund_of }: StoredPayment, reference: unknown) =>
  refund_of !== null && payments.get(refund_of)?.reference === reference;
