interface Listener {
  readonly onEnd: () => void;
}

/** Who waits for the end of which lock. */
export class EndListeners {
  private readonly byLock = new Map<string, Set<Listener>>();

  /** Returns what ends it: after that the listener hears nothing more, and nothing of it is kept. */
  add(lock: string, onEnd: () => void): () => void {
    const listener = { onEnd };
    const listeners = this.byLock.get(lock) ?? new Set();
    this.byLock.set(lock, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.byLock.get(lock) === listeners) this.byLock.delete(lock);
    };
  }

  /** A lock that nobody waits for, or that never was, is ignored. */
  tell(lock: string): void {
    const listeners = this.byLock.get(lock);
    // Over a copy: who is told may end its listening, or that of others, and begin anew.
    for (const listener of [...(listeners ?? [])]) if (listeners?.has(listener)) listener.onEnd();
  }

  tellAll(): void {
    for (const lock of [...this.byLock.keys()]) this.tell(lock);
  }
}
