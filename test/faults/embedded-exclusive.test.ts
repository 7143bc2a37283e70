import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay } from '../../testkit/client/payment-answers.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { runToExit, type Service, startService } from '../../testkit/processes/service.js';

/** Of the embedded deployment alone: its folder belongs to one process at a time, and to nobody once that is dead. */
describe('a data folder', () => {
  let folder: string;
  const started: Service[] = [];

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-test-'));
  });
  afterEach(async () => {
    await Promise.all(started.splice(0).map((service) => service.kill()));
    await rm(folder, { recursive: true, force: true });
  });

  it('is refused to a second process, with a sentence; the first one goes on', async () => {
    const data = join(folder, 'data');
    const first = await start(data);
    const key = await generateKey(first.url);

    await expectRefused(data);
    expectFirst(await pay(first.url, key));
    expect((await ask(`${first.url}/api/health/redis`)).status).toBe(200);
  });

  it('is refused also under another name', async () => {
    const data = join(folder, 'data');
    const link = join(folder, 'link');
    await start(data);
    await symlink(data, link);
    await expectRefused(link);
  });

  it('is refused again after a refusal: that one did not free it', async () => {
    const data = join(folder, 'data');
    await start(data);
    await expectRefused(data);
    await expectRefused(data);
  });

  it('goes to exactly one of several processes that start on it at once', async () => {
    const data = join(folder, 'data');
    const starts = await Promise.allSettled(Array.from({ length: 3 }, () => start(data)));
    expect(starts.filter((outcome) => outcome.status === 'fulfilled')).toHaveLength(1);
  });

  it.each(['SIGKILL', 'SIGTERM'] as const)(
    'can be used again after %s, with all that was acknowledged',
    async (end) => {
      const data = join(folder, 'data');
      const first = await start(data);
      const key = await generateKey(first.url);
      const transactionId = expectFirst(await pay(first.url, key));
      const transaction = await givenTransaction(first.url);
      first.signal(end);
      await first.ended;

      const second = await start(data);
      expectReplay(await pay(second.url, key), transactionId);
      expect((await readTransaction(second.url, transaction.transactionId)).json()).toEqual(transaction);
    },
  );

  async function start(data: string): Promise<Service> {
    const service = await startService({ DATA_DIR: data });
    started.push(service);
    return service;
  }

  async function expectRefused(data: string): Promise<void> {
    const { code, output } = await runToExit({ DATA_DIR: data });
    expect(code).toBeGreaterThan(0);
    expect(output).toMatch(/another (process|service|instance|idempay)|in use|already/i);
    expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
  }
});
