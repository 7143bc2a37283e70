import type { NewTransaction } from '../../transactions/transaction.js';
import { UsageError } from '../usage.js';
import { type Batch, batchesOf, newHash } from './batches.js';
import { columnsOf, csvRows } from './csv.js';
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
  readonly mostRows: number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Of this run. */
  readonly target: Target;
  /** Of a batch that was sent in an earlier run: whether the service may have forgotten its key. */
  readonly mayBeForgotten: (pending: PendingBatch) => boolean;
  /** What the user found out about such a batch. */
  readonly assumed: 'created' | 'not created' | undefined;
  readonly progress: (state: ImportState) => void;
}

/** The outcome of the batch that was sent last cannot be found out any more. */
export class UnknownBatchError extends Error {
  override readonly name = 'UnknownChangeError';
}

/**
 * Imports what the state says is left, one batch at a time. Before a batch is sent the state says which rows it has, and by which key.
 *
 * - Dies before that is durable: the batch is made anew from the same bytes, and was not sent.
 * - Dies after it, before or after the send: the same rows are sent with the same key, and are created once.
 * - Dies after the answer: the same; the answer is the stored one.
 * - Dies after the rejected rows are written: the file is cut to what the state knows, and they are written again.
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

  /** Of what was read before nothing may have changed. What comes after may have been corrected. */
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
    /** Sent in an earlier run, so that only its own key can tell what became of it. */
    let isEarlier = known !== undefined;
    let isCreated = false;
    if (known && (isOtherClient || parts.mayBeForgotten(known))) assume(forgotten(before, batch, known));

    while (!isCreated) {
      const sent = batch.good.filter((row) => !refused.some(({ line: number }) => number === row.line));
      if (sent.length === 0) break;
      const sequence = isEarlier && known ? known.sequence : state.nextSequence;
      if (!isEarlier) {
        const pending = { sequence, end: batch.end, rows: sent.length, refused, sentAt: parts.now() };
        save({ ...state, pending, nextSequence: sequence + 1, digest: batch.digest });
      }
      const wanted = sent.map(({ transaction }) => transaction);
      const result = await parts.send(wanted, batchKey(state.importId, sequence));
      if (result.state === 'created') break;
      if (isEarlier) {
        assume(refusedLater(before, batch, result.reason));
        continue;
      }
      const row = result.index === undefined ? undefined : sent[result.index];
      if (!row) {
        // It created nothing, so its rows may come in other batches later.
        save({ ...before, pending: undefined, nextSequence: state.nextSequence });
        throw new UsageError(`The service refuses lines ${before.line} to ${batch.nextLine - 1}: ${result.reason}`);
      }
      refused = [...refused, { line: row.line, reason: result.reason }];
    }
    finish(batch, refused, before);

    /** What the user found out about the earlier run, or else the error that asks for it. */
    function assume(doubt: UnknownBatchError): void {
      if (parts.assumed === undefined) throw doubt;
      isCreated = parts.assumed === 'created';
      isEarlier = false;
    }
  }

  /** Kept with the next batch that is sent: until then a crash repeats this one, which changes nothing. */
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
  'Look for its first row with idempay transactions list --from --to: all rows of a batch are there, or none. Then run the same command with --assume-created or --assume-not-created.';

function forgotten(state: ImportState, batch: Batch, { sentAt }: PendingBatch): UnknownBatchError {
  return new UnknownBatchError(
    `Lines ${state.line} to ${batch.nextLine - 1} were sent at ${new Date(sentAt).toISOString()}, and no answer was kept. The service may have forgotten their key since (--key-life), or it belongs to the client of another API key: sending them again may create them twice. ${HOW_TO_FIND_OUT}`,
  );
}

function refusedLater(state: ImportState, batch: Batch, reason: string): UnknownBatchError {
  return new UnknownBatchError(
    `Lines ${state.line} to ${batch.nextLine - 1} were sent before, and no answer was kept. Now the service refuses them (${reason}), which does not say what it did before. ${HOW_TO_FIND_OUT}`,
  );
}
