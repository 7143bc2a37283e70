/** Resources that have been opened and must be closed, the last one first, even if opening stopped halfway. */
export class Opened {
  readonly #opening = new Set<Promise<unknown>>();
  readonly #closing: (() => unknown)[] = [];

  async keep<T extends { close(): unknown }>(opening: Promise<T> | T): Promise<T> {
    const arriving = Promise.resolve(opening);
    this.#opening.add(arriving);
    try {
      const opened = await arriving;
      this.#closing.push(() => opened.close());
      return opened;
    } finally {
      this.#opening.delete(arriving);
    }
  }

  /** Waits for what is being opened just now, so that it is closed as well. */
  async close(): Promise<void> {
    while (this.#opening.size > 0 || this.#closing.length > 0) {
      await Promise.allSettled(this.#opening);
      for (const close of this.#closing.splice(0).reverse()) await close();
    }
  }
}
