import { useEffect } from 'preact/hooks';
import type { Asked } from './use-answer.js';

/** Asks again this long after each answer, also after a failure, unless the service asks for a longer pause. It asks for nothing while the page is hidden. */
export function useAskedAgain<T>({ answer, pauseMs, isLoading, again }: Asked<T>, afterMs: number): void {
  useEffect(() => {
    // Asking again would cancel the request under way.
    if (isLoading) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    function schedule() {
      clearTimeout(timer);
      if (!document.hidden) timer = setTimeout(again, Math.max(afterMs, pauseMs));
    }
    schedule();
    document.addEventListener('visibilitychange', schedule);
    return () => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', schedule);
    };
  }, [again, answer, isLoading, afterMs, pauseMs]);
}
