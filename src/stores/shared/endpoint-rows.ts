import type { FeedPosition } from '../../payments/settlement-feed.js';
import type { EndpointRow, SetAside, TakeResult } from '../../webhooks/ports/endpoint-rows.js';

/** A cause is for people; a longer one is cut. */
export const LONGEST_CAUSE = 200;

/** The row of one endpoint, as both databases give it; `position` members are null if the lease was not taken. */
export interface TakenRow {
  /** Null if there is no row. */
  readonly name: string | null;
  readonly stopped_by: EndpointRow['stoppedBy'] | null;
  /** The row is of another client, and nobody has its lease. */
  readonly is_other: boolean | number;
  readonly taken: boolean | number;
  readonly incarnation: string;
  readonly at_us: number;
  readonly key: string | null;
  readonly set_aside: number;
  readonly is_due: boolean | number;
}

export function takeResultOf(row: TakenRow | undefined): TakeResult {
  if (!row || row.name === null || row.is_other) return { state: 'new' };
  if (!row.taken) return { state: row.stopped_by === null ? 'held' : 'stopped' };
  return { state: 'taken', position: positionOf(row), setAside: Number(row.set_aside), isDue: Boolean(row.is_due) };
}

export interface ListedRow {
  readonly name: string;
  readonly client: string | null;
  readonly stopped_by: EndpointRow['stoppedBy'] | null;
  readonly incarnation: string;
  readonly at_us: number;
  readonly key: string | null;
  readonly set_aside: number;
}

export function endpointRowOf(row: ListedRow): EndpointRow {
  const [client, stoppedBy] = [row.client ?? undefined, row.stopped_by ?? undefined];
  return { name: row.name, client, stoppedBy, position: positionOf(row), setAside: Number(row.set_aside) };
}

function positionOf({ incarnation, at_us, key }: Pick<ListedRow, 'incarnation' | 'at_us' | 'key'>): FeedPosition {
  return { incarnation, atUs: Number(at_us), key: key ?? undefined };
}

export interface SetAsideRow {
  readonly key: string;
  readonly cause: string;
  readonly set_aside_at: number;
  readonly next_try_at: number | null;
}

export function setAsideOf(row: SetAsideRow): SetAside {
  return { key: row.key, cause: row.cause, setAsideAt: row.set_aside_at, nextTryAt: row.next_try_at ?? undefined };
}
