import type { Operation } from '../checkers/linearizability.js';

export const FINAL_STATUSES = ['FAILED', 'CANCELLED'] as const;
export const MOVABLE_STATUSES = ['PENDING', 'PROCESSING', 'ON_HOLD', 'FLAGGED', 'BLOCKED', 'COMPLETED'] as const;
export const STATUSES = [...MOVABLE_STATUSES, ...FINAL_STATUSES] as const;
export type Status = (typeof STATUSES)[number];

export type Input =
  | { readonly what: 'read' }
  /** `onlyFrom`: only if it has this status, by an `If-Match` with that status's tag. */
  | { readonly what: 'change'; readonly status: Status; readonly onlyFrom?: Status | undefined }
  | { readonly what: 'delete' };

/**
 * The answer. A read shows a status (a 304 the one whose tag it confirms), or that there is no such transaction. A write was done, or it
 * was not: there is no such transaction, its status is final, or it is not the one that If-Match names.
 */
export type Output = Status | 'gone' | 'done' | 'final' | 'not as expected';

export type Access = Operation<Input, Output>;

export interface TransactionHistory {
  readonly id: number;
  readonly status: Status;
  readonly accesses: Access[];
}

/** A create or delete that moved the list to these ids, or a read of it, answered with its tag. */
export type ListInput = { readonly movedTo: string } | 'read';
export type ListAccess = Operation<ListInput, string> & { readonly status?: number };

/** The list of one account, whose creates and deletes all come from one client, one after the other. */
export interface ListHistory {
  readonly account: string;
  readonly accesses: ListAccess[];
}

export interface Span {
  readonly sentAt: number;
  /** When its answer came; undefined if it is not known whether and when the change happened. */
  readonly endedAt: number | undefined;
}

/** One account's list, to which all clients add and from which they delete at the same time, through every process. */
export interface SharedListHistory {
  readonly account: string;
  /** Those that were acknowledged, by their ids. */
  readonly creates: Map<number, Span>;
  readonly deletes: Map<number, Span>;
  /** The ids that each read showed; a 304 stands for the ids under the tag that it confirmed. */
  readonly reads: { readonly sentAt: number; readonly endedAt: number; readonly ids: readonly number[] }[];
}
