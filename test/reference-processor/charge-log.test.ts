import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  lookUpCharge,
  type ReferenceProcessor,
  sendCharge,
  startReferenceProcessor,
} from '../../testkit/processes/reference-processor.js';
import { until } from '../../testkit/time/until.js';

const run = promisify(execFile);

const DEADLINE_MS = 10_000;
/** Requests at work at the moment of the kill, and how many answers are awaited before it. */
const CONCURRENT = 300;
const ANSWERED_BEFORE_KILL = 500;

describe('the charge log of the reference processor', () => {
  let processor: ReferenceProcessor;
  afterEach(() => processor?.close());

  it('has the line when the answer is there, and keeps it through kill -9 right after', async () => {
    processor = await startReferenceProcessor();
    const reference = randomUUID();
    expect((await sendCharge(processor.url, reference)).status).toBe(201);
    await processor.kill();
    expect(await processor.chargesOf(reference)).toHaveLength(1);

    await processor.restart({ declineRate: 1 });
    expect((await sendCharge(processor.url, reference)).status).toBe(201);
    expect((await lookUpCharge(processor.url, reference)).json()).toEqual({ status: 'succeeded' });
    expect(await processor.chargesOf(reference)).toHaveLength(1);
  });

  it('has every charge that was answered, once, when the process is killed under load', async () => {
    processor = await startReferenceProcessor({ behaviour: { declineRate: 0.2 } });
    const { url } = processor;
    const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT });
    const answered = new Map<string, number>();
    const payUntilKilled = async () => {
      for (;;) {
        const reference = randomUUID();
        const answer = await sendCharge(url, reference, undefined, { agent }).catch(() => undefined);
        if (!answer) return;
        answered.set(reference, answer.status);
      }
    };
    const clients = Array.from({ length: CONCURRENT }, payUntilKilled);
    await until('answers', DEADLINE_MS, () => answered.size >= ANSWERED_BEFORE_KILL);
    await processor.kill();
    await Promise.all(clients);
    agent.destroy();

    const statusOf = new Map((await processor.charges()).map((line) => [line.reference, line.status]));
    for (const [reference, status] of answered) {
      expect(statusOf.get(reference)).toBe(status === 201 ? 'succeeded' : 'declined');
    }

    await processor.restart();
    expect((await sendCharge(url, randomUUID())).status).toBeLessThan(403);
    expect(await readFile(processor.chargeLog, 'utf8')).toMatch(/\}\n$/);
    const references = (await processor.charges()).map((line) => line.reference);
    expect(new Set(references).size).toBe(references.length);
    expect(references.length).toBe(statusOf.size + 1);
  });

  it('is read without the last line that was being written when the process died', async () => {
    processor = await startReferenceProcessor();
    const [whole, torn] = [randomUUID(), randomUUID()];
    await sendCharge(processor.url, whole);
    await processor.kill();
    const before = await readFile(processor.chargeLog, 'utf8');
    // All of a line but its end: nobody was told of it either.
    await appendFile(processor.chargeLog, before.trim().replace(whole, torn));
    expect(await processor.charges()).toHaveLength(1);

    await processor.restart();
    expect(await readFile(processor.chargeLog, 'utf8')).toBe(before);
    expect((await lookUpCharge(processor.url, torn)).status).toBe(404);
    expect((await sendCharge(processor.url, torn)).status).toBe(201);
    expect((await processor.charges()).map((line) => line.reference)).toEqual([whole, torn]);
  });

  it('that is damaged elsewhere ends the start, which says where, and leaves it alone', async () => {
    processor = await startReferenceProcessor();
    await sendCharge(processor.url, randomUUID());
    await processor.kill();
    const damaged = `${await readFile(processor.chargeLog, 'utf8')}{"reference":\n`;
    await writeFile(processor.chargeLog, damaged);

    await expect(processor.restart()).rejects.toThrow(/"code":1.*Line 2 of .*charges\.ndjson is not a charge/s);
    expect(await readFile(processor.chargeLog, 'utf8')).toBe(damaged);
  });

  /**
   * Bug: a CHARGE_LOG that could not be used ended the start with a stack, and one that was somebody else's file lost
   * everything after its last line's end.
   * Cause: only some faults had a sentence, and what looked like a torn line was cut off before the lines were read.
   * Fix: every fault has a sentence; a file is judged as a whole before anything is cut.
   */
  describe('that cannot be used ends the start with a sentence', () => {
    let folder: string;
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'idempay-charge-log-'));
    });
    afterEach(() => rm(folder, { recursive: true, force: true }));

    async function refusal(chargeLog: string): Promise<string> {
      const start = startReferenceProcessor({ environment: { CHARGE_LOG: chargeLog } });
      const message = await start.then(
        async (started) => {
          await started.close();
          return 'it started';
        },
        (error: Error) => error.message,
      );
      expect(message).toContain('"code":1');
      expect(message, 'a stack').not.toMatch(/^ +at .*charge-log/m);
      return message;
    }

    it('being a folder, below a file, or where nobody may write', async () => {
      expect(await refusal(folder)).toMatch(/CHARGE_LOG .* cannot be used: it is a folder\. Set CHARGE_LOG/);
      await writeFile(join(folder, 'file'), '');
      expect(await refusal(join(folder, 'file', 'charges.ndjson'))).toMatch(/a part of its path is a file/);
      // Nobody makes files there, not even root.
      expect(await refusal('/sys/charges.ndjson')).toMatch(/may not write there|read-only/);
    });

    it.each([
      ['text', 'hello'],
      ['text of several lines', 'hello\nworld\nand no end'],
      ['JSON of another kind', '{"name":"idempay"}\n'],
      ['a number in each line', '1\n2\n'],
      ['bytes', Buffer.from([0x53, 0x51, 0x4c, 0x0a, 0xff, 0xfe, 0x00, 0x01])],
      [
        'a charge without an amount',
        '{"reference":"r","transactionId":"TXN1","currency":"EUR","at":"x","status":"succeeded"}\n',
      ],
    ])('holding %s, which stays as it was', async (_what, content) => {
      const path = join(folder, 'of-somebody-else');
      await writeFile(path, content);
      expect(await refusal(path)).toMatch(/Line 1 of .*of-somebody-else is not a charge\. Move the file away/);
      expect(await readFile(path)).toEqual(Buffer.from(content));
    });
  });

  it('that cannot grow is answered with 503, nothing is charged, and the charge is taken when it can again', async () => {
    processor = await startReferenceProcessor({ launcher: ['prlimit', '--fsize=1000:unlimited'] });
    const { url } = processor;
    const charged: string[] = [];
    let refused: string | undefined;
    while (refused === undefined) {
      const reference = randomUUID();
      const { status } = await sendCharge(url, reference);
      if (status === 201) charged.push(reference);
      else {
        expect(status).toBe(503);
        refused = reference;
      }
    }
    expect(charged.length).toBeGreaterThan(0);
    expect((await lookUpCharge(url, refused)).status).toBe(404);
    expect(await readFile(processor.chargeLog, 'utf8')).toMatch(/\}\n$/);
    for (const reference of charged) expect((await sendCharge(url, reference)).status).toBe(201);

    await run('prlimit', ['--pid', `${processor.pid}`, '--fsize=unlimited']);
    expect((await sendCharge(url, refused)).status).toBe(201);
    expect((await processor.charges()).map((line) => line.reference)).toEqual([...charged, refused]);
  });

  it('that is broken ends the process with exit code 1 and without an answer', async () => {
    // What is written to this device fails, and cannot be taken back either.
    processor = await startReferenceProcessor({ environment: { CHARGE_LOG: '/dev/full' } });
    await expect(sendCharge(processor.url, randomUUID())).rejects.toThrow(/socket hang up|ECONNRESET/);
    expect(await processor.ended).toEqual({ code: 1, signal: null });
  });

  it('is whole when the process is told to end, which it does at once with exit code 0', async () => {
    processor = await startReferenceProcessor({ behaviour: { replyLatencyMs: 60_000 } });
    const reference = randomUUID();
    const answer = sendCharge(processor.url, reference).catch(() => 'no answer');
    await until('the charge', DEADLINE_MS, async () => (await processor.chargesOf(reference)).length === 1);

    expect(await processor.stop()).toEqual({ code: 0, signal: null });
    expect(await answer).toBe('no answer');
    await processor.restart();
    expect((await lookUpCharge(processor.url, reference)).status).toBe(200);
  });

  it('grows no further while the process is paused', async () => {
    processor = await startReferenceProcessor();
    const reference = randomUUID();
    processor.pause();
    let isAnswered = false;
    const answer = sendCharge(processor.url, reference).finally(() => {
      isAnswered = true;
    });
    // The kernel takes the connection, so that a client sees a silent processor, not one that is away.
    await until('the process to be stopped', DEADLINE_MS, async () =>
      /\) T /.test(await readFile(`/proc/${processor.pid}/stat`, 'utf8')),
    );
    expect(isAnswered).toBe(false);
    expect(await processor.chargesOf(reference)).toEqual([]);

    processor.resume();
    expect((await answer).status).toBe(201);
  });
});
