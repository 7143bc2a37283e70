import { type FileHandle, mkdir, open as openFile } from 'node:fs/promises';
import { dirname } from 'node:path';

export interface Charge {
  /** The idempotency key: the same for one payment, however often it is sent. */
  readonly reference: string;
  readonly transactionId: string;
  /** A decimal number as text, and kept as text: money never passes through a binary fraction. */
  readonly amount: string;
  readonly currency: string;
  /** The content of the charge, as it came. A charge of the first contract has none. */
  readonly order?: string | undefined;
  readonly source?: string | undefined;
  readonly description?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  /** A payer is present, and comes back to this address from a page of the processor. */
  readonly returnUrl?: string | undefined;
}

/** `id` names the charge. Lines that an earlier version wrote have none. */
export type Outcome =
  | { readonly status: 'succeeded'; readonly id?: string | undefined }
  /** `isEnded` says that the reference was ended before it was charged, so the line has no content of a charge. */
  | { readonly status: 'declined'; readonly reason: string; readonly id?: string; readonly isEnded?: true };

/** A charge that waits for its payer until a time in ISO 8601. `page` names the payer's page, and only the payer knows it. */
export interface Pending {
  readonly status: 'pending';
  readonly id: string;
  readonly until: string;
  readonly page: string;
}

/** One line of the log. `at` is the time at which the charge became so, in ISO 8601. A charge that was pending has one more line. */
export type LogLine = ChargeLine | (Charge & Pending & { readonly at: string });

/** A line of a charge that has its outcome. */
export type ChargeLine = Charge & Outcome & { readonly at: string };

/** A part of a charge that is given back. */
export interface Refund {
  /** The idempotency key of the refund: the same however often it is sent. */
  readonly reference: string;
  /** The reference of the charge. */
  readonly charge: string;
  readonly transactionId: string;
  readonly amount: string;
  readonly currency: string;
  /** The reason for which the shop gives it back, as it came. `reason` is the reason of a decline. */
  readonly purpose?: string | undefined;
}

/** A refund whose money is on its way until a time in ISO 8601. */
export type PendingRefund = Omit<Pending, 'page'>;

/** A line about a refund. `type` tells it from a line about a charge, also to those who read the log as a statement. */
export type RefundLine = Refund & (Outcome | PendingRefund) & { readonly type: 'refund'; readonly at: string };

export const isRefundLine = (line: LogLine | RefundLine): line is RefundLine => 'type' in line;

/** The line is not in the log, and never will be. */
export class ChargeNotLogged extends Error {
  override readonly name = 'ChargeNotLogged';
}

/** The log cannot be used as it is; the message says why. */
export class ChargeLogError extends Error {
  override readonly name = 'ChargeLogError';
}

export interface ChargeLog {
  /** The lines that the log held when it was opened. */
  readonly earlier: readonly (LogLine | RefundLine)[];
  /**
   * Resolves when the line is on the disk, to stay. Throws ChargeNotLogged when the disk is full; never settles once
   * the log is broken.
   */
  append(line: LogLine | RefundLine): Promise<void>;
  /** Resolves with the fault after which the file's content is unknown: the process must end, and read it again. */
  readonly broken: Promise<Error>;
  /** Nothing may be appended any more. */
  close(): Promise<void>;
}

/**
 * Opens the log of charges, one JSON text per line, for one process at a time. A last line without its end was being
 * written when the process died: it was not acknowledged, so it is cut off. Throws ChargeLogError for any other damage, and for
 * a path that cannot be used; the file is then left as it was.
 */
export async function openChargeLog(path: string): Promise<ChargeLog> {
  try {
    return await open(path);
  } catch (cause) {
    if (cause instanceof ChargeLogError) throw cause;
    const problem = PROBLEMS[(cause as NodeJS.ErrnoException).code ?? ''] ?? (cause as Error).message;
    throw new ChargeLogError(`CHARGE_LOG ${path} cannot be used: ${problem}. ${ADVICE}`, { cause });
  }
}

const ADVICE = 'Set CHARGE_LOG to a file of its own, in a folder that this process may write to.';

const PROBLEMS: Readonly<Record<string, string>> = {
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is a file',
  EEXIST: 'a part of its path is a file',
  EACCES: 'this process may not write there',
  EPERM: 'this process may not write there',
  EROFS: 'its file system is read-only',
  ENOENT: 'its folder cannot be made',
};

async function open(path: string): Promise<ChargeLog> {
  // Often the service's DATA_DIR, which is closed to other users.
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const file = await openFile(path, 'a+');
  try {
    await syncFolder(dirname(path));

    const { size } = await file.stat();
    const { buffer: content } = await file.read(Buffer.alloc(size), 0, size, 0);
    const wholeLinesBytes = content.lastIndexOf('\n') + 1;
    const earlier = linesOf(content.toString('utf8', 0, wholeLinesBytes), path);
    if (wholeLinesBytes < size) {
      // Anything else without a line's end is not a file of ours, and is not cut.
      if (!mayBeTornLine(content.toString('utf8', wholeLinesBytes))) throw notACharge(earlier.length + 1, path);
      await cutBack(file, wholeLinesBytes);
    }
    return { earlier, ...appendTo(file, wholeLinesBytes), close: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function linesOf(text: string, path: string): (LogLine | RefundLine)[] {
  const lines = text.split('\n').slice(0, -1);
  return lines.map((line, index) => {
    const value = parsed(line);
    if (!isLogLine(value)) throw notACharge(index + 1, path);
    return value;
  });
}

function notACharge(line: number, path: string): ChargeLogError {
  return new ChargeLogError(`Line ${line} of ${path} is not a charge. Move the file away, or set another CHARGE_LOG.`);
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function isLogLine(value: unknown): value is LogLine | RefundLine {
  if (typeof value !== 'object' || value === null) return false;
  const line = value as Readonly<Record<string, unknown>>;
  const isRefund = line.type === 'refund';
  const texts = ['reference', 'transactionId', 'amount', 'currency', 'at', ...(isRefund ? ['charge'] : [])];
  const more: Readonly<Record<string, readonly string[]>> = {
    succeeded: [],
    declined: ['reason'],
    pending: ['id', 'until', ...(isRefund ? [] : ['page'])],
  };
  const members = typeof line.status === 'string' && Object.hasOwn(more, line.status) ? more[line.status] : undefined;
  return members !== undefined && [...texts, ...members].every((member) => typeof line[member] === 'string');
}

/** How every line begins. */
const LINE_START = '{"reference":"';

/** After a power cut the part that never reached the disk may read as zeros. */
function mayBeTornLine(text: string): boolean {
  let end = text.length;
  while (text[end - 1] === '\0') end -= 1;
  const written = text.slice(0, end);
  return written.startsWith(LINE_START) || LINE_START.startsWith(written);
}

interface UnwrittenLine {
  readonly text: string;
  logged(): void;
  refused(error: ChargeNotLogged): void;
}

/** Lines that arrive while others are being written share the next write and its sync (group commit). */
function appendTo(file: FileHandle, bytesAtStart: number): Pick<ChargeLog, 'append' | 'broken'> {
  let bytes = bytesAtStart;
  let waiting: UnwrittenLine[] = [];
  let isWriting = false;
  let breakWith: (fault: Error) => void;
  const broken = new Promise<Error>((resolve) => {
    breakWith = resolve;
  });

  async function writeWaiting(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      const text = Buffer.from(batch.map((line) => line.text).join(''));
      try {
        await file.appendFile(text);
      } catch (cause) {
        // Some of the bytes may be there. With the disk full, taking them back still works.
        await cutBack(file, bytes);
        for (const line of batch) line.refused(new ChargeNotLogged('The charge cannot be logged.', { cause }));
        continue;
      }
      // After a failed sync it is unknown what the disk has, and a second attempt would not show it.
      await file.datasync();
      bytes += text.length;
      for (const line of batch) line.logged();
    }
    // Nothing was awaited since `waiting` was found empty: the next line starts a write of its own.
    isWriting = false;
  }

  return {
    broken,
    append: (line) =>
      new Promise((logged, refused) => {
        waiting.push({ text: `${JSON.stringify(line)}\n`, logged, refused });
        if (isWriting) return;
        isWriting = true;
        // A fault leaves `isWriting` set: nothing is written to a broken log any more.
        writeWaiting().then(undefined, (fault: Error) => breakWith(fault));
      }),
  };
}

async function cutBack(file: FileHandle, bytes: number): Promise<void> {
  await file.truncate(bytes);
  await file.datasync();
}

/** The name of a new file is on the disk only when its folder is. */
async function syncFolder(path: string): Promise<void> {
  const folder = await openFile(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
