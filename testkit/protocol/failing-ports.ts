import { decoratedEach } from '#idempay/platform/decorated.js';

/** Runs in place of, before or after the real operation: `proceed` is the real one, with the caller's own parameters. */
type Interruption = (proceed: () => Promise<unknown>) => Promise<unknown>;
type Operation<P> = { [N in keyof P]: P[N] extends (...parameters: never[]) => unknown ? N : never }[keyof P];

export type FailingPort<P extends object> = ReturnType<typeof failingPort<P>>;

/** Wraps a real port, of any deployment, so that it fails when a test says so. */
export function failingPort<P extends object>(real: P) {
  const next = new Map<PropertyKey, Interruption[]>();
  const always = new Map<PropertyKey, Error>();

  function interruptNext(operation: Operation<P>, interruption: Interruption): void {
    next.set(operation, [...(next.get(operation) ?? []), interruption]);
  }

  return {
    /** The real port; operations that were not asked to fail go straight through. */
    port: decoratedEach(real, (operation, name) => async (...parameters: unknown[]) => {
      const proceed = async () => operation(...parameters);
      const interruption = next.get(name)?.shift();
      if (interruption) return interruption(proceed);
      const fault = always.get(name);
      if (fault) throw fault;
      return proceed();
    }),
    interruptNext,
    /** Nothing reaches the store: the operation fails before it. */
    failNext: (operation: Operation<P>, fault: Error) => interruptNext(operation, () => Promise.reject(fault)),
    /** The store does what was asked, and the answer is lost on its way back. */
    loseNextAnswer: (operation: Operation<P>, fault: Error) =>
      interruptNext(operation, (proceed) => proceed().then(() => Promise.reject(fault))),
    /** Every operation of that name fails before it reaches the store, until `heal`. */
    failAll: (operation: Operation<P>, fault: Error) => void always.set(operation, fault),
    heal: () => always.clear(),
  };
}
