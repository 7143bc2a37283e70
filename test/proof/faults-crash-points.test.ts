import { describe, expect, test, vi } from 'vitest';
import { readConfig } from '#idempay/config.js';
import { CRASH_POINTS, type CrashablePorts, readCrashAt, withCrashPoint } from '#idempay/crash-points.js';

/** Ports whose operations do nothing but count; a class, because adapters may be classes too. */
function countingPorts(): CrashablePorts & { readonly done: string[] } {
  const done: string[] = [];
  const counting = (port: string) =>
    new Proxy({ name: port } as Record<string, unknown>, {
      get: (target, member) => {
        if (typeof member === 'symbol' || member in target) return target[member as string];
        return async (...args: unknown[]) => {
          done.push(`${port}.${member}`);
          return args;
        };
      },
    });
  const ports = Object.fromEntries(
    ['keys', 'ledger', 'processor', 'transactions', 'transactionCache'].map((name) => [name, counting(name)]),
  );
  return { ...(ports as unknown as CrashablePorts), done };
}

describe('CRASH_AT', () => {
  test('names a point and the how many-th time it is reached', () => {
    expect(readCrashAt('after-claim:3')).toEqual({ point: 'after-claim', nth: 3 });
    expect(readConfig({ CRASH_AT: ' before-charge:1 ' }).crashAt).toEqual({ point: 'before-charge', nth: 1 });
    expect(readConfig({ CRASH_AT: '' }).crashAt).toBeUndefined();
  });

  test.each(['after-claim', 'after-claim:0', 'after-claim:-1', 'after-claim:x', 'during-claim:1', ':1', 'claim:1'])(
    'is refused as %s, with the names that it knows',
    (text) => {
      expect(() => readConfig({ CRASH_AT: text })).toThrow(
        /CRASH_AT must have the form point:nth.*before-claim, after-claim/,
      );
    },
  );

  test('has every name once', () => {
    expect(new Set(CRASH_POINTS).size).toBe(CRASH_POINTS.length);
    for (const name of [
      'before-claim',
      'after-charge',
      'after-settle',
      'before-finish',
      'after-mark',
      'after-refresh',
    ]) {
      expect(CRASH_POINTS).toContain(name);
    }
  });

  test('ends the process before the step, or after it, and only the nth time', async () => {
    const ports = countingPorts();
    const die = vi.fn();
    const before = withCrashPoint(ports, { point: 'before-settle', nth: 2 }, die);
    await before.ledger.settle(...([] as unknown as Parameters<typeof ports.ledger.settle>));
    expect(die).not.toHaveBeenCalled();
    const second = before.ledger.settle(...([] as unknown as Parameters<typeof ports.ledger.settle>));
    expect(die, 'before anything is written').toHaveBeenCalledTimes(1);
    await second;
    await before.ledger.settle(...([] as unknown as Parameters<typeof ports.ledger.settle>));
    expect(die).toHaveBeenCalledTimes(1);

    const after = withCrashPoint(ports, { point: 'after-mark', nth: 1 }, die);
    const marking = after.transactionCache.mark(7);
    expect(die, 'not before it is done').toHaveBeenCalledTimes(1);
    expect(await marking).toEqual([7]);
    expect(die).toHaveBeenCalledTimes(2);
    expect(after.processor.name).toBe('processor');
  });

  test('has no point after a step that failed', async () => {
    const die = vi.fn();
    const ports = countingPorts();
    const claim = vi.fn().mockRejectedValue(new Error('away'));
    const crashing = withCrashPoint(
      { ...ports, ledger: { ...ports.ledger, claim } },
      { point: 'after-claim', nth: 1 },
      die,
    );
    await expect(crashing.ledger.claim({} as Parameters<typeof ports.ledger.claim>[0])).rejects.toThrow('away');
    expect(die).not.toHaveBeenCalled();
  });
});
