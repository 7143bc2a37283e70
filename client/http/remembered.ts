/** The last value that was read for each id, with its tag: for conditional reads. The least recently used is dropped. */
export class Remembered<Id, T> {
  readonly #entries = new Map<Id, { readonly tag: string; readonly value: T }>();

  constructor(private readonly most: number) {}

  get(id: Id): { readonly tag: string; readonly value: T } | undefined {
    return this.#entries.get(id);
  }

  set(id: Id, tag: string | null, value: T): T {
    this.#entries.delete(id);
    if (tag !== null) this.#entries.set(id, { tag, value });
    if (this.#entries.size > this.most) this.#entries.delete(this.#entries.keys().next().value as Id);
    return value;
  }

  forget(id: Id): void {
    this.#entries.delete(id);
  }
}
