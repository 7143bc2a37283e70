import { describe, expect, onTestFinished, test } from 'vitest';
import type { Fault, Hit } from '../../proof/faults/fault.js';
import { faultOrder } from '../../proof/faults/fault-order.js';
import { draft, idsOf, listTransactions, newAccount, postTransaction } from '../../testkit/client/transactions.js';
import { embedded } from '../../testkit/deployments/deployments.js';
import { Disturbances, wasDisturbed } from '../../testkit/history/disturbances.js';
import { CRASH_POINTS, crashAt } from '../../testkit/processes/crash-points.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { seededRandom } from '../../testkit/random.js';

describe('a crash point', () => {
  test.each(['after-claim', 'after-claim:0', 'after-claim:-1', 'after-claim:x', 'during-claim:1', ':1', 'claim:1'])(
    'is refused as %s, with the names that there are',
    (text) => {
      expect(() => crashAt(text)).toThrow(/must be point:nth .*before-claim, after-claim/);
    },
  );

  test('has a name of its own', () => {
    expect(new Set(CRASH_POINTS).size).toBe(CRASH_POINTS.length);
    const some = ['before-claim', 'after-charge', 'after-settle', 'before-finish', 'after-mark', 'after-refresh'];
    expect(CRASH_POINTS).toEqual(expect.arrayContaining(some));
  });

  test.each<[string, kept: boolean]>([
    ['before-create:2', false],
    ['after-create:2', true],
  ])('kills the service at the nth step, on its side of it: %s', async (at, kept) => {
    const stores = await embedded.open();
    onTestFinished(() => stores.close());
    const row = draft({ fromAccount: newAccount() });
    const dying = await stores.start(crashAt(at));
    expect((await postTransaction(dying.url, row)).status).toBe(201);
    await expect(postTransaction(dying.url, row)).rejects.toThrow();
    expect(await dying.ended).toMatchObject({ signal: 'SIGKILL' });
    const { url } = await stores.serve();
    expect(idsOf(await listTransactions(url, { from: `${row.fromAccount}` }))).toHaveLength(kept ? 2 : 1);
  });
});

const fault = (hits: Hit, name: string, weight = 1): Fault => ({ name, hits, weight, happen: async () => {} });
const FAULTS = [
  ...[fault('service', 'kill', 2), fault('service', 'stop'), fault('processor', 'kill it')],
  ...[fault('redis', 'flush'), fault('redis', 'cut'), fault('postgres', 'restart')],
];

function drawn(count: number, faults = FAULTS, seed = 1): Fault[] {
  const order = faultOrder(faults, seededRandom(seed));
  return Array.from({ length: count }, () => order.next().value);
}

describe('the order of faults', () => {
  test('hits processes and stores in turn from the start', () => {
    for (let seed = 0; seed < 50; seed += 1) {
      const areStores = drawn(10, FAULTS, seed).map(({ hits }) => hits === 'redis' || hits === 'postgres');
      expect(areStores).toEqual([false, true, false, true, false, true, false, true, false, true]);
    }
  });

  test('gives every fault its turns, as often as it weighs among its kind', () => {
    const names = drawn(300).map(({ name }) => name);
    const times = (name: string) => names.filter((each) => each === name).length;
    expect(['kill', 'stop', 'kill it', 'restart'].map(times)).toEqual([80, 40, 30, 60]);
    expect(times('flush') + times('cut')).toBe(90);
  });

  test('is the same for the same seed, and leaves out what cannot be hit', () => {
    expect(drawn(50)).toEqual(drawn(50));
    expect(drawn(20, [fault('service', 'kill'), fault('disk', 'fill')]).map(({ hits }) => hits)).toContain('disk');
  });
});

test('a process that breaks off every connection is up, so its broken connections count as failures', async () => {
  const disturbances = new Disturbances();
  const program = "require('node:net').createServer((socket) => socket.destroy()).listen(process.env.PORT)";
  const launcher = [process.execPath, '--eval', program];
  const service = await SupervisedService.create({ name: 'service', environment: {}, launcher, disturbances });
  onTestFinished(() => service.close());
  await service.up();
  expect(wasDisturbed(disturbances.all, ['service'], performance.now(), Number.POSITIVE_INFINITY)).toBe(false);
});
