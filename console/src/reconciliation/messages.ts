import type {
  DayOffset,
  PaymentNames,
  Progress,
  Reading,
  Reconciliation,
  StatementFormat,
  StatementHead,
} from '@idempay/statements';

/** From the page to the worker. */
export type Request =
  /** `delimiter`: as a person says. */
  | { readonly type: 'look'; readonly file: File; readonly delimiter: string | undefined }
  | { readonly type: 'compare'; readonly file: File; readonly format: StatementFormat; readonly reading: Reading }
  /** The answer to `next`. Undefined when the export has ended. */
  | { readonly type: 'bytes'; readonly bytes: Uint8Array | undefined }
  /** The answer to `name`. */
  | { readonly type: 'names'; readonly names: PaymentNames | undefined };

/** From the worker to the page. */
export type Reply =
  | { readonly type: 'head'; readonly head: StatementHead }
  /** The worker has no credential, so the page asks for the export and hands it over, a piece for each of these. */
  | { readonly type: 'next'; readonly day: DayOffset }
  /** Asks for the order number of a payment of another day, a refund of which may be on the statement. */
  | { readonly type: 'name'; readonly payment: string }
  | { readonly type: 'progress'; readonly progress: Progress }
  /** `differences`: all of them, as a CSV file. */
  | { readonly type: 'result'; readonly result: Reconciliation; readonly differences: Blob }
  /** For a person. */
  | { readonly type: 'failed'; readonly sentence: string };
