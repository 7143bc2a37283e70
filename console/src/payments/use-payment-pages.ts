import { nextCursor } from '@idempay/client/next-cursor';
import { useEffect, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { useWork } from '../parts/use-work.js';
import type { Filters } from './filters.js';
import type { Payment } from './payment.js';

const PAGE = 50;

interface Pages {
  readonly payments: readonly Payment[];
  readonly cursor: string | undefined;
  /** The last page was short although there is more: the service reads only so many rows for one. */
  readonly isShort: boolean;
}

const NOTHING: Pages = { payments: [], cursor: undefined, isShort: false };

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
  const { problem, isWorking, run } = useWork(true);

  function load(before: Pages): void {
    setPages(before);
    run(async (signal) => {
      const query = { ...filters, limit: PAGE, cursor: before.cursor };
      const { body, headers } = await http.ask<Payment[]>('api/payments', { query, signal });
      const cursor = nextCursor(headers);
      return {
        payments: [...before.payments, ...body],
        cursor,
        isShort: cursor !== undefined && body.length < PAGE,
      };
    }, setPages);
  }

  useEffect(() => load(NOTHING), [http, JSON.stringify(filters)]);

  const { payments, cursor, isShort } = pages;
  return {
    payments,
    hasMore: cursor !== undefined,
    isLoading: isWorking,
    problem,
    endedEarly: isShort,
    more: () => load(pages),
    refresh: () => load(NOTHING),
  };
}
