import type { KeyStore, Watch } from '#idempay/payments/ports/key-store.js';

/** The part of a key store that waiting needs, in memory: it loses an announcement, or fails, when a test says so. */
export class WatchedLocks implements Pick<KeyStore, 'watch'> {
  readonly locked = new Set<string>();
  fault: Error | undefined;
  asked = 0;
  private readonly listeners = new Map<string, Set<() => void>>();

  unlock(key: string): void {
    this.locked.delete(key);
    for (const onEnd of [...(this.listeners.get(key) ?? [])]) onEnd();
  }

  standing(key: string): number {
    return this.listeners.get(key)?.size ?? 0;
  }

  async watch(key: string, onEnd: () => void): Promise<Watch> {
    this.asked += 1;
    if (this.fault) throw this.fault;
    // Each watch is one of its own, also where the same function is told.
    const listener = () => onEnd();
    const listeners = this.listeners.get(key) ?? new Set();
    this.listeners.set(key, listeners.add(listener));
    const locked = { state: 'locked', fingerprint: '100.50 USD', heldMs: 0, remainingMs: 1 } as const;
    const looked = this.locked.has(key) ? locked : ({ state: 'generated' } as const);
    return { looked, unwatch: () => listeners.delete(listener) };
  }
}
