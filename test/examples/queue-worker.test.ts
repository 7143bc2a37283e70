import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPayerEnvironment, type PayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';

/** WORKER_JOBS=1000 for a long run. */
const JOBS = Number(process.env.WORKER_JOBS ?? 40);
const KILLS = 8;
const DAY_MS = 86_400_000;
/** Many rounds of the worker. */
const ROUNDS_MS = 1_500;
const FINAL_MS = 60_000 + JOBS * 500;

describe('the worker of examples/', { timeout: FINAL_MS }, () => {
  let environment: PayerEnvironment;
  const random = seededRandom(seedFrom('WORKER_SEED'));

  beforeAll(async () => {
    environment = await openPayerEnvironment();
  }, 60_000);
  afterAll(() => environment?.close());

  const start = () =>
    spawnProgram(environment.examples.program('queue-worker'), {
      IDEMPAY_URL: environment.url,
      QUEUE: environment.folder,
    });
  const done = async () => (await readdir(environment.folder)).filter((name) => name.endsWith('.done'));

  test('charges each job once: two at a time, killed again and again, replies lost', async () => {
    await environment.behave({ latencyMs: 20, lostReplyRate: 0.1 });
    for (let job = 0; job < JOBS; job += 1) {
      const payment = JSON.stringify({ amount: `${100 + job}.00`, currency: 'EUR' });
      await writeFile(join(environment.folder, `job-${job}.job`), payment);
    }
    await writeFile(join(environment.folder, 'wrong.job'), JSON.stringify({ amount: '1.234', currency: 'EUR' }));

    const workers = [start(), start()];
    for (let kill = 0; kill < KILLS; kill += 1) {
      await pause(400 + random.below(400));
      const which = random.below(workers.length);
      workers[which]?.child.kill('SIGKILL');
      await workers[which]?.ended;
      workers[which] = start();
    }
    await until('all jobs to be done', FINAL_MS, async () => (await done()).length === JOBS + 1);
    for (const { child, ended } of workers) {
      child.kill('SIGTERM');
      // One that was started just now has no handler of the signal yet.
      const { code, signal } = await ended;
      expect(code === 0 || signal === 'SIGTERM').toBe(true);
    }

    const charges = await environment.charges();
    expect(charges.map(({ amount }) => amount).toSorted()).toEqual(
      Array.from({ length: JOBS }, (_, job) => `${100 + job}.00`).toSorted(),
    );
    const refused = await readFile(join(environment.folder, 'wrong.done'), 'utf8');
    expect(refused).toContain('refused');
    for (const { reference, transactionId, amount } of charges) {
      const job = `job-${Number.parseInt(amount, 10) - 100}`;
      expect(await readFile(join(environment.folder, `${job}.key`), 'utf8')).toBe(reference);
      expect(await readFile(join(environment.folder, `${job}.done`), 'utf8')).toBe(`paid ${transactionId}`);
    }
  });

  /** The bug: a job whose key was refused was logged and delivered again for ever. */
  test('alerts once where a key is refused and may have been charged, and takes another where that is certain not', async () => {
    const folder = join(environment.folder, 'refused-keys');
    const file = (name: string) => join(folder, name);
    await mkdir(folder);
    const before = (await environment.charges()).length;
    const job = JSON.stringify({ amount: '7.00', currency: 'EUR' });
    const lostKey = newKeyOf(Date.now());
    await Promise.all([
      ...['lost', 'unused', 'changed'].map((name) => writeFile(file(`${name}.job`), job)),
      writeFile(file('lost.key'), lostKey),
      writeFile(file('unused.key'), newKeyOf(Date.now() - 2 * DAY_MS)),
    ]);
    const { child, ended } = spawnProgram(environment.examples.program('queue-worker'), {
      IDEMPAY_URL: environment.url,
      QUEUE: folder,
    });
    let log = '';
    child.stderr.on('data', (text) => {
      log += text;
    });
    const names = () => readdir(folder);
    await until('the jobs to end', 60_000, async () => {
      const known = await names();
      return ['lost.alert', 'unused.done', 'changed.done'].every((name) => known.includes(name));
    });
    await pause(ROUNDS_MS);
    expect(log).toBe(`lost: look for the key ${lostKey} at the processor\n`);
    expect(await readFile(file('unused.done'), 'utf8')).toMatch(/^paid TXN\d+$/);
    expect(await readFile(file('unused.key.2'), 'utf8')).not.toBe('');
    expect((await environment.charges()).length).toBe(before + 2);

    // The same job comes again with another amount: its key has paid the first one.
    await writeFile(file('changed.job'), JSON.stringify({ amount: '8.00', currency: 'EUR' }));
    await rm(file('changed.done'));
    await until('the alert', 60_000, async () => (await names()).includes('changed.alert'));
    expect(await readFile(file('changed.alert'), 'utf8')).toContain('has paid 7.00 EUR');
    expect((await environment.charges()).length).toBe(before + 2);
    child.kill('SIGTERM');
    await ended;
  });
});
