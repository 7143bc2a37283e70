import { useCallback, useEffect, useState } from 'preact/hooks';
import { isAborted, sentenceOf } from '../http/service-error.js';

export interface Asked<T> {
  /** Kept while it is asked again, and after a failure. */
  readonly answer: T | undefined;
  /** What went wrong the last time, in a sentence. */
  readonly problem: string | undefined;
  readonly isLoading: boolean;
  again(): void;
}

/** Asks when the view opens, when one of `inputs` changes, and again on demand; the request of before is given up. */
export function useAnswer<T>(ask: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Asked<T> {
  const [round, setRound] = useState(0);
  const [state, setState] = useState<Omit<Asked<T>, 'again'>>({
    answer: undefined,
    problem: undefined,
    isLoading: true,
  });
  // `ask` is another function each time; what it depends on is in `inputs`.
  useEffect(() => {
    const controller = new AbortController();
    setState(({ answer }) => ({ answer, problem: undefined, isLoading: true }));
    ask(controller.signal).then(
      (answer) => {
        if (!controller.signal.aborted) setState({ answer, problem: undefined, isLoading: false });
      },
      (error: unknown) => {
        if (controller.signal.aborted || isAborted(error)) return;
        setState(({ answer }) => ({ answer, problem: sentenceOf(error), isLoading: false }));
      },
    );
    return () => controller.abort();
  }, [round, ...inputs]);
  const again = useCallback(() => setRound((count) => count + 1), []);
  return { ...state, again };
}
