import { expect, test } from 'vitest';
import { createKeyNames } from '#idempay/stores/redis/key-names.js';
import { createTransferMark } from '#idempay/stores/redis/transfer-mark.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';

const [FORMER, LATER] = ['a'.repeat(32), 'b'.repeat(32)];

test('Redis keeps the names of all transfers that were given up, and takes the next one', async () => {
  const { client } = (await openTestStores()).redis;
  const deploymentId = 'mark-of-transfer';
  const mark = createTransferMark(client, deploymentId);
  expect(await mark.claim(FORMER)).toEqual({ name: FORMER, isStarted: false, isGivenUp: false });
  await mark.giveUp(FORMER);
  // A service that has claimed the name before starts at this moment.
  expect(await mark.start(FORMER)).toMatchObject({ isGivenUp: true });
  await client.hdel(createKeyNames(deploymentId).transfer, 'started');

  expect(await mark.claim(FORMER)).toMatchObject({ isGivenUp: true });
  expect(await mark.find()).toBeUndefined();
  expect(await mark.claim(LATER)).toEqual({ name: LATER, isStarted: false, isGivenUp: false });
  expect(await mark.claim(FORMER)).toEqual({ name: LATER, isStarted: false, isGivenUp: true });
  // The way back of a transfer may be run again after the next one has begun.
  await mark.giveUp(FORMER);
  expect(await mark.find()).toMatchObject({ name: LATER });
});
