import { useCallback, useEffect, useState } from 'preact/hooks';
import { useWork } from './use-work.js';

export interface Asked<T> {
  /** Kept while it is asked again, and after a failure. */
  readonly answer: T | undefined;
  /** The problem of the last time, in a sentence. Kept while it is asked again. */
  readonly problem: string | undefined;
  /** The pause that the service asks for before the next time; 0 if it asks for none. */
  readonly pauseMs: number;
  readonly isLoading: boolean;
  again(): void;
}

/**
 * Asks when the view opens, when one of `inputs` changes, and again on demand; the request before it is given up. `ask` gives undefined if
 * it cannot ask yet.
 */
export function useAnswer<T>(
  ask: (signal: AbortSignal) => Promise<T | undefined>,
  inputs: readonly unknown[],
): Asked<T> {
  const [round, setRound] = useState(0);
  const [answer, setAnswer] = useState<T>();
  const { problem, pauseMs, isWorking, run } = useWork(true);
  // `ask` is another function each time; its dependencies are in `inputs`. The answer may itself be a function, so one sets it.
  useEffect(() => run(ask, (given) => setAnswer(() => given), true), [round, ...inputs]);
  const again = useCallback(() => setRound((count) => count + 1), []);
  return { answer, problem, pauseMs, isLoading: isWorking, again };
}
