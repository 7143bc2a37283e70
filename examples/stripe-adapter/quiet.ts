/** The oldest are forgotten, and wait anew. */
const MOST_QUIET = 100_000;

/** The references for which this process is sending something, and since when it has sent nothing for others. */
export function createQuiet() {
  const underWay = new Map<string, number>();
  const quietSince = new Map<string, number>();

  function quietFrom(reference: string): number {
    const now = performance.now();
    quietSince.delete(reference);
    quietSince.set(reference, now);
    if (quietSince.size > MOST_QUIET) quietSince.delete(quietSince.keys().next().value as string);
    return now;
  }

  return {
    isUnderWay: (reference: string) => underWay.has(reference),
    /** While `send` is at work, the reference is under way. */
    async during<Result>(reference: string, send: () => Promise<Result>): Promise<Result> {
      underWay.set(reference, (underWay.get(reference) ?? 0) + 1);
      try {
        return await send();
      } finally {
        const others = (underWay.get(reference) ?? 1) - 1;
        if (others > 0) underWay.set(reference, others);
        else underWay.delete(reference);
        quietFrom(reference);
      }
    },
    /** Since when this process knows of no request for the reference. It counts from the first question about it. */
    since: (reference: string) => quietSince.get(reference) ?? quietFrom(reference),
    forget: (reference: string) => quietSince.delete(reference),
  };
}
