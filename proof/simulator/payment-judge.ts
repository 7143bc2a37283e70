import type { Row } from './ledger.js';
import { type Asked, describe, type Issued, type PaymentHistoryOfSeed } from './payment-world.js';

/** What a claim may come later than its key's end: the lease to which its begin lengthened the key's life, and one way. */
const GRACE_MS = 2_000;

/** Holds a history against every promise; one sentence for each that was broken. */
export function judgePayments(history: PaymentHistoryOfSeed): string[] {
  const violations = [...history.bugs.map((bug) => `a bug: ${bug}`)];
  const known = new Map(history.issued.map((issued) => [issued.key, issued]));
  for (const issued of history.issued) violations.push(...judgeAnswers(issued, history));
  for (const row of history.ledger.rows.values()) violations.push(...judgeRow(row, known.get(row.key), history));
  for (const { reference } of history.processor.charges) {
    if (!history.ledger.rows.has(reference)) violations.push(`${reference} was charged without a row`);
  }
  return violations;
}

function judgeRow(row: Row, issued: Issued | undefined, history: PaymentHistoryOfSeed): string[] {
  const { plan, processor } = history;
  const charges = processor.charges.filter(({ reference }) => reference === row.key);
  const violations: string[] = [];
  const complain = (text: string) => void violations.push(`${row.key}: ${text}`);

  if (charges.length > 1) complain(`charged ${charges.length} times`);
  for (const charge of charges) {
    if (charge.transactionId !== row.transactionId)
      complain(`charged as ${charge.transactionId}, not ${row.transactionId}`);
    if (charge.amount !== row.amount) complain(`charged ${charge.amount}, not ${row.amount}`);
  }
  if (row.state === 'COMPLETED' && charges.length === 0) complain('is COMPLETED and was not charged');
  if (row.state === 'DECLINED' && charges.length > 0) complain('is DECLINED and was charged');
  if (row.state === 'PROCESSING') {
    // Only where nothing may be sent again, and the processor knows nothing, is there nothing left to do but ask an operator.
    const mayBeSentAgain = plan.shape.dedupMs > 1_000_000;
    if (charges.length > 0) complain('was charged and is still PROCESSING');
    else if (mayBeSentAgain) complain('is still PROCESSING long after everything was well');
  }
  if (issued && !issued.asked.some(({ amount }) => amount === row.amount))
    complain(`nobody asked to pay ${row.amount}`);
  if (issued && history.forgot.length === 0) {
    const end = issued.issuedAt + plan.shape.idempotencyTtlMs + plan.shape.leaseMs + GRACE_MS;
    if (row.firstThereAt > end) complain('was claimed after its key had expired');
  }
  return violations;
}

function judgeAnswers(issued: Issued, history: PaymentHistoryOfSeed): string[] {
  const { key, asked } = issued;
  const row = history.ledger.rows.get(key);
  const violations: string[] = [];
  const complain = (text: string) => void violations.push(`${key}: ${text}`);

  let processed = 0;
  for (const { answer, sentAt } of asked) {
    if (answer === undefined) complain(`a request sent at ${sentAt.toFixed(0)} was never answered`);
    if (answer === undefined || typeof answer === 'string') continue;
    if (answer.state === 'processed') processed += 1;
    if (answer.state !== 'processed' && answer.state !== 'replayed') continue;
    const { outcome } = answer.final;
    if (!row || row.state !== outcome.state)
      complain(`answered ${describe(answer)}, and is ${row?.state ?? 'not there'}`);
    else if (outcome.state === 'COMPLETED' && outcome.transactionId !== row.transactionId) {
      complain(`answered ${describe(answer)}, and is ${row.transactionId}`);
    }
  }
  if (processed > 1) complain(`${processed} answers say that theirs was the first`);
  for (const request of asked)
    if (isWronglyInvalid(request, issued, history)) complain('was called invalid while it was good');
  return violations;
}

/** A key is good while its payment is known, and before that until it expires, unless the key store forgot it. */
function isWronglyInvalid(request: Asked, issued: Issued, history: PaymentHistoryOfSeed): boolean {
  if (typeof request.answer !== 'object' || request.answer.state !== 'invalid key') return false;
  const row = history.ledger.rows.get(issued.key);
  const answeredAt = request.answeredAt ?? 0;
  const { idempotencyTtlMs } = history.plan.shape;
  const clockMoved = history.plan.troubles.some(({ kind }) => kind === 'clock');
  if (request.knownAtSend) {
    const expired = row?.expiresAt !== undefined && (clockMoved || row.expiresAt <= answeredAt);
    return !expired;
  }
  const forgotten = history.forgot.some((at) => at >= issued.issuedAt - 5_000 && at <= answeredAt);
  return !forgotten && answeredAt < issued.issuedAt + idempotencyTtlMs - GRACE_MS;
}
