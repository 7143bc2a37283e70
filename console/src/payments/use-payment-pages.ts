import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { isAborted, sentenceOf } from '../http/service-error.js';
import { nextCursor } from '../parts/pager.js';
import type { Filters } from './filters.js';
import type { Payment } from './payment.js';

const PAGE = 50;

interface Pages {
  readonly payments: readonly Payment[];
  readonly cursor: string | undefined;
  /** The last page was short although there is more: the service reads only so many rows for one. */
  readonly isShort: boolean;
  readonly isLoading: boolean;
  readonly problem: string | undefined;
}

const NOTHING: Pages = { payments: [], cursor: undefined, isShort: false, isLoading: true, problem: undefined };

export interface PaymentPages {
  readonly payments: readonly Payment[];
  readonly hasMore: boolean;
  readonly isLoading: boolean;
  readonly problem: string | undefined;
  /** The last page ended before it was full, and there is more. */
  readonly endedEarly: boolean;
  more(): void;
  refresh(): void;
}

/** Page after page, on demand, below what is there already. Other filters begin anew. */
export function usePaymentPages(http: Http, filters: Filters): PaymentPages {
  const [pages, setPages] = useState(NOTHING);
  const [round, setRound] = useState(0);
  const controller = useRef<AbortController | undefined>(undefined);
  const asked = JSON.stringify(filters);

  const load = useCallback(
    async (before: Pages) => {
      controller.current?.abort();
      const own = new AbortController();
      const { signal } = own;
      controller.current = own;
      setPages({ ...before, isLoading: true, problem: undefined });
      try {
        const query = { ...(JSON.parse(asked) as Filters), limit: PAGE, cursor: before.cursor };
        const { body, headers } = await http.ask<Payment[]>('api/payments', { query, signal });
        const cursor = nextCursor(headers);
        setPages({
          payments: before.cursor === undefined ? body : [...before.payments, ...body],
          cursor,
          isShort: cursor !== undefined && body.length < PAGE,
          isLoading: false,
          problem: undefined,
        });
      } catch (error) {
        if (signal.aborted || isAborted(error)) return;
        setPages({ ...before, isLoading: false, problem: sentenceOf(error) });
      }
    },
    [http, asked],
  );

  useEffect(() => {
    void load(NOTHING);
    return () => controller.current?.abort();
  }, [load, round]);

  const { payments, cursor, isShort, isLoading, problem } = pages;
  return {
    payments,
    hasMore: cursor !== undefined,
    isLoading,
    problem,
    endedEarly: isShort,
    more: () => void load(pages),
    refresh: () => setRound((count) => count + 1),
  };
}
