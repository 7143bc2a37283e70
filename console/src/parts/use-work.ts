import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isAborted, sentenceOf } from '../http/service-error.js';

export interface Work {
  /** The problem of the last time, in a sentence. */
  readonly problem: string | undefined;
  readonly isWorking: boolean;
  /** Takes the place of the work under way. `show` gets the result, unless something took its place or it was cancelled. */
  run<T>(work: (signal: AbortSignal) => Promise<T>, show: (result: T) => void): void;
  cancel(): void;
}

/** Work that a view waits for, such as requests, one after the other. It ends with the view. */
export function useWork(isWorkingAtFirst: boolean): Work {
  const [problem, setProblem] = useState<string>();
  const [isWorking, setWorking] = useState(isWorkingAtFirst);
  const underWay = useRef<AbortController | undefined>(undefined);

  const cancel = useCallback(() => {
    underWay.current?.abort();
    setWorking(false);
  }, []);

  const run = useCallback(async <T>(work: (signal: AbortSignal) => Promise<T>, show: (result: T) => void) => {
    underWay.current?.abort();
    const own = new AbortController();
    const { signal } = own;
    underWay.current = own;
    setWorking(true);
    setProblem(undefined);
    try {
      const result = await work(signal);
      if (!signal.aborted) show(result);
    } catch (error) {
      if (!signal.aborted && !isAborted(error)) setProblem(sentenceOf(error));
    }
    if (!signal.aborted) setWorking(false);
  }, []);

  useEffect(() => () => underWay.current?.abort(), []);
  return { problem, isWorking, run, cancel };
}
