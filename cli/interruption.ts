/** From the keyboard, from a supervisor, and from a terminal that was closed. */
const ENDING_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

let wasInterrupted = false;

/** The first of these signals aborts it; the next one ends the program. */
export function signalOfUser(): AbortSignal {
  const user = new AbortController();
  for (const name of ENDING_SIGNALS) {
    process.once(name, () => {
      wasInterrupted = true;
      user.abort(new DOMException('Interrupted.', 'AbortError'));
    });
  }
  return user.signal;
}

export const isInterrupted = () => wasInterrupted;
