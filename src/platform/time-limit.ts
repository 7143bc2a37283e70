/** Resolves to what `work` does, or to `tooLate` after `limitMs` milliseconds. The work itself goes on then. */
export async function within<Result, Late>(
  limitMs: number,
  work: Promise<Result>,
  tooLate: Late,
): Promise<Result | Late> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<Late>((resolve) => {
    // Immediates run after the sockets of an iteration were read: a process that stood still first reads what has arrived.
    timer = setTimeout(() => setImmediate(resolve, tooLate), limitMs);
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

/** True if the work ended within `limitMs` milliseconds. Its fault is thrown. */
export function endsWithin(limitMs: number, work: Promise<unknown>): Promise<boolean> {
  return within(
    limitMs,
    work.then(() => true),
    false,
  );
}
