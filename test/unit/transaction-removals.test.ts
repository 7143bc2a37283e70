import { describe, expect, test } from 'vitest';
import { firstRemovedId, type RemovalRow } from '#idempay/deployments/transaction-removals.js';

const ALL = { from: '', to: '' };

/** The removal that moved the list to `version`, after one that had moved it to `previous_version`. */
function removal(version: number, previous_version: number, id: number): RemovalRow {
  return { version, previous_version, id, from_account: 'A', to_account: 'B' };
}

describe('the first id removed since a version', () => {
  const removals = [removal(30, 20, 7), removal(20, 12, 5), removal(12, 0, 9)];

  test('is the lowest of all that follow each other back to that version', () => {
    expect(firstRemovedId(removals, 30, 0, ALL)).toBe(5);
    expect(firstRemovedId(removals.slice(0, 1), 30, 25, ALL)).toBe(7);
    expect(firstRemovedId(removals.slice(0, 2), 30, 12, ALL)).toBe(5);
  });

  test('is Infinity when none was removed, or none of the filtered list', () => {
    expect(firstRemovedId([], 30, 30, ALL)).toBe(Number.POSITIVE_INFINITY);
    expect(firstRemovedId(removals, 30, 0, { from: 'B', to: '' })).toBe(Number.POSITIVE_INFINITY);
    expect(firstRemovedId(removals, 30, 0, { from: 'A', to: 'C' })).toBe(Number.POSITIVE_INFINITY);
  });

  test('is unknown when a removal was not remembered: by a process of an older version, or because there were too many', () => {
    expect(firstRemovedId(removals, 31, 0, ALL)).toBe(0);
    expect(firstRemovedId([removal(30, 20, 7), removal(12, 0, 9)], 30, 0, ALL)).toBe(0);
    expect(firstRemovedId([removal(30, 20, 7)], 30, 5, ALL)).toBe(0);
    expect(firstRemovedId([], 30, 5, ALL)).toBe(0);
  });
});
