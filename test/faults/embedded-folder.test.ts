import { copyFile, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { givenTransaction, readTransaction } from '../../testkit/client/transactions.js';
import { inParallel } from '../../testkit/concurrency.js';
import { manageStores, type Stores } from '../../testkit/deployments/deployments.js';
import { runToExit } from '../../testkit/processes/service.js';

/** The folder of the embedded deployment belongs to one process at a time, and to nobody once that has ended. */
describe('a data folder', () => {
  let folder: string;
  let data: string;
  let stores: Stores;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-test-'));
    data = join(folder, 'data');
    stores = manageStores({ DATA_DIR: data }, () => rm(folder, { recursive: true, force: true }));
  });
  afterEach(() => stores.close());

  test('is refused to a second process, each time and under another name too; the first one goes on', async () => {
    const { url } = await stores.start();
    const key = await generateKey(url);
    const link = join(folder, 'link');
    await symlink(data, link);
    // A refusal does not free the folder.
    for (const name of [data, link, data]) {
      const { code, output } = await runToExit({ DATA_DIR: name });
      expect(code).toBe(1);
      expect(output).toMatch(/in use by another Idempay process/);
      expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
    }
    expectFirst(await pay(url, key));
  });

  test('goes to exactly one of several processes that start on it at once', async () => {
    const starts = await Promise.allSettled([stores.start(), stores.start(), stores.start()]);
    expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  test('has everything in its one file after a clean end, so that a copy of the file is a backup', async () => {
    const service = await stores.start();
    const paid = await inParallel(200, 8, async () => ({
      ...(await givenPaid(service.url)),
      transaction: await givenTransaction(service.url),
    }));
    await service.stop();

    const copy = join(folder, 'copy');
    await mkdir(copy);
    await copyFile(join(data, 'idempay.sqlite'), join(copy, 'idempay.sqlite'));
    const { url } = await stores.serve({ DATA_DIR: copy });
    for (const { key, transactionId, transaction } of paid) {
      expectReplay(await pay(url, key), transactionId);
      expect((await readTransaction(url, transaction.transactionId)).json()).toEqual(transaction);
    }
  });
});
