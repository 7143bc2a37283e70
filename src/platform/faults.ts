/**
 * A store could not do what was asked. `unchanged`: nothing was written. `unknown`: the write may or may not have happened, so
 * the client is asked to repeat the request.
 */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable';
  constructor(
    readonly effect: 'unchanged' | 'unknown',
    message: string,
    cause?: unknown,
    /** For an unknown write that the store still reports: it settles as the write itself does, once that has ended. */
    readonly ended?: Promise<unknown>,
  ) {
    super(message, { cause });
  }
}

/** Every snapshot that lists are read from is in use, by readers that make progress or by one that will soon be cut off. */
export class AllSnapshotsInUse extends StoreUnavailable {
  constructor(snapshots: number) {
    super('unchanged', `all ${snapshots} snapshots for lists are in use`);
  }
}

/** True if a write may have happened all the same. */
export function isUnknown(fault: unknown): boolean {
  return fault instanceof StoreUnavailable && fault.effect === 'unknown';
}

/** A read for the answer to a request that may have written: if the store fails now, it is not said that nothing was changed. */
export async function afterWrite<Result>(read: Promise<Result>): Promise<Result> {
  try {
    return await read;
  } catch (fault) {
    if (!(fault instanceof StoreUnavailable)) throw fault;
    throw new StoreUnavailable(
      'unknown',
      'the request may have been carried out, and its result could not be read',
      fault,
    );
  }
}

/** The messages of an exception and of what caused it, in one line. */
export function reasonOf(fault: unknown): string {
  if (!(fault instanceof Error)) return String(fault);
  // Several addresses of one host that all refuse: such an exception has a code and no message.
  const message = fault.message || String((fault as NodeJS.ErrnoException).code ?? fault.name);
  if (fault.cause === undefined) return message;
  const cause = reasonOf(fault.cause);
  return message.includes(cause) ? message : `${message}: ${cause}`;
}
