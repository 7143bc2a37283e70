import { execFileSync } from 'node:child_process';
import { constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LogOutput } from '#idempay/platform/logger.js';
import { until } from '../../testkit/time/until.js';

const INFO = 30;
const ERROR = 50;
const DEADLINE_MS = 10_000;
const LINE = `${'x'.repeat(1_023)}\n`;
/** More than the log keeps for lines of any level. */
const TOO_MANY = 8 * 1024;

/** A pipe whose reader has stopped until `readAll`. The descriptor does both, so that the test has no other process. */
function openPipe() {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-log-'));
  const path = join(folder, 'pipe');
  execFileSync('mkfifo', [path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  // Stays open until this process ends: another file could get its number while the output still tries to write.
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const decoder = new StringDecoder('utf8');
  const part = Buffer.alloc(64 * 1024);
  let text = '';
  function readAll(): string {
    for (;;) {
      try {
        text += decoder.write(part.subarray(0, readSync(fd, part)));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return text;
        throw error;
      }
    }
  }
  return { fd, readAll };
}

function writeLines(output: LogOutput, level: number, count: number, line = LINE): void {
  output.lastLevel = level;
  for (let written = 0; written < count; written += 1) output.write(line);
}

const count = (text: string, line: string) => text.split(line).length - 1;

/**
 * Bug: a log that could not be written ended the answers of the whole process. Cause: the output tried the last lines again for ever, on
 * the main thread. Fix: a write never waits; what the log cannot take is kept up to a bound, then dropped and counted.
 */
describe('the output of the log', () => {
  it('keeps lines while its reader has stopped, drops errors last, and says once how many it dropped', async () => {
    const { fd, readAll } = openPipe();
    const said: number[] = [];
    const output = new LogOutput(fd, { onDropped: (lines) => said.push(lines) });
    const error = `an error ${LINE}`;
    writeLines(output, INFO, TOO_MANY);
    writeLines(output, ERROR, 100, error);
    let text = '';
    await until('everything that was kept', DEADLINE_MS, () => {
      text = readAll();
      return said.length > 0;
    });
    expect(count(text, error)).toBe(100);
    const kept = text.split('\n').length - 1 - 100;
    expect(said).toEqual([TOO_MANY - kept]);
    expect(kept).toBeGreaterThan(1_024);

    // Errors have a bound too.
    writeLines(output, ERROR, TOO_MANY);
    await until('the rest', DEADLINE_MS, () => readAll() !== '' && said.length > 1);
    expect(said[1]).toBeGreaterThan(1_024);
  });

  it('loses and repeats no byte of what it keeps, however little its reader takes at a time', async () => {
    const { fd, readAll } = openPipe();
    const output = new LogOutput(fd, { onDropped: () => expect.unreachable('nothing is dropped') });
    const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index} äöü\n`);
    for (const line of lines) output.write(line);
    const whole = lines.join('');
    await until('every line', DEADLINE_MS, () => readAll().length >= whole.length);
    expect(readAll()).toBe(whole);
  });

  it('that nobody reads is flushed within a second or so, and what waits is not', async () => {
    const { fd } = openPipe();
    const output = new LogOutput(fd, { onDropped: () => {} });
    writeLines(output, INFO, 1_024);
    await new Promise<void>((done) => output.flush(done));
  });

  it('is flushed when its last line is written', async () => {
    const { fd, readAll } = openPipe();
    const output = new LogOutput(fd, { onDropped: () => {} });
    output.write('the last line\n');
    await new Promise<void>((done) => output.flush(done));
    expect(readAll()).toBe('the last line\n');
  });
});
