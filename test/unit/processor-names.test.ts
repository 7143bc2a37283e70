import { expect, test } from 'vitest';
import { refusalOf, warningsOf } from '#idempay/payments/values/processor-names.js';

const OURS = 'https://a.example?no-user';
const OTHER = 'https://b.example?no-user';
const WORDS = { place: 'DATA_DIR', another: 'DATA_DIR to another folder' };

test('a simulated processor is refused where anything was paid at a processor, and a processor where all was simulated', () => {
  expect(refusalOf('simulated', [], WORDS)).toBeUndefined();
  expect(refusalOf('simulated', ['simulated'], WORDS)).toBeUndefined();
  expect(refusalOf('simulated', [OURS], WORDS)).toContain(OURS);
  expect(refusalOf(OURS, [], WORDS)).toBeUndefined();
  expect(refusalOf(OURS, ['simulated'], WORDS)).toContain('set DATA_DIR to another folder, or');
  expect(refusalOf(OURS, [OTHER], WORDS)).toBeUndefined();
});

test('where both kinds are, the simulated ones are counted, and no text advises another store', () => {
  const used = ['simulated', OURS, OTHER];
  const paid = {
    byProcessor: new Map([
      ['simulated', 3],
      [OURS, 5],
      [OTHER, 1],
    ]),
    isPart: false,
  };
  expect(refusalOf(OURS, used, WORDS)).toBeUndefined();
  expect(refusalOf('simulated', used, WORDS)).not.toMatch(/another folder|discard/);
  const warnings = warningsOf([OURS], used, paid);
  expect(warnings).toEqual([
    expect.stringMatching(/^3 orders in this store count as paid by simulated payments/),
    expect.stringMatching(/^1 order in this store counts as paid at another processor \(https:\/\/b/),
  ]);
  expect(warnings.join()).not.toContain('another folder');
  expect(warningsOf([OURS, OTHER], used, paid)).toHaveLength(1);
  expect(warningsOf(['simulated'], ['simulated'], paid)).toEqual([]);
});

test('a count of a part of the payments says so, and one without an order says nothing', () => {
  const count = (orders: number, isPart: boolean) =>
    warningsOf([OURS], [OURS, OTHER], { byProcessor: new Map([[OTHER, orders]]), isPart });
  expect(count(7, true)).toEqual([expect.stringMatching(/^At least 7 orders in/)]);
  expect(count(0, true)).toEqual([expect.stringMatching(/^Some orders in/)]);
  expect(count(0, false)).toEqual([]);
});
