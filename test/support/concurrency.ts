/** Runs `task` for 0 .. count-1, at most `width` at a time; the results in that order. */
export async function inParallel<T>(count: number, width: number, task: (index: number) => Promise<T>): Promise<T[]> {
  const results = new Array<T>(count);
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const index = next++;
      results[index] = await task(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, worker));
  return results;
}

/**
 * Repeats `background` in `width` loops for as long as `foreground` runs. Resolves when all have ended, and fails with
 * the first failure: a failed loop does not end the foreground, so that must end by itself.
 */
export async function alongside(
  width: number,
  background: (loop: number) => Promise<void>,
  foreground: () => Promise<void>,
): Promise<void> {
  let running = true;
  const repeat = async (_: unknown, loop: number) => {
    while (running) await background(loop);
  };
  const ends = await Promise.allSettled([
    foreground().finally(() => {
      running = false;
    }),
    ...Array.from({ length: width }, repeat),
  ]);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}
