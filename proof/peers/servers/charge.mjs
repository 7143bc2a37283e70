// The work of each of these servers for a payment, once its library permits it: one charge at the processor, with the client's key as
// reference. `receipt` is made anew each time this runs, so two receipts for one key are two runs.
import { randomUUID } from 'node:crypto';

const { PROCESSOR_URL, PROCESSOR_TIMEOUT_MS } = process.env;

/** The status for the payer and a body. 504 when nobody knows whether it was charged, 502 when the processor failed. */
export async function charge(key, { amount, currency }) {
  const receipt = randomUUID();
  try {
    const reply = await fetch(`${PROCESSOR_URL}/charges`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': key },
      // One id per key: the processor takes another one under the same reference for another charge.
      body: JSON.stringify({ transactionId: `TXN-${key}`, amount, currency }),
      signal: AbortSignal.timeout(Number(PROCESSOR_TIMEOUT_MS)),
    });
    const { status } = await reply.json();
    if (reply.ok) return { status: 200, body: { receipt, status, amount, currency } };
    if (reply.status === 402) return { status: 402, body: { receipt, status } };
    return { status: 502, body: { error: `the processor answered ${reply.status}` } };
  } catch {
    return { status: 504, body: { error: 'the processor did not answer' } };
  }
}
