import { useEffect, useState } from 'preact/hooks';
import type { Http } from '../http/http.js';
import { useWork } from '../parts/use-work.js';
import { type Filter, type Page, search, type Transaction } from './transaction.js';

/** Most rows in the page at once, so that the browser stays fast. */
const MOST_SHOWN = 400;
const ENOUGH = 50;

interface Shown extends Page {
  /** The cursor before the first row shown. Undefined if nothing newer was left out. */
  readonly start: string | undefined;
}

export interface Transactions {
  /** Undefined before the first answer. */
  readonly shown: Shown | undefined;
  readonly problem: string | undefined;
  readonly isLoading: boolean;
  older(): void;
  newest(): void;
  /** Reads the shown rows as they are now; they stay where they are. */
  refresh(): void;
  replace(transaction: Transaction): void;
  leaveOut(id: number): void;
}

/** The transactions of a filter, newest first: more of them on demand. */
export function useTransactions(http: Http, filter: Filter): Transactions {
  const [shown, setShown] = useState<Shown>();
  const { problem, isWorking, run } = useWork(true);
  const load = (ask: (signal: AbortSignal) => Promise<Shown>) => run(ask, setShown);

  const newest = () =>
    load(async (signal) => ({ ...(await search(http, filter, undefined, isEnough, signal)), start: undefined }));

  const older = () =>
    load(async (signal) => {
      const { rows, next } = await search(http, filter, shown?.next, isEnough, signal);
      const all = [...(shown?.rows ?? []), ...rows];
      const kept = all.slice(-MOST_SHOWN);
      const [first] = kept;
      const start = kept.length < all.length && first ? String(first.transactionId + 1) : shown?.start;
      return { rows: kept, next, start };
    });

  const refresh = () => {
    const last = shown?.rows.at(-1)?.transactionId;
    if (!shown || last === undefined) return newest();
    const reached = (rows: readonly Transaction[]) =>
      (rows.at(-1)?.transactionId ?? Number.POSITIVE_INFINITY) <= last || rows.length >= MOST_SHOWN;
    return load(async (signal) => ({
      ...(await search(http, filter, shown.start, reached, signal)),
      start: shown.start,
    }));
  };

  useEffect(() => {
    setShown(undefined);
    newest();
  }, [http, filter.id, filter.from, filter.to, filter.status]);

  const change = (rows: (before: readonly Transaction[]) => readonly Transaction[]) =>
    setShown((before) => before && { ...before, rows: rows(before.rows) });

  return {
    shown,
    problem,
    isLoading: isWorking,
    older,
    newest,
    refresh,
    replace: (transaction) =>
      change((rows) => rows.map((row) => (row.transactionId === transaction.transactionId ? transaction : row))),
    leaveOut: (id) => change((rows) => rows.filter(({ transactionId }) => transactionId !== id)),
  };
}

function isEnough(rows: readonly Transaction[]): boolean {
  return rows.length >= ENOUGH;
}
