import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import { type Connection, type ConnectionOptions, connect } from '#idempay/cli/connection.js';
import { EXIT, type ExitCode } from '#idempay/cli/exit-codes.js';
import { type OutputOptions, printRecord } from '#idempay/cli/output/results.js';
import { write } from '#idempay/cli/output/terminal.js';
import { UsageError } from '#idempay/cli/usage.js';
import type { NewTransaction } from '../../transactions/transaction.js';
import { batchesOf, digestOf, type Marks, NO_MARKS, sumOf } from './batches.js';
import { ignoreOption, nameOf } from './columns.js';
import { cellsOf } from './csv.js';
import { type ImportState, openStateFile, type Reading, type StateFile, type Target } from './import-state.js';
import { type Input, openInput } from './input.js';
import { showProgress } from './progress.js';
import { openRejectedRows } from './rejected-rows.js';
import { type Found, type Place, runImport, type SendResult } from './run-import.js';

interface ImportOptions extends ConnectionOptions, OutputOptions {
  readonly format?: 'csv' | 'ndjson' | undefined;
  readonly delimiter: string;
  readonly ignore?: readonly string[] | undefined;
  readonly batchRows: number;
  readonly dryRun?: true | undefined;
  readonly state?: string | undefined;
  readonly rejected?: string | undefined;
  readonly keyLife: number;
  readonly assumeCreated?: true | undefined;
  readonly assumeNotCreated?: true | undefined;
}

/** `idempay transactions import`. The first run and every run after a crash are the same command. */
export async function importTransactions(file: string, options: ImportOptions): Promise<ExitCode> {
  const reading = readingOf(file, options);
  if (options.dryRun) return dryRun(file, reading);

  const connection = await connect(options);
  const input = await openInput(file);
  try {
    const stateFile = openStateFile(statePath(input, options));
    try {
      return await importInput(input, { reading, connection, stateFile, options });
    } finally {
      stateFile.close();
    }
  } finally {
    await input.close();
  }
}

interface Import {
  readonly reading: Reading;
  readonly connection: Connection;
  readonly stateFile: StateFile;
  readonly options: ImportOptions;
}

async function importInput(input: Input, { reading, connection, stateFile, options }: Import): Promise<ExitCode> {
  const rejectedFile = resolve(options.rejected ?? `${input.path ?? 'stdin'}.rejected.ndjson`);
  const known = stateFile.read();
  if (known) refuseOtherImport(known, reading, connection);
  const digest = await digestOf(input.read());
  if (known) refuseOtherInput(known, digest);
  if (known?.finished) {
    console.error(
      `This file was imported at ${known.finished.at}: nothing was sent now. To create it again, remove its state.`,
    );
    return tellRepeated(known.finished, rejectedFile, options);
  }
  const begun = known ?? newState(reading, connection.identity, digest);
  if (!known) begin(stateFile, begun, rejectedFile);

  const progress = showProgress(input.bytes, begun.offset);
  const rejectedRows = openRejectedRows(rejectedFile);
  let latest: Place | undefined;
  let hasSent = begun.sentAt !== undefined;
  try {
    const end = await runImport({
      input: input.read(),
      state: stateFile,
      rejectedRows,
      async send(rows, idempotencyKey) {
        await input.refuseChange();
        hasSent = true;
        return send(connection, rows, idempotencyKey);
      },
      find: (rows, idempotencyKey) => find(connection, rows, idempotencyKey),
      now: Date.now,
      target: connection.identity,
      mayBeForgotten: (sentAt) => mayBeForgotten(sentAt, options),
      assumed: options.assumeCreated ? 'created' : options.assumeNotCreated ? 'not created' : undefined,
      progress(place) {
        latest = place;
        progress.update(place);
      },
    });
    progress.stop();
    warnOfThousands(end.marks);
    return await tellEnd(end, rejectedFile, options);
  } catch (error) {
    progress.stop();
    throw withAdvice(error as Error, latest, hasSent);
  } finally {
    rejectedRows.close();
  }
}

/** A negative age (the clock was set back) counts as too old. The last attempt may be made at the deadline. */
function mayBeForgotten(sentAt: number, { deadline, keyLife }: ImportOptions): boolean {
  const ageMs = Date.now() - sentAt;
  return ageMs < 0 || ageMs + deadline * 1000 >= keyLife * 1000;
}

/** The client repeats until the deadline, with the same key. */
async function send(
  { idempay, call }: Connection,
  rows: readonly NewTransaction[],
  idempotencyKey: string,
): Promise<SendResult> {
  try {
    await idempay.transactions.createBatch(rows, { ...call, idempotencyKey });
    return { state: 'created' };
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'InvalidRequestError') throw error;
    const [, index, problem] = /^transactions\[(\d+)\]: (.*)$/s.exec(error.message) ?? [];
    return {
      state: 'refused',
      index: index === undefined ? undefined : Number(index),
      reason: problem ?? error.message,
    };
  }
}

/** No list has this tag, so nothing is created. A key that is known is answered before the precondition (rule T9). */
const NEVER_MATCHES = { 'if-match': '"only asks"' };

/** The service's knowledge of the key. A 412 is final for this question, also after an attempt whose answer was lost. */
async function find({ asking, call }: Connection, rows: readonly NewTransaction[], key: string): Promise<Found> {
  try {
    await asking(NEVER_MATCHES).transactions.createBatch(rows, { ...call, idempotencyKey: key });
    return 'these rows';
  } catch (error) {
    if (isPreconditionRefused(error)) return 'nothing';
    const { name } = error as Error;
    if (name === 'MismatchError') return 'other rows';
    if (name === 'InvalidRequestError') return 'refused';
    throw error;
  }
}

/** The service's own 412. The status alone proves nothing: a gateway's page may have it as well. */
function isPreconditionRefused(error: unknown): boolean {
  const { name, cause } = error as Error;
  const refusal = (name === 'UnknownChangeError' ? cause : error) as (Error & { status?: number }) | undefined;
  return refusal?.name === 'ConflictError' && refusal.status === 412;
}

/** The same judgement, without the service. */
async function dryRun(file: string, reading: Reading): Promise<ExitCode> {
  const input = await openInput(file);
  try {
    let created = 0;
    let rejected = 0;
    let marks = NO_MARKS;
    for await (const batch of batchesOf(input.read(), reading)) {
      created += batch.good.length;
      rejected += batch.rejected.length;
      marks = sumOf(marks, batch.marks);
      await write(batch.rejected.map((row) => `${JSON.stringify(row)}\n`).join(''));
    }
    console.error(`${created} rows would be created, ${rejected} rejected. Nothing was sent.`);
    warnOfThousands(marks);
    return rejected > 0 ? EXIT.rejectedRows : EXIT.done;
  } finally {
    await input.close();
  }
}

/** One amount alone does not say what its point means, but the others of the file do. */
function warnOfThousands({ thousands, commas, points }: Marks): void {
  if (thousands === 0 || (commas === 0 && points > 0)) return;
  const shown =
    commas > 0
      ? `${commas} with a decimal comma or several points, such as 100,50, were rejected, and ${thousands} such as 1.500 were read as 1.5.`
      : `${thousands} such as 1.500 were read as 1.5, and every point in this file has exactly three digits after it.`;
  console.error(`Check the amounts: ${shown} If 1.500 is a thousand and a half in this file, these are wrong.`);
}

function readingOf(file: string, { format, delimiter, ignore, batchRows }: ImportOptions): Reading {
  const known = { '.csv': 'csv', '.ndjson': 'ndjson', '.jsonl': 'ndjson' } as const;
  const found = format ?? known[extname(file).toLowerCase() as keyof typeof known];
  if (found === undefined) throw new UsageError('Say what the file is: --format csv, or --format ndjson.');
  const ignored = new Set(ignore?.flatMap(namesIn).map(nameOf));
  return { format: found, delimiter, ignored: [...ignored].sort(), batchRows };
}

function namesIn(text: string): readonly string[] {
  const names = cellsOf(Buffer.from(text), ',');
  if (names) return names;
  throw new UsageError(
    `--ignore takes names with commas between them. A name with a comma or a quote is put in quotes, and each quote in it is doubled: ${ignoreOption(['Fee, EUR', 'Size "L"'])}`,
  );
}

function statePath({ path }: Input, { state }: ImportOptions): string {
  if (state !== undefined) return state;
  if (path !== undefined) return `${path}.import`;
  throw new UsageError('Name a file with --state: without it, the import of a pipe could not go on after a crash.');
}

function begin(stateFile: StateFile, state: ImportState, rejectedFile: string): void {
  if (existsSync(rejectedFile)) {
    throw new UsageError(
      `${rejectedFile} is there already, from another import. Remove it, or name another with --rejected.`,
    );
  }
  stateFile.save(state);
}

export function newState(reading: Reading, target: Target, digest: string): ImportState {
  return { importId: randomUUID(), digest, reading, target, offset: 0, sentAt: undefined, finished: undefined };
}

/** Throws UsageError if the service or the reading of the input differs from the earlier run. */
function refuseOtherImport({ reading, target }: ImportState, now: Reading, { identity }: Connection): void {
  if (target.url !== identity.url) {
    throw new UsageError(
      `This import was begun at ${target.url}. Go on there, or name another --state to import the same file at ${identity.url} too.`,
    );
  }
  if (JSON.stringify(reading) !== JSON.stringify(now)) {
    throw new UsageError(
      'This import was begun with another --format, --delimiter, --ignore or --batch-rows. Go on with the same ones.',
    );
  }
}

function refuseOtherInput({ digest, finished }: ImportState, digestNow: string): void {
  if (digest === digestNow) return;
  throw new UsageError(
    finished === undefined
      ? 'The input is not the same any more. Put it back as it was when its import began.'
      : `Another content of this file was imported at ${finished.at}. To import this one, remove its state, or name another --state.`,
  );
}

type Counts = Pick<Place, 'created' | 'rejected'>;

async function tellEnd({ created, rejected }: Counts, file: string, options: OutputOptions): Promise<ExitCode> {
  await printRecord({ created, ...rejectedIn(file, rejected) }, options);
  return rejected > 0 ? EXIT.rejectedRows : EXIT.done;
}

/** The end of a run whose import was complete before. In JSON `created` stays the number of the whole import, for scripts. */
async function tellRepeated({ created, rejected }: Counts, file: string, options: OutputOptions): Promise<ExitCode> {
  const counts = options.json ? { created, createdNow: 0 } : { createdNow: 0, createdBefore: created };
  await printRecord({ ...counts, ...rejectedIn(file, rejected) }, options);
  return rejected > 0 ? EXIT.rejectedRows : EXIT.done;
}

function rejectedIn(file: string, rejected: number): object {
  return { rejected, ...(rejected > 0 && existsSync(file) && { rejectedRows: file }) };
}

/** This machine's disk failed in the middle of an import. */
class StoppedImportError extends Error {
  override readonly name = 'UnknownChangeError';
}

/**
 * How far the import is, for every error after its first batch may have been sent. A UsageError says itself what to do: often the same
 * command would be refused.
 */
function withAdvice(error: Error, latest: Place | undefined, hasSent: boolean): Error {
  const { line, created } = latest ?? { line: 1, created: 0 };
  if ((!hasSent && created === 0) || error.name === 'OutputError') return error;
  const isLocal = (error as NodeJS.ErrnoException).syscall !== undefined;
  const told = isLocal ? new StoppedImportError(`The import stopped: ${error.message}.`, { cause: error }) : error;
  if (/--assume/.test(told.message)) return told;
  const how = told.name === 'UsageError' ? '' : ' Run the same command again to go on: nothing is created twice.';
  told.message += `\n${created} rows are surely created, up to line ${line - 1}.${how}`;
  return told;
}
