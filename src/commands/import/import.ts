import { randomUUID } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { extname, resolve } from 'node:path';
import type { NewTransaction } from '../../transactions/transaction.js';
import { type Connection, type ConnectionOptions, connect } from '../connection.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { type OutputOptions, printRecord } from '../output/results.js';
import { write } from '../output/terminal.js';
import { UsageError } from '../usage.js';
import { newHash } from './batches.js';
import type { Found } from './earlier-batch.js';
import {
  type ImportState,
  openStateFile,
  type Reading,
  type StateFile,
  stateInMemory,
  type Target,
} from './import-state.js';
import { bytesOf } from './lines.js';
import { showProgress } from './progress.js';
import { openRejectedRows } from './rejected-rows.js';
import { runImport, type SendResult } from './run-import.js';

interface ImportOptions extends ConnectionOptions, OutputOptions {
  readonly format?: 'csv' | 'ndjson' | undefined;
  readonly delimiter: string;
  readonly ignore?: string | undefined;
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
  const input = file === '-' ? undefined : statSync(file);
  if (options.dryRun) return dryRun(file, reading, options);

  const connection = await connect(options);
  const stateFile = openState(file, options);
  try {
    const rejectedFile = resolve(options.rejected ?? `${file === '-' ? 'stdin' : file}.rejected.ndjson`);
    const before = stateFile.read() ?? begin(stateFile, reading, connection, rejectedFile);
    refuseOtherImport(before, reading, connection, rejectedFile);
    if (before.finishedAt !== undefined) return await alreadyDone(file, before, rejectedFile, options);
    if (before.offset > 0 && process.stderr.isTTY) console.error(`Goes on at line ${before.line}.`);

    const progress = showProgress(input?.isFile() ? input.size : undefined, before);
    const rejectedRows = openRejectedRows(rejectedFile, before.rejectedBytes);
    let latest = before;
    let hasSent = before.pending !== undefined;
    try {
      const end = await runImport({
        ...partsOf(file, options, connection.identity),
        state: stateFile,
        rejectedRows,
        send(rows, idempotencyKey) {
          hasSent = true;
          return send(connection, rows, idempotencyKey);
        },
        find: (rows, idempotencyKey) => find(connection, rows, idempotencyKey),
        progress(state) {
          latest = state;
          progress.update(state);
        },
      });
      progress.stop();
      return await tellEnd(end, rejectedFile, options);
    } catch (error) {
      progress.stop();
      throw withAdvice(error as Error, latest, hasSent);
    } finally {
      rejectedRows.close();
    }
  } finally {
    stateFile.close();
  }
}

function partsOf(
  file: string,
  { batchRows, keyLife, deadline, assumeCreated, assumeNotCreated }: ImportOptions,
  identity: Target,
) {
  return {
    input: () => bytesOf(file),
    mostRows: batchRows,
    now: Date.now,
    // A negative age (the clock was set back) counts as too old. The last attempt may be made at the deadline.
    mayBeForgotten({ sentAt }: { readonly sentAt: number }) {
      const ageMs = Date.now() - sentAt;
      return ageMs < 0 || ageMs + deadline * 1000 >= keyLife * 1000;
    },
    target: identity,
    assumed: assumeCreated ? ('created' as const) : assumeNotCreated ? ('not created' as const) : undefined,
  };
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

const NOWHERE: Target = { url: '', credential: '' };

/** No list has this tag, so nothing is created. A key that is known is answered before the precondition (decisions T9). */
const NEVER_MATCHES = { 'if-match': '"only asks"' };

/** What the service knows of the key. A 412 is final for this question, also after an attempt whose answer was lost. */
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

/** The service's own 412. The status alone proves nothing: an error has that of a gateway's page as well. */
function isPreconditionRefused(error: unknown): boolean {
  const { name, cause } = error as Error;
  const refusal = (name === 'UnknownChangeError' ? cause : error) as (Error & { status?: number }) | undefined;
  return refusal?.name === 'ConflictError' && refusal.status === 412;
}

/** The same judgement and batches, without the service. */
async function dryRun(file: string, reading: Reading, options: ImportOptions): Promise<ExitCode> {
  const state = stateInMemory();
  state.save(newState(reading, NOWHERE, ''));
  let output = '';
  const end = await runImport({
    ...partsOf(file, options, NOWHERE),
    state,
    rejectedRows: {
      append(rows) {
        output += rows.map((row) => `${JSON.stringify(row)}\n`).join('');
        return 0;
      },
      close() {},
    },
    find: async () => 'nothing',
    async send() {
      await write(output);
      output = '';
      return { state: 'created' };
    },
    progress() {},
  });
  await write(output);
  console.error(`${end.created} rows would be created, ${end.rejected} rejected. Nothing was sent.`);
  return end.rejected > 0 ? EXIT.rejectedRows : EXIT.done;
}

function readingOf(file: string, { format, delimiter, ignore }: ImportOptions): Reading {
  const known = { '.csv': 'csv', '.ndjson': 'ndjson', '.jsonl': 'ndjson' } as const;
  const found = format ?? known[extname(file).toLowerCase() as keyof typeof known];
  if (found === undefined) throw new UsageError('Say what the file is: --format csv, or --format ndjson.');
  return { format: found, delimiter, ignored: ignore?.split(',').map((name) => name.trim()) ?? [] };
}

function openState(file: string, { state }: ImportOptions): StateFile {
  if (state !== undefined) return openStateFile(state);
  if (file !== '-') return openStateFile(`${file}.import`);
  console.error('Without --state this import cannot go on after a crash: name a file to keep its state in.');
  return stateInMemory();
}

function begin(stateFile: StateFile, reading: Reading, { identity }: Connection, rejectedFile: string): ImportState {
  if (existsSync(rejectedFile)) {
    throw new UsageError(
      `${rejectedFile} is there already, from another import. Remove it, or name another with --rejected.`,
    );
  }
  const state = newState(reading, identity, rejectedFile);
  stateFile.save(state);
  return state;
}

export function newState(reading: Reading, target: ImportState['target'], rejectedFile: string): ImportState {
  return {
    importId: randomUUID(),
    reading,
    target,
    columns: undefined,
    offset: 0,
    line: 1,
    created: 0,
    rejected: 0,
    rejectedBytes: 0,
    rejectedFile,
    nextSequence: 1,
    createdSequence: undefined,
    pending: undefined,
    digest: newHash().digest('hex'),
    finishedAt: undefined,
  };
}

/** Throws UsageError where the service, the reading of the input or the file of rejected rows is not that of the earlier run. */
function refuseOtherImport(
  { reading, target, rejectedFile }: ImportState,
  now: Reading,
  { identity }: Connection,
  rejectedFileNow: string,
): void {
  if (rejectedFile !== rejectedFileNow) {
    throw new UsageError(
      `The rejected rows of this import are in ${rejectedFile}. Go on with --rejected ${rejectedFile}.`,
    );
  }
  if (target.url !== identity.url) {
    throw new UsageError(
      `This import was begun at ${target.url}. Go on there, or name another --state to import the same file at ${identity.url} too.`,
    );
  }
  if (JSON.stringify(reading) !== JSON.stringify(now)) {
    throw new UsageError(
      'This import was begun with another --format, --delimiter or --ignore. Go on with the same ones.',
    );
  }
}

async function alreadyDone(file: string, state: ImportState, rejectedFile: string, options: ImportOptions) {
  const hash = newHash();
  for await (const chunk of bytesOf(file)) hash.update(chunk);
  if (hash.digest('hex') !== state.digest) {
    throw new UsageError(
      `Another content of this file was imported at ${state.finishedAt}. To import this one, remove its state, or name another --state.`,
    );
  }
  console.error(
    `This file was imported at ${state.finishedAt}: nothing was sent now. To create it again, remove its state.`,
  );
  return tellEnd(state, rejectedFile, options);
}

async function tellEnd({ created, rejected }: ImportState, file: string, options: OutputOptions): Promise<ExitCode> {
  await printRecord({ created, rejected, ...(rejected > 0 && { rejectedRows: file }) }, options);
  return rejected > 0 ? EXIT.rejectedRows : EXIT.done;
}

/** This machine's disk failed in the middle of an import. */
class StoppedImportError extends Error {
  override readonly name = 'UnknownChangeError';
}

/** How far the import is, for every error after its first batch may have been sent. */
function withAdvice(error: Error, { line, created }: ImportState, hasSent: boolean): Error {
  if ((!hasSent && created === 0) || error.name === 'OutputError') return error;
  const isLocal = (error as NodeJS.ErrnoException).syscall !== undefined;
  const told = isLocal ? new StoppedImportError(`The import stopped: ${error.message}.`, { cause: error }) : error;
  if (/--assume/.test(told.message)) return told;
  const how =
    told.name === 'UsageError' ? 'Run the same command again after the correction' : 'Run the same command again';
  told.message += `\n${created} rows are surely created, up to line ${line - 1}. ${how} to go on: nothing is created twice.`;
  return told;
}
