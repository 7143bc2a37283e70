import { keyOf } from './clients.js';
import { judgeAnswers, judgeInquiries } from './judge-answers.js';
import { TROUBLED_MS } from './plan.js';
import type { Issued } from './requests.js';
import type { Row } from './rows.js';
import { type PaymentHistory, setBackMs } from './run.js';
import { recordOf } from './stores.js';

/** What the database's clock may be taken for too early, and a begin be older than its step in the key store. */
const A_WAY_MS = 10;
/** What recovery may need after the trouble: its longest back-off, a round, and the messages of one attempt. */
const BACK_OFF_CAP_MS = 60_000;
const ROUND_MS = 3_000;
const ATTEMPT_MS = 10_000;
/** A charge that began before the trouble ended may be at work this long. */
const LONGEST_CHARGE_MS = 20_000;
/** A processor that deduplicates longer than any history: nobody needs an operator. */
const FOR_EVER_MS = 1_000_000;

/** Holds a history against every promise; one sentence for each that was broken. */
export function judgePayments(history: PaymentHistory): string[] {
  const { stores, processor, clients } = history;
  const violations = history.bugs.map((bug) => `a bug: ${bug}`);
  const issued = new Map(clients.issued.map((known) => [known.key, known]));
  for (const known of clients.issued) {
    violations.push(...judgeAnswers(known, history), ...judgeInquiries(known, history));
  }
  for (const row of stores.rows.byKey.values()) violations.push(...judgeRow(row, issued.get(row.key), history));
  for (const { reference } of processor.charges) {
    if (!stores.rows.byKey.has(reference)) violations.push(`${reference} was charged without a row`);
  }
  for (const [key, value] of stores.recordedOutcomes()) {
    const row = stores.rows.byKey.get(key);
    if (!row || row.state === 'PROCESSING' || recordOf(row) !== value) {
      violations.push(
        `${key}: its record says ${value}, its row ${row ? `${row.state} ${row.transactionId}` : 'nothing'}`,
      );
    }
  }
  return violations;
}

function judgeRow(row: Row, issued: Issued | undefined, history: PaymentHistory): string[] {
  const { plan, processor, troubles } = history;
  const { shape } = plan;
  const charges = processor.charges.filter(({ reference }) => reference === row.key);
  const violations: string[] = [];
  const complain = (text: string) => void violations.push(`${row.key}: ${text}`);

  if (charges.length > 1) complain(`charged ${charges.length} times`);
  for (const charge of charges) {
    if (charge.transactionId !== row.transactionId) {
      complain(`charged as ${charge.transactionId}, not ${row.transactionId}`);
    }
    if (charge.amount !== row.amount) complain(`charged ${charge.amount}, not ${row.amount}`);
  }
  if (row.state === 'COMPLETED' && charges.length === 0) complain('is COMPLETED and was not charged');
  if (row.state === 'DECLINED' && charges.some(({ sentAt }) => !troubles.isBehindAnOperatorsBack(row, sentAt))) {
    complain('is DECLINED and was charged');
  }
  const isLeftUnsent = mayBeLeftUnsent(row, history);
  if (row.finalAt === undefined) complain('is still PROCESSING long after everything was well');
  else if (shape.dedupMs > FOR_EVER_MS && !isLeftUnsent && row.finalAt > stuckUntil(history)) {
    complain(`was stuck until ${row.finalAt.toFixed(0)}`);
  }
  if (row.resolution !== undefined && (shape.dedupMs > FOR_EVER_MS || wasUnsent(row)) && !isLeftUnsent) {
    complain('an operator was let in too early');
  }

  const amounts = issued ? issued.asked.map(({ amount }) => amount) : plannedAmounts(row.key, history);
  if (!amounts.includes(row.amount)) complain(`nobody asked to pay ${row.amount}`);
  if (!troubles.clockWasMoved() && row.firstThereAt > history.stores.goodUntil(row.key) + A_WAY_MS) {
    complain('was claimed after its key had expired');
  }
  return violations;
}

/** The epoch before the last was given up with nothing ever sent. */
function wasUnsent({ unsentEpoch, epoch }: Row): boolean {
  return unsentEpoch === epoch - 1;
}

/** Recovery does not send it any more: a repeat or an operator decides (decisions P15). */
function mayBeLeftUnsent(row: Row, { plan, troubles }: PaymentHistory): boolean {
  const ageMs = (row.finalAt ?? 0) - row.firstThereAt;
  return wasUnsent(row) && (ageMs >= plan.shape.idempotencyTtlMs || troubles.clockWasMoved());
}

/** Of a key whose client never heard of it nothing is asked. */
function plannedAmounts(key: string, { plan }: PaymentHistory): string[] {
  return plan.scripts.filter(({ number }) => keyOf(number) === key).map(({ amount }) => amount);
}

/** By then recovery must have finished everything that can be finished. */
function stuckUntil({ plan }: PaymentHistory): number {
  const { leaseMs, processorTimeoutMs } = plan.shape;
  const leftOverMs = leaseMs + setBackMs(plan.troubles) + LONGEST_CHARGE_MS + 6 * processorTimeoutMs;
  return TROUBLED_MS + leftOverMs + BACK_OFF_CAP_MS + ROUND_MS + ATTEMPT_MS;
}
