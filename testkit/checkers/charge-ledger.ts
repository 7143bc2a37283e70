import { exportDay, listPayments, type ShownPayment } from '../client/payment-records.js';
import { DECLINED, type KeyEntry } from '../history/kill-journal.js';
import type { ChargeLine } from '../processes/reference-processor.js';

const PAGE = 500;
const DAY_MS = 86_400_000;
const STATE_OF = { succeeded: 'COMPLETED', declined: 'DECLINED' } as const;

/** Every payment of a service, through all pages of the list. */
export async function allPayments(url: string): Promise<ShownPayment[]> {
  const found: ShownPayment[] = [];
  let target: string | undefined = `?limit=${PAGE}`;
  while (target !== undefined) {
    const { payments, next } = await listPayments(url, target);
    found.push(...payments);
    target = next;
  }
  return found;
}

/** Every payment that was settled on the days from one moment to another, both in milliseconds since the epoch. */
export async function exportedPayments(url: string, from: number, to: number): Promise<ShownPayment[]> {
  const found: ShownPayment[] = [];
  for (let day = from - (from % DAY_MS); day <= to; day += DAY_MS) {
    found.push(...(await exportDay(url, new Date(day).toISOString().slice(0, 10))));
  }
  return found;
}

/**
 * Holds what the clients were told and what the service shows against what was charged: one sentence for each difference.
 * Every payment must have an outcome by now.
 */
export function judgeLedger(found: {
  charges: readonly ChargeLine[];
  payments: readonly ShownPayment[];
  exported: readonly ShownPayment[];
  entries: ReadonlyMap<string, KeyEntry>;
}): string[] {
  const { charges, payments, exported, entries } = found;
  const problems: string[] = [];
  const shown = byKey(payments, (payment) => payment.idempotencyKey, 'the list shows twice', problems);
  const charged = byKey(charges, (line) => line.reference, 'CHARGED TWICE:', problems);
  const settled = byKey(exported, (payment) => payment.idempotencyKey, 'the export shows twice', problems);

  for (const key of new Set([...entries.keys(), ...shown.keys(), ...charged.keys(), ...settled.keys()])) {
    const entry = entries.get(key);
    const payment = shown.get(key);
    const charge = charged.get(key);
    for (const problem of problemsOf(entry, payment, charge)) problems.push(`${key}: ${problem}`);
    if (JSON.stringify(payment) !== JSON.stringify(settled.get(key))) {
      problems.push(`${key}: the export shows ${JSON.stringify(settled.get(key))}, not ${JSON.stringify(payment)}`);
    }
  }
  return problems;
}

function* problemsOf(
  entry: KeyEntry | undefined,
  payment: ShownPayment | undefined,
  charge: ChargeLine | undefined,
): Generator<string> {
  if (!entry) return yield 'nobody was issued this key';
  if (!payment)
    return yield `no payment is shown; its outcome was ${entry.outcome}, its charge ${JSON.stringify(charge)}`;
  if (!charge) return yield `nothing was charged for ${JSON.stringify(payment)}`;

  const { state, transactionId } = payment;
  if (state !== STATE_OF[charge.status]) yield `the charge ${charge.status}, the payment is ${state}`;
  if (transactionId !== charge.transactionId) yield `charged as ${charge.transactionId}, kept as ${transactionId}`;
  const money = moneyOf(entry);
  if (moneyOf(charge) !== money) yield `charged ${moneyOf(charge)} instead of ${money}`;
  if (moneyOf(payment) !== money) yield `kept as ${moneyOf(payment)} instead of ${money}`;
  if (payment.reason !== (charge.status === 'declined' ? charge.reason : null)) yield `kept reason ${payment.reason}`;
  if (payment.resolution !== null) yield `resolved by nobody: ${payment.resolution}`;
  const outcome = charge.status === 'succeeded' ? charge.transactionId : DECLINED;
  if (entry.outcome !== outcome) yield `the clients were told ${entry.outcome}, the charge says ${outcome}`;
}

function moneyOf({ amount, currency }: { amount: string | null; currency: string | null }): string {
  return `${amount} ${currency}`;
}

function byKey<T>(items: readonly T[], keyOf: (item: T) => string, words: string, problems: string[]): Map<string, T> {
  const found = new Map<string, T>();
  for (const item of items) {
    const key = keyOf(item);
    const earlier = found.get(key);
    if (earlier) problems.push(`${words} ${JSON.stringify(earlier)} and ${JSON.stringify(item)}`);
    found.set(key, item);
  }
  return found;
}
