import { afterEach, beforeEach, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { inParallel } from '../../testkit/concurrency.js';
import { type Service, startService } from '../../testkit/processes/service.js';
import { mountSmallDisk, type SmallDisk } from '../../testkit/servers/small-disk.js';
import { until } from '../../testkit/time/until.js';

const DISK_MEGABYTES = 32;
/** More than the database has room for without growing, and less than what makes the log be moved into it. */
const PAYMENTS = 300;
const CLIENTS = 16;
const DEADLINE_MS = 20_000;

let disk: SmallDisk;
let service: Service | undefined;
beforeEach(async () => {
  disk = await mountSmallDisk(DISK_MEGABYTES);
});
afterEach(async () => {
  await service?.kill();
  await disk.remove();
});

/**
 * Bug: a service that was told to end while its disk was full ended with exit code 1, as if it had crashed. Cause: the log
 * could not be moved into the database file, and that fault broke the writer thread. Fix: the log stays, and the next
 * start reads both.
 */
it('a service that gets SIGTERM while its disk is full ends with exit code 0, and has lost nothing after a restart', async () => {
  service = await startService({ DATA_DIR: disk.folder }, disk.launcher);
  const { url } = service;
  const paid = await inParallel(PAYMENTS, CLIENTS, () => givenPaid(url));
  await until('a write to be refused', DEADLINE_MS, async () => {
    await disk.fill();
    const answers = await inParallel(CLIENTS, CLIENTS, () => ask(`${url}/api/server-generated/generate-key`));
    const refused = answers.filter(({ status }) => status !== 200);
    for (const answer of refused) expectError(answer, 503);
    return refused.length > 0;
  });
  await disk.fill();
  expect(await service.stop()).toEqual({ code: 0, signal: null });

  await disk.free();
  service = await startService({ DATA_DIR: disk.folder }, disk.launcher);
  const again = service.url;
  const repeats = await inParallel(PAYMENTS, CLIENTS, (index) => pay(again, paid[index]?.key ?? ''));
  for (const [index, repeat] of repeats.entries()) expectReplay(repeat, paid[index]?.transactionId);
  expectFirst(await pay(again, await generateKey(again)));
  expect(await service.stop()).toEqual({ code: 0, signal: null });
}, 60_000);
