import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { errorOf, isAborted, retryAfterMs, ServiceError, sentenceOf } from '../http/service-error.js';
import { isFinal, type Payment, type Seen, type Timeline } from './payment.js';

/** Often enough for a person to follow, rarely enough that a hundred open tabs are no load. */
const POLL_MS = 2_000;
const POLL_AFTER_FAILURE_MS = 5_000;

interface Tagged<T> {
  readonly body: T;
  readonly etag: string | null;
}

interface Look {
  readonly payment?: Tagged<Payment> | undefined;
  readonly timeline?: Tagged<Timeline> | undefined;
  /** There is no such payment, or not for this credential. */
  readonly isUnknown?: boolean;
  readonly problem?: string | undefined;
  readonly timelineProblem?: string | undefined;
  /** After a problem the service may ask for a pause. */
  readonly pauseMs?: number;
}

export interface WatchedPayment {
  readonly seen: Seen | undefined;
  readonly timeline: Timeline | undefined;
  readonly isUnknown: boolean;
  readonly problem: string | undefined;
  readonly timelineProblem: string | undefined;
  again(): void;
}

/**
 * Polls while the payment is not final and the page is visible, with the tags of the last answers. `isPaused`: a person is deciding on
 * what is shown now.
 */
export function usePayment(
  http: Http,
  key: string,
  { isPaused, seesTimeline }: { isPaused: boolean; seesTimeline: boolean },
): WatchedPayment {
  const [look, setLook] = useState<Look>({});
  const last = useRef<Look>({});
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((count) => count + 1), []);

  useEffect(() => {
    last.current = {};
    setLook({});
  }, [http, key]);

  useEffect(() => {
    if (isPaused) return;
    const controller = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAsking = false;

    async function watch() {
      if (isAsking || document.hidden) return;
      isAsking = true;
      const next = await lookAt(http, key, last.current, seesTimeline, controller.signal);
      isAsking = false;
      if (!next) return;
      last.current = next;
      setLook(next);
      const pauseMs = pauseAfter(next);
      if (pauseMs !== undefined) timer = setTimeout(watch, pauseMs);
    }

    function onVisibility() {
      clearTimeout(timer);
      // A payment that was paid is read once more too: it may have been refunded elsewhere meanwhile.
      if (!document.hidden) void watch();
    }

    void watch();
    document.addEventListener('visibilitychange', onVisibility);
    return () => {
      controller.abort();
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onVisibility);
    };
  }, [http, key, isPaused, round]);

  const { payment, timeline, isUnknown = false, problem, timelineProblem } = look;
  const seen = payment && { payment: payment.body, etag: payment.etag ?? '' };
  return { seen, timeline: timeline?.body, isUnknown, problem, timelineProblem, again };
}

/** Undefined if nothing more is to come. */
function pauseAfter({ payment, isUnknown, problem, timelineProblem, pauseMs = 0 }: Look): number | undefined {
  if (isUnknown) return undefined;
  if (problem !== undefined || timelineProblem !== undefined) return Math.max(POLL_AFTER_FAILURE_MS, pauseMs);
  return payment && isFinal(payment.body) ? undefined : POLL_MS;
}

/** Returns undefined if the request was aborted. If no newer data came, the earlier data stays. */
async function lookAt(
  http: Http,
  key: string,
  before: Look,
  seesTimeline: boolean,
  signal: AbortSignal,
): Promise<Look | undefined> {
  const path = `api/payments/${encodeURIComponent(key)}`;
  const [payment, timeline] = await Promise.allSettled([
    read<Payment>(http, path, before.payment, signal),
    seesTimeline ? read<Timeline>(http, `${path}/timeline`, before.timeline, signal) : undefined,
  ]);
  if (signal.aborted) return undefined;
  if (payment.status === 'rejected') {
    if (isAborted(payment.reason)) return undefined;
    if (payment.reason instanceof ServiceError && payment.reason.status === 404) return { isUnknown: true };
    return { ...before, problem: sentenceOf(payment.reason), pauseMs: retryAfterMs(payment.reason) };
  }
  if (timeline.status === 'fulfilled') return { payment: payment.value, timeline: timeline.value };
  // Removed between the two requests: the next look at the payment says so.
  const isGone = timeline.reason instanceof ServiceError && timeline.reason.status === 404;
  const timelineProblem = isGone ? undefined : sentenceOf(timeline.reason);
  return { payment: payment.value, timeline: before.timeline, timelineProblem, pauseMs: retryAfterMs(timeline.reason) };
}

async function read<T>(
  http: Http,
  path: string,
  before: Tagged<T> | undefined,
  signal: AbortSignal | undefined,
): Promise<Tagged<T>> {
  const headers: Record<string, string> = before?.etag ? { 'If-None-Match': before.etag } : {};
  const response = await http.send(path, { headers, signal });
  if (response.status === 304 && before) return before;
  if (!response.ok) throw await errorOf(response);
  return { body: (await response.json()) as T, etag: response.headers.get('etag') };
}

/** The payment as it is now. */
export async function seePayment(http: Http, key: string, signal?: AbortSignal): Promise<Seen> {
  const { body, etag } = await read<Payment>(http, `api/payments/${encodeURIComponent(key)}`, undefined, signal);
  return { payment: body, etag: etag ?? '' };
}
