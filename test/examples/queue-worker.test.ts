import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openPayerEnvironment, type PayerEnvironment } from '../../testkit/deployments/payer-environment.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { pause, until } from '../../testkit/time/until.js';

/** WORKER_JOBS=1000 for a long run. */
const JOBS = Number(process.env.WORKER_JOBS ?? 40);
const KILLS = 8;
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
});
