import { DECLINED } from '#idempay/payments/values/payment.js';
import { setBackMs } from '../fault-plan.js';
import { checkAnswers, checkInquiries } from './answer-checker.js';
import type { ObservedPayment } from './observed-payments.js';
import { FAULTS_END_MS } from './plan.js';
import type { Issued } from './requests.js';
import type { PaymentHistory } from './run.js';

/** What the database's clock may be taken for too early, and a begin be older than its step in the key store. */
const TRANSIT_MS = 10;
/** What recovery may need after the faults: its longest back-off, a round, and the messages of one attempt. */
const BACK_OFF_CAP_MS = 60_000;
const ROUND_MS = 3_000;
const ATTEMPT_MS = 10_000;
/** A charge that began before the faults ended may be at work this long. */
const LONGEST_CHARGE_MS = 20_000;
/** A processor that deduplicates longer than any history: nobody needs an operator. */
const FOR_EVER_MS = 1_000_000;

/** Holds a history against every promise; one sentence for each that was broken. */
export function checkPayments(history: PaymentHistory): string[] {
  const { stores, processor, clients } = history;
  const violations = history.bugs.map((bug) => `a bug: ${bug}`);
  const issued = new Map(clients.issued.map((known) => [known.key, known]));
  for (const known of clients.issued) {
    violations.push(...checkAnswers(known, history), ...checkInquiries(known, history));
  }
  const { byKey, removed } = stores.payments;
  const rows = [...byKey.values(), ...[...removed.values()].map(({ row }) => row)];
  for (const row of rows) violations.push(...checkRow(row, issued.get(row.key), history));
  for (const [key, { row, at }] of removed) {
    const keptMs = at - (row.finalAt ?? at);
    if (keptMs < (history.plan.shape.retentionMs ?? Infinity))
      violations.push(`${key}: was removed after ${keptMs} ms`);
  }
  for (const { reference } of processor.charges) {
    if (!stores.payments.rowOf(reference)) violations.push(`${reference} was charged without a row`);
  }
  for (const [key, value] of stores.recordedOutcomes()) {
    const row = stores.payments.rowOf(key);
    if (!row || row.state === 'PROCESSING' || (row.state === 'DECLINED' ? DECLINED : row.transaction_id) !== value) {
      violations.push(
        `${key}: its record says ${value}, its row ${row ? `${row.state} ${row.transaction_id}` : 'nothing'}`,
      );
    }
  }
  return violations;
}

function checkRow(row: ObservedPayment, issued: Issued | undefined, history: PaymentHistory): string[] {
  const { plan, processor, faults, operator } = history;
  const { shape } = plan;
  const charges = processor.charges.filter(({ reference }) => reference === row.key);
  const violations: string[] = [];
  const complain = (text: string) => void violations.push(`${row.key}: ${text}`);

  if (charges.length > 1) complain(`charged ${charges.length} times`);
  for (const charge of charges) {
    if (charge.transactionId !== row.transaction_id) {
      complain(`charged as ${charge.transactionId}, not ${row.transaction_id}`);
    }
    if (charge.amount !== row.amount) complain(`charged ${charge.amount}, not ${row.amount}`);
  }
  if (row.state === 'COMPLETED' && charges.length === 0) complain('is COMPLETED and was not charged');
  if (row.state === 'DECLINED' && charges.some(({ sentAt }) => !operator.couldNotKnow(row, sentAt, faults))) {
    complain('is DECLINED and was charged');
  }
  const isLeftUnsent = mayBeLeftUnsent(row, history);
  if (row.finalAt === undefined) complain('is still PROCESSING long after everything was well');
  else if (shape.dedupMs > FOR_EVER_MS && !isLeftUnsent && row.finalAt > stuckUntil(history)) {
    complain(`was stuck until ${row.finalAt.toFixed(0)}`);
  }
  if (row.resolution !== null && (shape.dedupMs > FOR_EVER_MS || wasUnsent(row)) && !isLeftUnsent) {
    complain('an operator was let in too early');
  }

  const amounts = issued ? issued.asked.map(({ amount }) => amount) : plannedAmounts(row.key, history);
  if (!amounts.includes(row.amount)) complain(`nobody asked to pay ${row.amount}`);
  if (!faults.clockWasMoved() && row.firstThereAt > (history.stores.goodUntil.get(row.key) ?? 0) + TRANSIT_MS) {
    complain('was claimed after its key had expired');
  }
  return violations;
}

/** The epoch before the last was given up with nothing ever sent. */
function wasUnsent({ unsent_epoch, epoch }: ObservedPayment): boolean {
  return unsent_epoch === epoch - 1;
}

/** Recovery does not send it any more: a repeat or an operator decides (decisions P15). */
function mayBeLeftUnsent(row: ObservedPayment, { plan, faults }: PaymentHistory): boolean {
  const ageMs = (row.finalAt ?? 0) - row.firstThereAt;
  return wasUnsent(row) && (ageMs >= plan.shape.idempotencyTtlMs || faults.clockWasMoved());
}

/** Of a key whose client never heard of it nothing is asked. */
function plannedAmounts(key: string, { plan }: PaymentHistory): string[] {
  return plan.scripts.filter(({ number }) => `k${number}` === key).map(({ amount }) => amount);
}

/** By then recovery must have finished everything that can be finished. */
function stuckUntil({ plan }: PaymentHistory): number {
  const { leaseMs, processorTimeoutMs } = plan.shape;
  const leftOverMs = leaseMs + setBackMs(plan) + LONGEST_CHARGE_MS + 6 * processorTimeoutMs;
  return FAULTS_END_MS + leftOverMs + BACK_OFF_CAP_MS + ROUND_MS + ATTEMPT_MS;
}
