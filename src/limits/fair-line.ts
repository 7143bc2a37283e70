/**
 * A line in which clients take turns. Each client has a share, the turns it got; the least share is next. A client that joins begins at the
 * least share of all that wait, so it is served within one round of the others and takes no turn from them that it missed.
 */
export class FairLine<Entry> {
  private readonly clients = new Map<string, { share: number; readonly entries: Entry[] }>();
  private count = 0;

  get length(): number {
    return this.count;
  }

  /** Behind the others of its client, except those for which `isLater`. */
  add(client: string, entry: Entry, isLater: (other: Entry) => boolean = () => false): void {
    this.count += 1;
    const own = this.clients.get(client);
    if (own) own.entries.splice(own.entries.findLastIndex((other) => !isLater(other)) + 1, 0, entry);
    else this.clients.set(client, { share: this.leastShare(), entries: [entry] });
  }

  remove(client: string, entry: Entry): void {
    const own = this.clients.get(client);
    const index = own?.entries.indexOf(entry) ?? -1;
    if (own && index >= 0) this.taken(client, own.entries.splice(index, 1));
  }

  /**
   * Undefined when nobody waits. Clients for which `mustYield` are passed over if others wait. The oldest entry of a client is next, or
   * with `newestToo` alternately the newest and the oldest.
   */
  next(mustYield: (client: string) => boolean = () => false, newestToo = false): Entry | undefined {
    let found: string | undefined;
    let least = Number.POSITIVE_INFINITY;
    for (const yielding of [false, true]) {
      for (const [client, { share }] of this.clients) {
        if (share >= least || mustYield(client) !== yielding) continue;
        found = client;
        least = share;
      }
      if (found !== undefined) break;
    }
    const own = found === undefined ? undefined : this.clients.get(found);
    if (found === undefined || !own) return undefined;
    own.share += 1;
    const entry = newestToo && own.share % 2 === 1 ? own.entries.pop() : own.entries.shift();
    this.taken(found, [entry]);
    return entry;
  }

  /** The waiting entries of all clients but this one. */
  *others(client: string): Iterable<Entry> {
    for (const [name, { entries }] of this.clients) if (name !== client) yield* entries;
  }

  private taken(client: string, entries: readonly unknown[]): void {
    this.count -= entries.length;
    if (this.clients.get(client)?.entries.length === 0) this.clients.delete(client);
  }

  private leastShare(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const { share } of this.clients.values()) least = Math.min(least, share);
    return Number.isFinite(least) ? least : 0;
  }
}
