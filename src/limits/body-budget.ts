/** How many bytes of bodies a process keeps at once. */
export interface BodyBudgetSizes {
  /** For bodies of payments, and for nothing else. */
  readonly paymentBytes: number;
  /** For all other bodies, and for payments beyond their own part. */
  readonly otherBytes: number;
  /** What one client may have of the second. */
  readonly clientBytes: number;
}

/** The longest body of a payment is 16 KiB: a thousand of them. */
const PAYMENT_BYTES = 1_000 * 16 * 1024;
/** Thirty-two batches of the longest kind. What is read out of a body may take five times as much, and all of it must fit next to the rest into 512 MB. */
const OTHER_BYTES = 32 * 1024 * 1024;
const LONGEST_BODY_BYTES = 1024 * 1024;

export const BODY_BUDGET: BodyBudgetSizes = {
  paymentBytes: PAYMENT_BYTES,
  otherBytes: OTHER_BYTES,
  clientBytes: Math.max(OTHER_BYTES / 8, LONGEST_BODY_BYTES),
};

/**
 * Bounds the bytes of bodies that have arrived and whose requests are not answered yet, over the process (rule A6). Bytes that were only
 * announced do not count: they cost nothing. Payments have a part of their own, so that no other body keeps a payment out.
 */
export class BodyBudget {
  private paymentsHold = 0;
  private othersHold = 0;
  private readonly clientsHold = new Map<string, number>();

  constructor(private readonly sizes: BodyBudgetSizes = BODY_BUDGET) {}

  /** False where the part of payments has no room for them. */
  takeForPayment(bytes: number): boolean {
    if (this.paymentsHold + bytes > this.sizes.paymentBytes) return false;
    this.paymentsHold += bytes;
    return true;
  }

  giveBackPayment(bytes: number): void {
    this.paymentsHold -= bytes;
  }

  /** False where they would be more than is left, or more than one client may have. */
  take(client: string, bytes: number): boolean {
    const held = (this.clientsHold.get(client) ?? 0) + bytes;
    if (held > this.sizes.clientBytes || this.othersHold + bytes > this.sizes.otherBytes) return false;
    this.clientsHold.set(client, held);
    this.othersHold += bytes;
    return true;
  }

  giveBack(client: string, bytes: number): void {
    const held = (this.clientsHold.get(client) ?? 0) - bytes;
    if (held > 0) this.clientsHold.set(client, held);
    else this.clientsHold.delete(client);
    this.othersHold -= bytes;
  }
}
