import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isAborted, retryAfterMs, sentenceOf } from '../http/service-error.js';

export interface Work {
  /** The problem of the last time, in a sentence. */
  readonly problem: string | undefined;
  /** After a problem the service may ask for a pause of this many milliseconds; else 0. */
  readonly pauseMs: number;
  readonly isWorking: boolean;
  /**
   * Takes the place of the work under way. `show` gets the result, unless something took its place or it was cancelled. `isRepeat`: the last
   * problem stays until the result, because one that comes and goes takes the focus from its buttons.
   */
  run<T>(work: (signal: AbortSignal) => Promise<T>, show: (result: T) => void, isRepeat?: boolean): void;
  cancel(): void;
}

/** Work that a view waits for, such as requests, one after the other. It ends with the view. */
export function useWork(isWorkingAtFirst: boolean): Work {
  const [failure, setFailure] = useState<unknown>();
  const [isWorking, setWorking] = useState(isWorkingAtFirst);
  const underWay = useRef<AbortController | undefined>(undefined);

  const cancel = useCallback(() => {
    underWay.current?.abort();
    setWorking(false);
  }, []);

  const run = useCallback(
    async <T>(work: (signal: AbortSignal) => Promise<T>, show: (result: T) => void, isRepeat = false) => {
      underWay.current?.abort();
      const own = new AbortController();
      const { signal } = own;
      underWay.current = own;
      setWorking(true);
      if (!isRepeat) setFailure(undefined);
      try {
        const result = await work(signal);
        if (!signal.aborted) {
          setFailure(undefined);
          show(result);
        }
      } catch (error) {
        if (!signal.aborted && !isAborted(error)) setFailure(error);
      }
      if (!signal.aborted) setWorking(false);
    },
    [],
  );

  useEffect(() => () => underWay.current?.abort(), []);
  const problem = failure === undefined ? undefined : sentenceOf(failure);
  return { problem, pauseMs: retryAfterMs(failure), isWorking, run, cancel };
}
