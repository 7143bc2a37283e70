/** What has been opened and must be closed, the last one first, however far the opening came. */
export class Opened {
  readonly #closing: (() => unknown)[] = [];

  async keep<T extends { close(): unknown }>(opening: Promise<T> | T): Promise<T> {
    const opened = await opening;
    this.#closing.push(() => opened.close());
    return opened;
  }

  async close(): Promise<void> {
    for (const close of this.#closing.splice(0).reverse()) await close();
  }
}
