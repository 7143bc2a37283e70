import type { Columns } from './columns.js';
import type { DayOffset, Progress, Reconciliation } from './reconcile.js';
import type { StatementFormat, StatementHead } from './statement-format.js';

/** From the page to the worker. */
export type Request =
  | { readonly type: 'look'; readonly file: File }
  | { readonly type: 'compare'; readonly file: File; readonly format: StatementFormat; readonly columns: Columns }
  /** The answer to `next`. Undefined when the export has ended. */
  | { readonly type: 'bytes'; readonly bytes: Uint8Array | undefined };

/** From the worker to the page. */
export type Reply =
  | { readonly type: 'head'; readonly head: StatementHead }
  /** The worker has no credential, so the page asks for the export and hands it over, a piece for each of these. */
  | { readonly type: 'next'; readonly day: DayOffset }
  | { readonly type: 'progress'; readonly progress: Progress }
  | { readonly type: 'result'; readonly result: Reconciliation }
  /** For a person. */
  | { readonly type: 'failed'; readonly sentence: string };
