import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openChargeLog } from '#idempay/reference-processor/charge-log.js';
import { untilCharged } from '../../testkit/deployments/processor-environment.js';
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

/** One process, killed and restarted: its log grows from test to test. */
describe('the charge log of the reference processor', () => {
  let processor: ReferenceProcessor;
  let url: string;
  beforeAll(async () => {
    processor = await startReferenceProcessor({ behaviour: { declineRate: 0.2 } });
    url = processor.url;
  });
  afterAll(() => processor?.close());

  const logText = () => readFile(processor.chargeLog, 'utf8');
  const references = async () => (await processor.charges()).map((line) => line.reference);
  const charge = async (reference: string) => (await sendCharge(url, reference)).status;
  const lookUp = async (reference: string) => (await lookUpCharge(url, reference)).status;

  it('has every charge that was answered, once, when the process is killed under load, and keeps it in a restart', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT });
    const answered = new Map<string, string>();
    const payUntilKilled = async () => {
      for (;;) {
        const reference = randomUUID();
        const answer = await sendCharge(url, reference, undefined, { agent }).catch(() => undefined);
        if (!answer) return;
        answered.set(reference, answer.status === 201 ? 'succeeded' : 'declined');
      }
    };
    const clients = Array.from({ length: CONCURRENT }, payUntilKilled);
    await until('answers', DEADLINE_MS, () => answered.size >= ANSWERED_BEFORE_KILL);
    await processor.kill();
    await Promise.all(clients);
    agent.destroy();
    const charges = await processor.charges();
    const statusOf = new Map(charges.map((line) => [line.reference, line.status as string]));
    expect(statusOf.size).toBe(charges.length);
    for (const [reference, status] of answered) expect(statusOf.get(reference)).toBe(status);

    await processor.restart({ declineRate: 1 });
    expect(await logText()).toMatch(/\}\n$/);
    const paid = [...answered].find(([, status]) => status === 'succeeded')?.[0] as string;
    expect([await charge(paid), await lookUp(paid)]).toEqual([201, 200]);
    expect(await references()).toHaveLength(charges.length);
    await processor.behave({ declineRate: 0 });
  });

  it('is whole when the process gets SIGTERM, on which it ends at once with exit code 0', async () => {
    await processor.behave({ replyLatencyMs: 60_000 });
    const reference = randomUUID();
    const answer = charge(reference).catch(() => 'no answer');
    await untilCharged(processor, reference);
    expect(await processor.stop()).toEqual({ code: 0, signal: null });
    expect(await answer).toBe('no answer');
    await processor.restart({ replyLatencyMs: 0 });
    expect(await lookUp(reference)).toBe(200);
  });

  it('is read without the last line that was being written when the process died', async () => {
    const [whole, torn] = [randomUUID(), randomUUID()];
    await charge(whole);
    await processor.kill();
    const before = await logText();
    // All of a line but its end: it was never answered either.
    await appendFile(processor.chargeLog, (before.trim().split('\n').at(-1) as string).replace(whole, torn));
    expect((await references()).at(-1)).toBe(whole);

    await processor.restart();
    expect(await logText()).toBe(before);
    expect([await lookUp(torn), await charge(torn)]).toEqual([404, 201]);
    expect((await references()).slice(-2)).toEqual([whole, torn]);
  });

  it('that cannot grow is answered with 503, nothing is charged, and the charge is taken when it can again', async () => {
    const limitTo = (bytes: number | 'unlimited') =>
      run('prlimit', ['--pid', `${processor.pid}`, `--fsize=${bytes}:unlimited`]);
    const before = await references();
    await limitTo((await logText()).length + 1_000);
    const charged: string[] = [];
    let refused = randomUUID();
    let status = await charge(refused);
    for (; status === 201; status = await charge(refused)) {
      charged.push(refused);
      refused = randomUUID();
    }
    expect(status).toBe(503);
    expect(charged).not.toEqual([]);
    expect(await lookUp(refused)).toBe(404);
    expect(await logText()).toMatch(/\}\n$/);
    for (const reference of charged) expect(await charge(reference)).toBe(201);

    await limitTo('unlimited');
    expect(await charge(refused)).toBe(201);
    expect(await references()).toEqual([...before, ...charged, refused]);
  });

  it('that is damaged elsewhere ends the start, which says where without a stack, and leaves it as it is', async () => {
    await processor.kill();
    const text = await logText();
    const damaged = `${text}{"reference":\n`;
    await writeFile(processor.chargeLog, damaged);
    const line = text.split('\n').length;
    const { message } = await processor.restart().catch((error) => error);
    expect(message).toMatch(new RegExp(`"code":1.*Line ${line} of .*charges\\.ndjson is not a charge`, 's'));
    expect(message, 'a stack').not.toMatch(/^ +at .*charge-log/m);
    expect(await logText()).toBe(damaged);
  });
});

it('a charge log that is broken ends the process with exit code 1 and without an answer', async () => {
  // A write to this device fails, and cannot be taken back either.
  const processor = await startReferenceProcessor({ environment: { CHARGE_LOG: '/dev/full' } });
  await expect(sendCharge(processor.url, randomUUID())).rejects.toThrow(/socket hang up|ECONNRESET/);
  expect(await processor.ended).toEqual({ code: 1, signal: null });
  await processor.close();
});

/**
 * Bug: a CHARGE_LOG that could not be used ended the start with a stack, and one that was somebody else's file lost
 * everything after its last line's end.
 * Cause: only some faults had a sentence, and what looked like a torn line was cut off before the lines were read.
 * Fix: every fault has a sentence; a file is read as a whole before anything is cut.
 */
/** Bug: a line that followed another one in the same turn was never written. */
it('takes a line after another one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'idempay-charge-log-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const log = await openChargeLog(join(folder, 'charges.ndjson'));
  onTestFinished(() => log.close());
  const line = {
    transactionId: 'TXN1',
    amount: '1',
    currency: 'USD',
    status: 'succeeded',
    at: '2026-01-01T00:00:00Z',
  } as const;
  const references = ['a', 'b', 'c'];
  for (const reference of references) await log.append({ reference, ...line });
  const written = (await readFile(join(folder, 'charges.ndjson'), 'utf8')).trim().split('\n');
  expect(written.map((text) => JSON.parse(text).reference)).toEqual(references);
});

describe('a charge log that cannot be used is refused with a sentence', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-charge-log-'));
    await writeFile(join(folder, 'file'), '');
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it.each([
    ['a folder', () => folder, /CHARGE_LOG .* cannot be used: it is a folder\. Set CHARGE_LOG/],
    ['below a file', () => join(folder, 'file/charges.ndjson'), /a part of its path is a file/],
    // Nobody makes files there, not even root.
    ['where nobody may write', () => '/sys/charges.ndjson', /may not write there|read-only/],
  ])('when it is %s', async (_what, path, sentence) => {
    const refusal = expect.objectContaining({ name: 'ChargeLogError', message: expect.stringMatching(sentence) });
    await expect(openChargeLog(path())).rejects.toEqual(refusal);
  });

  it.each([
    ['text without an end', 'hello'],
    ['text of several lines', 'hello\nworld\nand no end'],
    ['JSON of another kind', '{"name":"idempay"}\n'],
    ['a number in each line', '1\n2\n'],
    ['bytes', Buffer.from([0x53, 0x51, 0x4c, 0x0a, 0xff, 0xfe, 0x00, 0x01])],
    ['no amount', '{"reference":"r","transactionId":"TXN1","currency":"EUR","at":"x","status":"succeeded"}\n'],
  ])('when it holds %s, and stays as it was', async (_what, content) => {
    const path = join(folder, 'of-somebody-else');
    await writeFile(path, content);
    const sentence = /Line 1 of .*of-somebody-else is not a charge\. Move the file away/;
    await expect(openChargeLog(path)).rejects.toThrow(sentence);
    expect(await readFile(path)).toEqual(Buffer.from(content));
  });
});
