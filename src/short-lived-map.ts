/** Entries are copied after at least this many sets, or as many as there are entries, so that each is copied about once. */
const LEAST_SETS = 64;

/**
 * A Map for entries that live only as long as a request. The engine's own Map keeps a link from each table that it has outgrown to the
 * next one. Once such a table is in the old generation, it keeps all later ones alive, with what was in them, until the old
 * generation is collected (decision 0064). A new Map has no such link, so the entries are copied into one now and then.
 */
export class ShortLivedMap<Key, Value> {
  private entries = new Map<Key, Value>();
  private setsUntilCopy = LEAST_SETS;

  get size(): number {
    return this.entries.size;
  }

  get(key: Key): Value | undefined {
    return this.entries.get(key);
  }

  /** A key that is there keeps its place in the order. */
  set(key: Key, value: Value): void {
    if (this.setsUntilCopy === 0) {
      this.entries = new Map(this.entries);
      this.setsUntilCopy = Math.max(LEAST_SETS, this.entries.size);
    }
    this.setsUntilCopy -= 1;
    this.entries.set(key, value);
  }

  /** Whether it was there. */
  delete(key: Key): boolean {
    return this.entries.delete(key);
  }

  /** Those of this moment, in the order in which they came. Nothing may be set meanwhile. */
  values(): Iterable<Value> {
    return this.entries.values();
  }
}
