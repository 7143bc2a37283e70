/** Bytes that a process keeps at once for one purpose, in all and for one client. */
export class ByteBudget {
  private held = 0;
  private readonly heldBy = new Map<string, number>();

  constructor(
    readonly most: number,
    readonly mostOfClient = most,
  ) {}

  get isFull(): boolean {
    return this.held >= this.most;
  }

  /** False if they would be more than is left, or more than one client may have. */
  take(bytes: number, client = ''): boolean {
    const own = (this.heldBy.get(client) ?? 0) + bytes;
    if (own > this.mostOfClient || this.held + bytes > this.most) return false;
    this.hold(bytes, client);
    return true;
  }

  /** Counts bytes that are kept however many there are. */
  hold(bytes: number, client = ''): void {
    this.held += bytes;
    this.heldBy.set(client, (this.heldBy.get(client) ?? 0) + bytes);
  }

  giveBack(bytes: number, client = ''): void {
    this.held -= bytes;
    const own = (this.heldBy.get(client) ?? 0) - bytes;
    if (own > 0) this.heldBy.set(client, own);
    else this.heldBy.delete(client);
  }
}

/** The longest body of a payment is 16 KiB: a thousand of them. */
const PAYMENT_BYTES = 1_000 * 16 * 1024;
/**
 * Thirty-two batches of the longest kind. The values that are read out of a body may take five times as much, and all of it must fit next
 * to the rest into 512 MB.
 */
const OTHER_BYTES = 32 * 1024 * 1024;

/**
 * The bytes of bodies that have arrived and whose requests are not answered yet, over the process (rule A6). Bytes that were only announced
 * do not count: they cost nothing. Payments have a part of their own, so that no other body keeps a payment out.
 */
export interface BodyBudget {
  /** For bodies of payments, and for nothing else. */
  readonly payments: ByteBudget;
  /** For all other bodies, and for payments beyond their own part. */
  readonly others: ByteBudget;
}

export function createBodyBudget(): BodyBudget {
  return { payments: new ByteBudget(PAYMENT_BYTES), others: new ByteBudget(OTHER_BYTES, OTHER_BYTES / 8) };
}
