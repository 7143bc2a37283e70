import type { Clock } from '../platform/clock.js';
import { createPaymentCounts, type PaymentCounts } from './payment-counts.js';
import type { Ledger } from './ports/ledger.js';
import type { Fence } from './values/payment.js';

/** Three chances to renew before a lease ends: one lost reply must not cost the payment its owner. */
const RENEWALS_PER_LEASE = 3;
/** Renewals in one batch: a few milliseconds of the event loop, and one statement. */
const RENEWALS_AT_ONCE = 500;
/** Between two such batches, so that requests are served: at most 50,000 renewals a second. */
const BATCH_PAUSE_MS = 10;

/** A claim's hold on its row, renewed in the background until it is dropped. */
export interface Lease {
  /** True when the row stays ours for at least `ms` more, renewing now if need be. Asked before anything is sent. */
  outlives(ms: number): Promise<boolean>;
  /** Stops renewing; the lease itself ends with settle, abandon, or time. */
  drop(): void;
}

export interface Leases {
  /** `askedAt` is the monotonic time before the claim was sent: by the owner's own clock the lease began no later. */
  hold(fence: Fence, askedAt: number): Lease;
}

interface Held {
  readonly fence: Fence;
  endsAt: number;
  /** When it is renewed next. */
  dueAt: number;
  fencedOff: boolean;
}

/**
 * One timer renews all leases of the process, each at a third of its life after it was held or last renewed. Only rows are
 * renewed: a lock in the key store may end before its payment does (decision 0015).
 */
export function createLeases(
  ledger: Ledger,
  leaseMs: number,
  clock: Clock,
  { renewals }: Pick<PaymentCounts, 'renewals'> = createPaymentCounts(),
): Leases {
  const renewAfterMs = leaseMs / RENEWALS_PER_LEASE;
  /** Earliest due first: all wait equally long, and a renewed lease goes to the end. */
  const held = new Map<Fence, Held>();
  let cancelRenewal: (() => void) | undefined;

  async function renew(lease: Held): Promise<void> {
    const askedAt = clock.monotonic();
    lease.dueAt = askedAt + renewAfterMs;
    if (held.delete(lease.fence)) held.set(lease.fence, lease);
    if (await ledger.renew(lease.fence, leaseMs)) lease.endsAt = askedAt + leaseMs;
    else lease.fencedOff = true;
    if (lease.fencedOff) renewals.fencedOff += 1;
    else renewals.renewed += 1;
  }

  /** A failed renewal does not fence the attempt off: the lease gets older, which `outlives` checks. */
  function noteFailure(): void {
    renewals.failed += 1;
  }

  function scheduleRenewal(): void {
    const [first] = held.values();
    if (first) cancelRenewal = clock.after(Math.max(BATCH_PAUSE_MS, first.dueAt - clock.monotonic()), renewDue);
  }

  function renewDue(): void {
    for (const lease of dueNow()) {
      // A fenced-off lease is not renewed again; its attempt notices when it calls `outlives` or settles.
      if (lease.fencedOff) held.delete(lease.fence);
      else renew(lease).catch(noteFailure);
    }
    scheduleRenewal();
  }

  /** The leases to renew in this batch. */
  function dueNow(): Held[] {
    const now = clock.monotonic();
    const due: Held[] = [];
    for (const lease of held.values()) {
      if (lease.dueAt > now || due.length === RENEWALS_AT_ONCE) break;
      due.push(lease);
    }
    return due;
  }

  return {
    hold(fence, askedAt) {
      const lease: Held = {
        fence,
        endsAt: askedAt + leaseMs,
        dueAt: clock.monotonic() + renewAfterMs,
        fencedOff: false,
      };
      held.set(fence, lease);
      if (held.size === 1) scheduleRenewal();
      return {
        async outlives(ms) {
          const enough = () => !lease.fencedOff && lease.endsAt - clock.monotonic() > ms;
          if (!enough()) await renew(lease).catch(noteFailure);
          return enough();
        },
        drop() {
          if (held.delete(fence) && held.size === 0) cancelRenewal?.();
        },
      };
    },
  };
}
