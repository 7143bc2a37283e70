import type { Clock } from '../clock.js';
import type { KeyStore } from './key-store.js';
import type { Ledger } from './ledger.js';
import type { Fence } from './payment.js';

/** Three chances to renew before a lease ends: one lost reply must not cost the payment its owner. */
const RENEWALS_PER_LEASE = 3;

/** A claim's hold on its row and lock, renewed in the background until it is dropped. */
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
  fencedOff: boolean;
}

/** One timer renews all leases of the process, however many payments are under way. */
export function createLeases(keys: KeyStore, ledger: Ledger, leaseMs: number, clock: Clock): Leases {
  const held = new Set<Held>();
  let cancelRenewal: (() => void) | undefined;

  async function renew(lease: Held): Promise<void> {
    const askedAt = clock.monotonic();
    // The row decides. A lock that could not be renewed costs a fast 409 and nothing else.
    keys.renew(lease.fence, leaseMs).catch(() => {});
    if (await ledger.renew(lease.fence, leaseMs)) lease.endsAt = askedAt + leaseMs;
    else lease.fencedOff = true;
  }

  function scheduleRenewal(): void {
    cancelRenewal = clock.after(leaseMs / RENEWALS_PER_LEASE, renewAll);
  }

  function renewAll(): void {
    scheduleRenewal();
    // Unreachable now is not fenced off: the lease simply goes on ageing, and `outlives` sees it.
    for (const lease of held) if (!lease.fencedOff) renew(lease).catch(() => {});
  }

  return {
    hold(fence, askedAt) {
      const lease: Held = { fence, endsAt: askedAt + leaseMs, fencedOff: false };
      held.add(lease);
      if (held.size === 1) scheduleRenewal();
      return {
        async outlives(ms) {
          const enough = () => !lease.fencedOff && lease.endsAt - clock.monotonic() > ms;
          if (!enough()) await renew(lease).catch(() => {});
          return enough();
        },
        drop() {
          if (held.delete(lease) && held.size === 0) cancelRenewal?.();
        },
      };
    },
  };
}
