import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { readConfig } from '#idempay/config.js';
import { CRASH_POINTS, type CrashablePorts, readCrashAt, withCrashPoint } from '#idempay/crash-points.js';
import type { Fault, Hit } from '../../proof/faults/fault.js';
import { faultOrder } from '../../proof/faults/fault-order.js';
import { Disturbances, wasDisturbed } from '../../testkit/history/disturbances.js';
import { SupervisedService } from '../../testkit/processes/supervised-service.js';
import { seededRandom } from '../../testkit/random.js';

const portsWith = (processor: object) =>
  ({ keys: {}, ledger: {}, transactions: {}, transactionCache: {}, processor }) as unknown as CrashablePorts;

describe('CRASH_AT', () => {
  test('names a point and the how many-th time it is reached', () => {
    expect(readCrashAt('after-claim:3')).toEqual({ point: 'after-claim', nth: 3 });
    expect(readConfig({ NODE_ENV: 'test', CRASH_AT: ' before-charge:1 ' }).crashAt).toEqual({
      point: 'before-charge',
      nth: 1,
    });
    expect(readConfig({ CRASH_AT: '' }).crashAt).toBeUndefined();
  });

  test.each(['after-claim', 'after-claim:0', 'after-claim:-1', 'after-claim:x', 'during-claim:1', ':1', 'claim:1'])(
    'is refused as %s, with the names that it knows',
    (text) => {
      const names = /CRASH_AT must have the form point:nth.*before-claim, after-claim/;
      expect(() => readConfig({ NODE_ENV: 'test', CRASH_AT: text })).toThrow(names);
    },
  );

  /** The bug: one variable too many in production, and payments were killed half-way. The cause: nothing asked whether it is a test. */
  test.each([undefined, 'production', 'development', ''])('ends the start with NODE_ENV=%s', (NODE_ENV) => {
    const start = () => readConfig({ NODE_ENV, CRASH_AT: 'before-charge:1' });
    expect(start).toThrow(/CRASH_AT kills the process .*NODE_ENV=test/);
  });

  test('has every name once', () => {
    expect(new Set(CRASH_POINTS).size).toBe(CRASH_POINTS.length);
    const some = ['before-claim', 'after-charge', 'after-settle', 'before-finish', 'after-mark', 'after-refresh'];
    expect(CRASH_POINTS).toEqual(expect.arrayContaining(some));
  });

  test.each<[string, before: number, during: number, after: number]>([
    ['before-charge', 0, 1, 1],
    ['after-charge', 0, 0, 1],
  ])('%s ends the process at the nth step, on that side of it', async (point, before, during, after) => {
    const die = vi.fn();
    // A class, because adapters may be classes too.
    class Processor {
      readonly traits = { name: 'some processor' };
      async charge(...args: unknown[]) {
        return [this.traits.name, ...args];
      }
    }
    const { processor } = withCrashPoint(portsWith(new Processor()), { point, nth: 2 }, die);
    expect(processor.traits.name).toBe('some processor');
    const charge = { key: 'key', transactionId: 'TXN1', amount: '1', currency: 'EUR' };
    const times: number[] = [];
    for (let nth = 1; nth <= 3; nth += 1) {
      const charging = processor.charge(charge);
      times.push(die.mock.calls.length);
      expect(await charging).toEqual(['some processor', charge]);
    }
    expect(times).toEqual([before, during, after]);
    expect(die).toHaveBeenCalledTimes(1);
  });

  test('has no point after a step that failed', async () => {
    const die = vi.fn();
    const lookUp = () => Promise.reject(new Error('away'));
    const { processor } = withCrashPoint(portsWith({ lookUp }), { point: 'after-look-up', nth: 1 }, die);
    await expect(processor.lookUp('key')).rejects.toThrow('away');
    expect(die).not.toHaveBeenCalled();
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
