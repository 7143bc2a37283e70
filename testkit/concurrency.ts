/** Runs `task` for 0 .. count-1, at most `width` at a time; the results in that order. */
export async function inParallel<T>(count: number, width: number, task: (index: number) => Promise<T>): Promise<T[]> {
  const results = new Array<T>(count);
  const indices = results.keys();
  const worker = async () => {
    for (const index of indices) results[index] = await task(index);
  };
  await Promise.all(Array.from({ length: Math.min(width, count) }, worker));
  return results;
}

/**
 * Repeats `background` in `width` loops for as long as `foreground` runs, and resolves when all have ended. A loop that
 * fails does not end the foreground, which must end by itself; its failure is the one thrown, for it came first.
 */
export async function alongside(
  width: number,
  background: (loop: number) => Promise<void>,
  foreground: () => Promise<void>,
): Promise<void> {
  let running = true;
  const loops = Array.from({ length: width }, async (_, loop) => {
    while (running) await background(loop);
  });
  const work = foreground().finally(() => {
    running = false;
  });
  for (const end of await Promise.allSettled([...loops, work])) if (end.status === 'rejected') throw end.reason;
}

export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
