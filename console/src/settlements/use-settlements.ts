import { useEffect, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { isAborted, ServiceError, sentenceOf } from '../http/service-error.js';
import type { Payment } from '../payments/payment.js';

/** The view begins with what was settled in this time. */
export const BEGIN_MS = 300_000;
/** Older ones are not shown any more. */
const MOST_SHOWN = 200;
const PAGE = 500;
/** Half of the usual time-out of proxies. */
const WAIT_SECONDS = 25;
/** Such a wait, and the time of another read. */
const LIMIT_MS = 40_000;
/** An empty page is paused after, too: a service with too many readers answers at once. */
const PAUSE_MS = 1_000;
const PAUSE_AFTER_FAILURE_MS = 5_000;
/** A database that was restored or failed over has another feed; the service says from when on to read it. */
const GONE = 410;

interface Page {
  readonly settlements: readonly Payment[];
  readonly next: string;
}

export interface FollowedSettlements {
  /** Newest first; undefined until the first page came. */
  readonly settlements: readonly Payment[] | undefined;
  /** The problem of the last request, in a sentence. It is sent again by itself. */
  readonly problem: string | undefined;
}

const NOTHING: FollowedSettlements = { settlements: undefined, problem: undefined };

/** Follows the feed while the page is shown. An empty `client` is every client that the credential may see. */
export function useSettlements(http: Http, client: string): FollowedSettlements {
  const [followed, setFollowed] = useState(NOTHING);
  useEffect(() => {
    setFollowed(NOTHING);
    let place: Readonly<Record<'after' | 'from', string | undefined>> | undefined;
    let reading: AbortController | undefined;

    const ask = (query: Readonly<Record<string, string | number | undefined>>, signal: AbortSignal, wait: boolean) =>
      http.ask<Page>('api/settlements', {
        query: { client, ...query },
        headers: wait ? { Prefer: `wait=${WAIT_SECONDS}` } : {},
        signal,
        limitMs: LIMIT_MS,
      });

    /** The clock of the service counts, because the clock of this machine may be wrong. */
    async function beginning(signal: AbortSignal): Promise<string> {
      const { headers } = await ask({ after: 'now', limit: 1 }, signal, false);
      return new Date((Date.parse(headers.get('date') ?? '') || Date.now()) - BEGIN_MS).toISOString();
    }

    /** Resolves to the pause before the next page. */
    async function readPage(signal: AbortSignal): Promise<number> {
      try {
        place ??= { after: undefined, from: await beginning(signal) };
        const { body } = await ask({ ...place, limit: PAGE }, signal, place.after !== undefined);
        place = { after: body.next, from: undefined };
        setFollowed(({ settlements = [] }) => ({
          settlements: joined(settlements, body.settlements),
          problem: undefined,
        }));
        return body.settlements.length === 0 ? PAUSE_MS : 0;
      } catch (error) {
        if (isAborted(error)) return 0;
        const from =
          error instanceof ServiceError && error.status === GONE && error.headers.get('idempay-settlements-from');
        if (from) {
          place = { after: undefined, from };
          return PAUSE_MS;
        }
        setFollowed(({ settlements }) => ({ settlements, problem: sentenceOf(error) }));
        return PAUSE_AFTER_FAILURE_MS;
      }
    }

    async function follow(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) await pause(await readPage(signal), signal);
    }

    function onVisibility() {
      reading?.abort();
      if (document.hidden) return;
      reading = new AbortController();
      void follow(reading.signal);
    }

    onVisibility();
    document.addEventListener('visibilitychange', onVisibility);
    return () => {
      reading?.abort();
      document.removeEventListener('visibilitychange', onVisibility);
    };
  }, [http, client]);
  return followed;
}

/** Newest first. A settlement that comes again replaces itself. */
function joined(shown: readonly Payment[], page: readonly Payment[]): readonly Payment[] {
  const keys = new Set(page.map(({ idempotencyKey }) => idempotencyKey));
  const others = shown.filter(({ idempotencyKey }) => !keys.has(idempotencyKey));
  return [...page.toReversed(), ...others].slice(0, MOST_SHOWN);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms === 0 || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
