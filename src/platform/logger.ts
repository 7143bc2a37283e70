import { write, writeSync } from 'node:fs';
import { type LevelWithSilent, type Logger, pino, symbols } from 'pino';

/** The most bytes of lines that wait while the log cannot be written: thousands of lines, and little of a process's memory. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** Lines below the level `error` leave the other half to errors, so that errors are the last to be dropped. */
const MAX_WAITING_BELOW_ERROR_BYTES = MAX_WAITING_BYTES / 2;
const ERROR_LEVEL = 50;
/** A reader that is only slow loses nothing meanwhile, and while a disk is full so few attempts cost nothing. */
const RETRY_AFTER_MS = 10;
/** A process that ends does not wait longer for its log. */
const LAST_FLUSH_MS = 1_000;

/** Structured JSON lines; readable text on a terminal. `mixin` returns members that are added to each line. */
export async function createLogger(level: LevelWithSilent, mixin?: () => object): Promise<Logger> {
  const format = process.stdout.isTTY ? await readable() : undefined;
  const output = new LogOutput(process.stdout.fd, {
    format,
    onDropped: (lines, reason) =>
      logger.error({ lines, reason }, 'the log could not be written, so lines were dropped; the log is written again'),
  });
  process.on('exit', () => output.end());
  const logger: Logger = pino({ level, ...(mixin && { mixin }) }, output);
  return logger;
}

/** The last lines have a second; then the process ends without them. */
export async function endProcess(logger: Logger, exitCode: number): Promise<never> {
  await new Promise<void>((done) => logger.flush(() => done()));
  process.exit(exitCode);
}

async function readable(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty');
  return prettyFactory({ ignore: 'pid,hostname', singleLine: true });
}

export interface LogOutputOptions {
  /** Makes another text of each line; the line itself, if omitted. */
  readonly format?: ((line: string) => string) | undefined;
  /** Called when everything that waited is written, if lines were dropped before. `reason` is the error of the last failed write. */
  readonly onDropped: (lines: number, reason: string | undefined) => void;
}

/**
 * The output of the log. Nothing waits for it: a disk that is full, or a reader that has stopped, costs lines, which are counted.
 * sonic-boom, the output that pino has by default, tries the last lines of a process again for ever, on the main thread, after any error.
 * It has no bound in memory that spares errors.
 */
export class LogOutput {
  /** Tells pino to set `lastLevel` before each line. */
  readonly [symbols.needsMetadataGsym] = true;
  lastLevel = 0;

  private waiting: string[] = [];
  /** Taken from `waiting`, and not written yet. */
  private taken: Buffer = Buffer.alloc(0);
  private bytes = 0;
  private writingSince: number | undefined;
  private retry: NodeJS.Timeout | undefined;
  private dropped = 0;
  private reason: string | undefined;
  private onEmpty = () => {};

  constructor(
    private readonly fd: number,
    private readonly options: LogOutputOptions,
  ) {}

  write(line: string): void {
    const text = this.options.format?.(line) ?? line;
    const bytes = Buffer.byteLength(text);
    const limit = this.lastLevel >= ERROR_LEVEL ? MAX_WAITING_BYTES : MAX_WAITING_BELOW_ERROR_BYTES;
    if (this.bytes + bytes > limit) {
      this.dropped += 1;
      return;
    }
    this.waiting.push(text);
    this.bytes += bytes;
    if (this.writingSince === undefined && !this.retry) this.writeNext();
  }

  /** Calls back when everything is written, and after a second at the latest. pino calls it for `logger.flush`. */
  flush(done: () => void): void {
    if (this.bytes === 0) {
      done();
      return;
    }
    const limit = setTimeout(done, LAST_FLUSH_MS);
    this.onEmpty = () => {
      clearTimeout(limit);
      done();
    };
  }

  /**
   * For the event `exit`, when nothing can be waited for: a single attempt. Node.js itself waits for a write that is under way. If that
   * write has not ended in a second, it may never end (a terminal that was stopped), so only a kill ends the process.
   */
  end(): void {
    if (this.writingSince !== undefined && performance.now() - this.writingSince >= LAST_FLUSH_MS) {
      process.kill(process.pid, 'SIGKILL');
    }
    const rest = Buffer.from(this.waiting.join(''));
    try {
      this.writeAll(this.writingSince === undefined ? Buffer.concat([this.taken, rest]) : rest);
    } catch {
      // The log cannot be written, and there is no other place to say so.
    }
  }

  private writeAll(text: Buffer): void {
    let left = text;
    while (left.length > 0) left = left.subarray(writeSync(this.fd, left));
  }

  /** In a thread of the pool: a disk that hangs must not keep the event loop waiting. */
  private writeNext(): void {
    if (this.taken.length === 0) {
      this.taken = Buffer.from(this.waiting.join(''));
      this.waiting = [];
    }
    this.writingSince = performance.now();
    write(this.fd, this.taken, (error, written) => {
      this.writingSince = undefined;
      if (error || written === 0) this.tryLater(error);
      else this.wrote(written);
    });
  }

  private tryLater(error: NodeJS.ErrnoException | null): void {
    this.reason = error?.code;
    this.retry = setTimeout(() => {
      this.retry = undefined;
      this.writeNext();
    }, RETRY_AFTER_MS).unref();
  }

  private wrote(bytes: number): void {
    this.taken = this.taken.subarray(bytes);
    this.bytes -= bytes;
    if (this.bytes > 0) {
      this.writeNext();
      return;
    }
    const { dropped, reason } = this;
    this.dropped = 0;
    if (dropped > 0) this.options.onDropped(dropped, reason);
    // The line that says so may be the last one, for which the end of the process waits.
    if (this.bytes === 0) this.onEmpty();
  }
}
