import { nextCursor } from '@idempay/client/next-cursor';
import { useEffect, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { useWork } from '../parts/use-work.js';
import type { Payment } from './payment.js';
import type { Source } from './search.js';

const PAGE = 50;

/** How far one list was read. */
export interface Looked {
  readonly source: Source;
  readonly found: number;
  /** A search in content has looked at all payments that were claimed since this time. Undefined for other searches. */
  readonly searchedFrom: string | undefined;
  readonly isWhole: boolean;
}

interface Pages {
  readonly payments: readonly Payment[];
  /** The lists that were begun, the last of which may go on at the cursor. */
  readonly looked: readonly Looked[];
  readonly cursor: string | undefined;
  readonly hasMore: boolean;
  /** The last page was short although there is more: the service reads a limited number of rows for one. */
  readonly isShort: boolean;
}

const NOTHING: Pages = { payments: [], looked: [], cursor: undefined, hasMore: true, isShort: false };

export interface PaymentPages extends Omit<Pages, 'cursor' | 'isShort'> {
  readonly isLoading: boolean;
  readonly problem: string | undefined;
  /** The last page ended before it was full, and there is more. */
  readonly endedEarly: boolean;
  more(): void;
  stop(): void;
  refresh(): void;
}

/**
 * Page after page, on demand, below what is there already; several lists one after the other. A search in content goes on by itself until a
 * page is full, because each answer reads only some rows. Other filters begin anew.
 */
export function usePaymentPages(http: Http, sources: readonly Source[]): PaymentPages {
  const [pages, setPages] = useState(NOTHING);
  const { problem, isWorking, run, cancel } = useWork(true);

  function load(before: Pages): void {
    setPages(before);
    run(async (signal) => {
      const goal = before.payments.length + PAGE;
      let now = before;
      do {
        now = await nextPage(http, sources, now, signal);
        if (!signal.aborted) setPages(now);
      } while (now.hasMore && now.payments.length < goal && goesOn(now));
      return now;
    }, setPages);
  }

  useEffect(() => load(NOTHING), [http, JSON.stringify(sources)]);

  const { payments, looked, hasMore, isShort } = pages;
  return {
    ...{ payments, looked, hasMore, problem },
    isLoading: isWorking,
    endedEarly: isShort,
    more: () => load(pages),
    stop: cancel,
    refresh: () => load(NOTHING),
  };
}

/** To the next list, and through the content; any other list waits for a person. */
const goesOn = ({ cursor, looked }: Pages) => cursor === undefined || looked.at(-1)?.source.looksIn === 'content';

async function nextPage(http: Http, sources: readonly Source[], before: Pages, signal: AbortSignal): Promise<Pages> {
  const { cursor: at, looked } = before;
  const begun = at === undefined ? undefined : looked.at(-1);
  const earlier = begun ? looked.slice(0, -1) : looked;
  const source = begun?.source ?? sources[earlier.length];
  if (!source) return { ...before, hasMore: false };
  const query = { ...source.query, limit: PAGE, cursor: at };
  const { body, headers } = await http.ask<Payment[]>('api/payments', { query, signal });
  const cursor = nextCursor(headers);
  const known = new Set(before.payments.map(({ idempotencyKey }) => idempotencyKey));
  const one: Looked = {
    source,
    found: (begun?.found ?? 0) + body.length,
    searchedFrom: headers.get('idempay-searched-from') ?? undefined,
    isWhole: cursor === undefined,
  };
  return {
    payments: [...before.payments, ...body.filter(({ idempotencyKey }) => !known.has(idempotencyKey))],
    looked: [...earlier, one],
    cursor,
    hasMore: cursor !== undefined || earlier.length + 1 < sources.length,
    isShort: cursor !== undefined && body.length < PAGE,
  };
}
