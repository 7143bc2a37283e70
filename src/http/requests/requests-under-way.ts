declare module 'fastify' {
  interface FastifyInstance {
    readonly requestsUnderWay: RequestsUnderWay;
  }
}

/**
 * Counts requests from their handler to their answer. A request continues after its client disconnects, so a drain that waited
 * for connections only would cut a payment under way.
 */
export class RequestsUnderWay {
  private count = 0;
  private onNone: (() => void)[] = [];

  /** `work` must not reject. */
  add(work: Promise<unknown>): void {
    this.count += 1;
    work.then(() => this.end());
  }

  /** Resolves when there is none; at once when there is none now. */
  ended(): Promise<void> {
    if (this.count === 0) return Promise.resolve();
    return new Promise((resolve) => this.onNone.push(resolve));
  }

  private end(): void {
    this.count -= 1;
    if (this.count > 0) return;
    for (const resolve of this.onNone.splice(0)) resolve();
  }
}
