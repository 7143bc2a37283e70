interface Listener {
  readonly onEnd: () => void;
}

/** The waiters for the end of each lock. */
export class EndListeners {
  private readonly byLock = new Map<string, Set<Listener>>();

  /** Returns the function that removes the listener. */
  add(lock: string, onEnd: () => void): () => void {
    const listener = { onEnd };
    const listeners = this.byLock.get(lock) ?? new Set();
    this.byLock.set(lock, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.byLock.get(lock) === listeners) this.byLock.delete(lock);
    };
  }

  /** A lock without listeners is ignored. */
  notify(lock: string): void {
    const listeners = this.byLock.get(lock);
    // Over a copy: a listener may remove itself or others, and add new ones.
    for (const listener of [...(listeners ?? [])]) if (listeners?.has(listener)) listener.onEnd();
  }

  notifyAll(): void {
    for (const lock of [...this.byLock.keys()]) this.notify(lock);
  }
}
