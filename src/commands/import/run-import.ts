import type { NewTransaction } from '../../transactions/transaction.js';
import { UsageError } from '../usage.js';
import { type Batch, batchesOf, newHash } from './batches.js';
import { columnsOf, csvRows } from './csv.js';
import { type FindBatch, outcomeOfEarlier } from './earlier-batch.js';
import {
  batchKey,
  type ImportState,
  type PendingBatch,
  type RefusedRow,
  type StateFile,
  type Target,
} from './import-state.js';
import { contentOf, type Line, linesFrom } from './lines.js';
import type { RejectedRows } from './rejected-rows.js';
import { isText, type Row, readNdjsonRow, rejected } from './rows.js';

/** What became of a batch that was sent. Everything else is thrown, and the batch stays pending. */
export type SendResult =
  | { readonly state: 'created' }
  /** It created nothing, because of this row: the index counts those that were sent. Undefined: because of something else. */
  | { readonly state: 'refused'; readonly index: number | undefined; readonly reason: string };

export interface ImportParts {
  readonly input: () => AsyncIterable<Buffer>;
  readonly state: StateFile;
  readonly rejectedRows: RejectedRows;
  readonly send: (rows: readonly NewTransaction[], idempotencyKey: string) => Promise<SendResult>;
  readonly find: FindBatch;
  readonly mostRows: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Of this run. */
  readonly target: Target;
  /** Of the first batch, sent in an earlier run: whether the service may have forgotten its key. */
  readonly mayBeForgotten: (pending: PendingBatch) => boolean;
  /** What the user found out about such a batch. */
  readonly assumed: 'created' | 'not created' | undefined;
  readonly progress: (state: ImportState) => void;
}

/** The outcome of the batch that was sent last cannot be found out any more. */
class UnknownBatchError extends Error {
  override readonly name = 'UnknownChangeError';
}

/**
 * Imports what the state says is left, one batch at a time. Before a batch is sent, its rows and its key are saved in the state.
 *
 * - A crash before that save: the batch was not sent, and is made again from the same bytes.
 * - A crash after it, before or after the send: the service is asked whether it knows the key. If it does not, and cannot have
 *   forgotten it, the same rows are sent with the same key.
 * - A crash after the answer: the same, and the service returns the stored answer.
 * - A crash after the rejected rows are written: the file is cut to the length in the state, and they are written again.
 */
export async function runImport(parts: ImportParts): Promise<ImportState> {
  const { state: file, rejectedRows, mostRows, progress } = parts;
  const begun = file.read() as ImportState;
  /** Keys belong to a client, and another credential may be another client's. */
  const isOtherClient = begun.target.credential !== parts.target.credential;
  let state: ImportState = { ...begun, target: parts.target };
  const hash = newHash();
  const earlier = state.pending;
  let mustCheck = state.offset > 0 || earlier !== undefined;
  const { offset, line } = state;
  const lines = linesFrom(parts.input(), { offset, number: line }, (bytes) => void hash.update(bytes));

  for await (const batch of batchesOf(rowsOf(lines), mostRows, { firstEnd: earlier?.end, hash })) {
    if (mustCheck && earlier) refuseOther(batch.digest, earlier.end === batch.end);
    mustCheck = false;
    await create(batch);
  }
  if (mustCheck) refuseOther(hash.digest('hex'), earlier === undefined);
  save({ ...state, pending: undefined, finishedAt: new Date(parts.now()).toISOString() });
  return state;

  function save(next: ImportState): void {
    state = next;
    file.save(next);
  }

  /** Throws when input that was imported already has changed. Later rows may have been corrected. */
  function refuseOther(digest: string, isAligned: boolean): void {
    if (isAligned && digest === state.digest) return;
    throw new UsageError(
      'The rows that were imported already are not the same any more. Put the input back as it was. What follows after them may change.',
    );
  }

  async function* rowsOf(source: AsyncGenerator<Line>): AsyncGenerator<Row> {
    const { format, delimiter, ignored } = state.reading;
    let first = await source.next();
    if (mustCheck && !earlier) {
      refuseOther(hash.copy().digest('hex'), true);
      mustCheck = false;
    }
    if (format === 'ndjson') {
      for (; !first.done; first = await source.next()) yield ndjsonRow(first.value, ignored);
      return;
    }
    let { columns } = state;
    if (columns === undefined) {
      if (first.done) throw new UsageError('The input is empty.');
      const { bytes, end, number } = first.value;
      columns = columnsOf(first.value, delimiter, ignored);
      hash.update(bytes);
      state = { ...state, columns, offset: end, line: number + 1, digest: hash.copy().digest('hex') };
      first = await source.next();
    }
    if (!first.done) yield* csvRows(startingWith(first.value, source), columns, delimiter);
  }

  async function create(batch: Batch): Promise<void> {
    const before = state;
    const known = before.pending;
    let refused: readonly RefusedRow[] = known?.refused ?? [];
    /** Of a batch that the state has already. */
    let sequence = known?.sequence;
    for (let isFirst = true; ; isFirst = false) {
      const sent = batch.good.filter((row) => !refused.some(({ line: number }) => number === row.line));
      if (sent.length === 0) break;
      const wanted = sent.map(({ transaction }) => transaction);
      const earlier = isFirst && known ? await outcomeOf(batch, known, wanted) : undefined;
      // Only an answer of the service can prove something about later batches, so an assumption of the user is not stored.
      if (known && earlier === 'created') state = { ...state, createdSequence: known.sequence };
      if (earlier === 'created' || earlier === 'assumed created') break;
      if (sequence === undefined) {
        sequence = state.nextSequence;
        const pending = { sequence, end: batch.end, rows: sent.length, refused, sentAt: parts.now() };
        save({ ...state, pending, nextSequence: sequence + 1, digest: batch.digest });
      }
      const result = await parts.send(wanted, batchKey(state.importId, sequence));
      if (result.state === 'created') {
        state = { ...state, createdSequence: sequence };
        break;
      }
      sequence = undefined;
      const row = result.index === undefined ? undefined : sent[result.index];
      if (!row) {
        // It created nothing, so its rows may come in other batches later.
        save({ ...before, pending: undefined, nextSequence: state.nextSequence });
        throw new UsageError(`The service refuses ${linesOf(batch)}: ${result.reason}`);
      }
      refused = [...refused, { line: row.line, reason: result.reason }];
    }
    finish(batch, refused, before);
  }

  function linesOf(batch: Batch): string {
    return `lines ${state.line} to ${batch.nextLine - 1}`;
  }

  /** Of a batch that an earlier run may have sent: what the service knows, or else what the user found out. */
  async function outcomeOf(
    batch: Batch,
    known: PendingBatch,
    wanted: readonly NewTransaction[],
  ): Promise<'created' | 'assumed created' | 'not created'> {
    const isTooOld = isOtherClient || parts.mayBeForgotten(known);
    const outcome = await outcomeOfEarlier({ ...state, pending: known }, wanted, isTooOld, parts.find);
    if (outcome === 'created' || outcome === 'not created') return outcome;
    if (parts.assumed === undefined) {
      throw new UnknownBatchError(
        `The ${linesOf(batch)} were sent at ${new Date(known.sentAt).toISOString()}, and no answer was kept. ${outcome.doubt} ${HOW_TO_FIND_OUT}`,
      );
    }
    return parts.assumed === 'created' ? 'assumed created' : 'not created';
  }

  /** Saved with the next batch that is sent. A crash before that repeats this batch, which changes nothing. */
  function finish(batch: Batch, refused: readonly RefusedRow[], before: ImportState): void {
    const more = refused.map((row) => ({
      ...row,
      row: batch.good.find(({ line: at }) => at === row.line)?.text ?? '',
    }));
    const all = [...batch.rejected, ...more].sort((a, b) => a.line - b.line);
    state = {
      ...state,
      offset: batch.end,
      line: batch.nextLine,
      created: before.created + batch.good.length - refused.length,
      rejected: before.rejected + all.length,
      rejectedBytes: rejectedRows.append(all),
      pending: undefined,
      digest: batch.digest,
    };
    progress(state);
  }
}

function ndjsonRow(line: Line, ignored: readonly string[]): Row {
  const content = contentOf(line);
  const place = { line: line.number, bytes: line.bytes, end: line.end, nextLine: line.number + 1 };
  if (content.length === 0) return { ...place, content: { state: 'empty' } };
  return { ...place, content: isText(content) ? readNdjsonRow(content, ignored) : rejected('It is not valid UTF-8.') };
}

async function* startingWith(first: Line, rest: AsyncIterable<Line>): AsyncGenerator<Line> {
  yield first;
  yield* rest;
}

const HOW_TO_FIND_OUT =
  'Look for one of its rows with idempay transactions list --from --to: all rows of a batch are there, or none. Then run the same command with --assume-created or --assume-not-created.';
