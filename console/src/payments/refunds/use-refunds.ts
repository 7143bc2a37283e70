import { useEffect, useRef } from 'preact/hooks';
import type { Http } from '../../http/http.js';
import { type Asked, useAnswer } from '../../parts/use-answer.js';
import { isFinal, type Payment } from '../payment.js';
import type { Refund } from './refund.js';

/** Often enough for a person to follow, rarely enough that a hundred open tabs are no load. */
const POLL_MS = 2_000;
const POLL_AFTER_FAILURE_MS = 5_000;

interface Watching {
  /** A person is deciding on what is shown now. */
  readonly isPaused: boolean;
  /** A refund got its outcome, or was added: the payment has another sum then. */
  changed(): void;
}

/** The refunds of a payment, oldest first; asked again while one is under way and the page is visible, and when it is shown again. */
export function useRefunds(
  http: Http,
  { idempotencyKey: key, refunded }: Payment,
  { isPaused, changed }: Watching,
): Asked<readonly Refund[]> {
  const asked = useAnswer(
    async (signal) => {
      // Before its first refund a payment has no sum.
      if (refunded === undefined) return [];
      return await readRefunds(http, key, signal);
    },
    [http, key, refunded],
  );
  const { answer, problem, pauseMs, isLoading, again } = asked;
  const afterMs = problem === undefined ? POLL_MS : Math.max(POLL_AFTER_FAILURE_MS, pauseMs);

  const isOpen = answer?.some((refund) => !isFinal(refund)) ?? false;
  useEffect(() => {
    if (!isOpen || isLoading || isPaused) return;
    const timer = setTimeout(() => !document.hidden && again(), afterMs);
    return () => clearTimeout(timer);
  }, [isOpen, isLoading, isPaused, again, afterMs]);

  useEffect(() => {
    if (isPaused) return;
    const onVisibility = () => {
      if (!document.hidden) again();
    };
    document.addEventListener('visibilitychange', onVisibility);
    return () => document.removeEventListener('visibilitychange', onVisibility);
  }, [isPaused, again]);

  const states = answer?.map(({ idempotencyKey, state }) => `${idempotencyKey} ${state}`).join();
  const before = useRef(states);
  useEffect(() => {
    if (before.current !== undefined && states !== before.current) changed();
    before.current = states;
  }, [states]);
  return asked;
}

export async function readRefunds(http: Http, key: string, signal?: AbortSignal): Promise<readonly Refund[]> {
  const { body } = await http.ask<Refund[]>(`api/payments/${encodeURIComponent(key)}/refunds`, { signal });
  return body;
}
