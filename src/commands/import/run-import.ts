import { UsageError } from '#idempay/cli/usage.js';
import type { NewTransaction } from '../../transactions/transaction.js';
import { type Batch, batchesOf, type Marks, NO_MARKS, sumOf } from './batches.js';
import { batchKey, type ImportState, type StateFile, type Target } from './import-state.js';
import type { RejectedRows } from './rejected-rows.js';

/** The result of a batch that was sent. Everything else is thrown, and the batch stays in doubt. */
export type SendResult =
  | { readonly state: 'created' }
  /** It created nothing, because of this row: the index counts the rows that were sent. Undefined if something else was the cause. */
  | { readonly state: 'refused'; readonly index: number | undefined; readonly reason: string };

/** The service's knowledge of a key. */
export type Found =
  /** It has created these rows. */
  | 'these rows'
  | 'other rows'
  /** It does not know the key: it was never used, or its life is over. */
  | 'nothing'
  /** It refuses the rows as they are, before it looks at the key. */
  | 'refused';

/** How far the import is. */
export interface Place {
  /** Bytes of the input. */
  readonly offset: number;
  readonly line: number;
  readonly created: number;
  readonly rejected: number;
  readonly marks: Marks;
}

export interface ImportParts {
  /** The same bytes in each run: the caller has compared their digest. */
  readonly input: AsyncIterable<Buffer>;
  readonly state: StateFile;
  readonly rejectedRows: RejectedRows;
  readonly send: (rows: readonly NewTransaction[], idempotencyKey: string) => Promise<SendResult>;
  /** Asks, and creates nothing. */
  readonly find: (rows: readonly NewTransaction[], idempotencyKey: string) => Promise<Found>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** The service and the client for which this run creates. */
  readonly target: Target;
  /** True if the service may have forgotten a key that was used at that time. Counts for the first batch only. */
  readonly mayBeForgotten: (sentAt: number) => boolean;
  /** The result that the user found out for the batch that an earlier run sent. */
  readonly assumed: 'created' | 'not created' | undefined;
  readonly progress: (place: Place) => void;
}

/** The outcome of the batch that was sent last cannot be found out any more. */
class UnknownBatchError extends Error {
  override readonly name = 'UnknownChangeError';
}

/**
 * Imports what the state says is left, one batch at a time. Before a batch is sent, its place is saved in the state, and its key is
 * computed from that place.
 *
 * - A crash before that save: the batch was not sent.
 * - A crash after it, before or after the send or the answer: the service is asked whether it knows the key. If it does not, and cannot have
 *   forgotten it, the same rows are sent with the same key.
 * - Rejected rows are judged again by each run, and compared with the rows in their file.
 */
export async function runImport(parts: ImportParts): Promise<Place> {
  const begun = parts.state.read() as ImportState;
  /** The key of the last batch with rows before this one. */
  let keyBefore: string | undefined;
  let place: Place = { offset: 0, line: 1, created: 0, rejected: 0, marks: NO_MARKS };

  for await (const batch of batchesOf(parts.input, begun.reading)) {
    parts.rejectedRows.append(batch.rejected);
    if (batch.start < begun.offset && begun.offset < batch.end) throw new UsageError(OTHER_BATCHES);
    if (batch.good.length > 0) {
      const key = batchKey(begun.importId, batch.start);
      if (batch.start >= begun.offset) await create(batch, key);
      keyBefore = key;
    }
    place = {
      offset: batch.end,
      line: batch.lastLine + 1,
      created: place.created + batch.good.length,
      rejected: place.rejected + batch.rejected.length,
      marks: sumOf(place.marks, batch.marks),
    };
    parts.progress(place);
  }
  parts.rejectedRows.complete();
  const { offset, created, rejected } = place;
  save(offset, { finished: { at: new Date(parts.now()).toISOString(), created, rejected } });
  return place;

  function save(at: number, more: Partial<Pick<ImportState, 'sentAt' | 'finished'>>): void {
    parts.state.save({ ...begun, target: parts.target, offset: at, sentAt: undefined, ...more });
  }

  async function create(batch: Batch, key: string): Promise<void> {
    const rows = batch.good.map(({ transaction }) => transaction);
    const sentAt = batch.start === begun.offset ? begun.sentAt : undefined;
    if (sentAt === undefined) save(batch.start, { sentAt: parts.now() });
    else if ((await outcomeOfEarlier(batch, { rows, key, sentAt })) === 'created') return;
    const result = await parts.send(rows, key);
    if (result.state === 'created') return;
    save(batch.start, {});
    const line = result.index === undefined ? undefined : batch.good[result.index]?.line;
    const refused = line === undefined ? `lines ${batch.firstLine} to ${batch.lastLine}` : `line ${line}`;
    throw new UsageError(
      `The service refuses ${refused}: ${result.reason} Import the lines from ${batch.firstLine} on as a file of their own, after the correction.`,
    );
  }

  /**
   * The result of the batch that an earlier run may have sent. The service forgets keys in the order of their use. So if it does not know
   * this key, and afterwards still knows the key of the batch before, this key was never used. That is certain as long as
   * `IDEMPOTENCY_TTL_SECONDS` was not shortened between the two batches. It also proves that the credential is of the same client. The
   * first batch has none before it: there its age decides.
   */
  async function outcomeOfEarlier(
    batch: Batch,
    { rows, key, sentAt }: { readonly rows: readonly NewTransaction[]; readonly key: string; readonly sentAt: number },
  ): Promise<'created' | 'not created'> {
    const found = await parts.find(rows, key);
    if (found === 'these rows') return 'created';
    if (found === 'other rows') throw new UsageError(OTHER_BATCHES);
    if (found === 'nothing' && !(await mayHaveForgotten())) return 'not created';
    if (parts.assumed !== undefined) return parts.assumed;
    throw new UnknownBatchError(
      `The lines ${batch.firstLine} to ${batch.lastLine} were sent at ${new Date(sentAt).toISOString()}, and no answer was kept. ${found === 'refused' ? NOW_REFUSED : FORGOTTEN} ${HOW_TO_FIND_OUT}`,
    );

    async function mayHaveForgotten(): Promise<boolean> {
      // Keys belong to a client, and another credential may be another client's.
      const isOtherClient = begun.target.credential !== parts.target.credential;
      if (keyBefore === undefined) return isOtherClient || parts.mayBeForgotten(sentAt);
      const before = await parts.find(rows, keyBefore);
      return before === 'nothing' || before === 'refused';
    }
  }
}

const OTHER_BATCHES =
  'The batches of this input are not those of the earlier run. Go on with the version of the command that began the import.';
const NOW_REFUSED = 'Now the service refuses them, which does not say what it did before.';
const FORGOTTEN =
  'The service does not know their key. It may have forgotten it (IDEMPOTENCY_TTL_SECONDS), or it belongs to the client of another API key.';
const HOW_TO_FIND_OUT =
  'Look for one of its rows with idempay transactions list --from --to: all rows of a batch are there, or none. Then run the same command with --assume-created or --assume-not-created.';
