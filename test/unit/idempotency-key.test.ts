import fc from 'fast-check';
import { v7 as uuidV7 } from 'uuid';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createKeyTimes } from '#idempay/payments/issue.js';
import {
  generateIdempotencyKey,
  keyTimeOf,
  lowestKeyAt,
  readKeyHeader,
} from '#idempay/payments/values/idempotency-key.js';
import { createTransactionIds } from '#idempay/payments/values/transaction-id.js';
import { HandClock } from '../../testkit/time/hand-clock.js';

const KEY = '01890a5d-ac96-774b-bcce-b302099a8057';
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

describe('a generated idempotency key', () => {
  test('is a UUID in lower case, of version 7, and reads back as itself', () => {
    const key = generateIdempotencyKey();
    expect(key).toMatch(UUID);
    expect(key).toMatch(/^.{14}7.{4}[89ab]/);
    expect(readKeyHeader(key)).toEqual({ state: 'present', key });
  });

  test('is never made twice', () => {
    const keys = Array.from({ length: 10_000 }, () => generateIdempotencyKey());
    expect(new Set(keys).size).toBe(keys.length);
  });

  /** Bug: after a clock that was ahead for a moment all keys of the process stayed ahead. Fix: the time is given to the library. */
  test('has the time of the clock, also after the clock was ahead for a moment', () => {
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    const now = Date.now();
    for (const time of [now + 60 * 86_400_000, now]) {
      vi.setSystemTime(time);
      expect(keyTimeOf(generateIdempotencyKey())).toBe(time);
    }
  });
});

describe('the Idempotency-Key header', () => {
  test.each([
    ['bare', KEY],
    ['in upper case, with white space around it', ` \t${KEY.toUpperCase()}  `],
    ['in quotes as in the IETF draft, with white space around and within', ` " ${KEY} " `],
  ])('%s names the same key', (_form, value) => {
    expect(readKeyHeader(value)).toEqual({ state: 'present', key: KEY });
  });

  test.each([undefined, '', ' \t', '""', ' " " '])('%j is missing', (value) => {
    expect(readKeyHeader(value)).toEqual({ state: 'missing' });
  });

  test.each([
    ['sent twice', `${KEY}, ${KEY}`],
    ['with only an opening quote', `"${KEY}`],
    ['that is a single quote mark', '"'],
    ['in quotes twice', `""${KEY}""`],
    ['with a digit too many', `${KEY}0`],
    ['with a letter beyond f', KEY.replace('b', 'g')],
    ['with a full-width digit', KEY.replace('0', '\uff10')],
    ['with a line end', `${KEY}\nx`],
  ])('%s is invalid', (_what, value) => {
    expect(readKeyHeader(value)).toEqual({ state: 'invalid' });
  });

  test('names a UUID in lower case or none, whatever was sent', () => {
    const quoted = fc.uuid().map((uuid) => `"${uuid.toUpperCase()}"`);
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary' }), fc.uuid(), quoted), (value) => {
        const header = readKeyHeader(value);
        if (header.state === 'present') expect(header.key).toMatch(UUID);
      }),
    );
  });
});

describe('the lowest key of a moment', () => {
  const MOMENT = Date.UTC(2026, 10, 20, 13, 14, 15, 167);
  const LATEST_MS = 2 ** 48 - 1;
  const ALL_BITS = { rng: () => new Uint8Array(16).fill(0xff), seq: 2 ** 32 - 1 };
  const NO_BITS = { rng: () => new Uint8Array(16), seq: 0 };

  test.each([0, 1, MOMENT, LATEST_MS])('is the first key of %i ms, with zeros behind its time', (ms) => {
    expect(lowestKeyAt(ms)).toBe(uuidV7({ msecs: ms, ...NO_BITS }));
    expect(keyTimeOf(lowestKeyAt(ms))).toBe(ms);
    if (ms > 0) expect(lowestKeyAt(ms) > uuidV7({ msecs: ms - 1, ...ALL_BITS })).toBe(true);
  });

  test('within a millisecond is that of the next one: no key of this one is generated later', () => {
    expect(lowestKeyAt(MOMENT + 0.25)).toBe(lowestKeyAt(MOMENT + 1));
  });

  test('a time outside the range of keys becomes the nearest one in range', () => {
    expect(lowestKeyAt(-1)).toBe(lowestKeyAt(0));
    expect(lowestKeyAt(Number.MAX_SAFE_INTEGER)).toBe(lowestKeyAt(LATEST_MS));
  });
});

describe('the time of new keys', () => {
  const HORIZON_MS = 2_000_000;

  function keyTimesAt(nowMs: number) {
    const clock = new HandClock(nowMs);
    const keyTimes = createKeyTimes((atMs) => `${atMs ?? 'now'}`, clock);
    return { clock, ...keyTimes };
  }

  test('is that of the clock, and none below what the ledger refuses', () => {
    const { clock, newKey, noted, lowestMs } = keyTimesAt(1_000_000);
    expect(newKey()).toBe('1000000');
    noted(HORIZON_MS);
    expect(lowestMs()).toBe(1_000_000);
    noted(HORIZON_MS);
    expect(newKey()).toBe(`${HORIZON_MS}`);
    expect(lowestMs()).toBe(HORIZON_MS);
    clock.advance(1_000_000);
    expect(newKey()).toBe('2000000');
  });

  test('is reported as the lowest since the ledger took the last report', () => {
    const { clock, newKey, noted, lowestMs } = keyTimesAt(3_000_000);
    noted(HORIZON_MS);
    newKey();
    clock.advance(500);
    expect(lowestMs()).toBe(3_000_000);
    // The answer was lost: it is told again, with what came since.
    clock.advance(500);
    expect(lowestMs()).toBe(3_000_000);
    newKey();
    noted(HORIZON_MS);
    clock.advance(500);
    expect(lowestMs()).toBe(3_001_000);
  });
});

const NOW = 1_700_000_000_000;
/** Behind the time part there are always six random digits. */
const timePart = (id: string) => id.slice(0, -6);

/** Each time part is later than the one before; all have one length, so that they also rise as text. */
function expectRising(ids: readonly string[]): void {
  const times = ids.map(timePart);
  expect(times).toEqual([...new Set(times)].sort());
}

describe('transaction ids', () => {
  test('are TXN and digits only, and begin with the time of processing', () => {
    expect(createTransactionIds(() => NOW)()).toMatch(new RegExp(`^TXN${NOW}[0-9]{9}$`));
  });

  test('rise strictly while the clock stands still, for longer than it has steps in a millisecond', () => {
    const ids = Array.from(
      { length: 5_000 },
      createTransactionIds(() => NOW),
    );
    expectRising(ids);
    expect(new Set(ids.map(({ length }) => length))).toEqual(new Set([25]));
  });

  test('go on rising when the clock is set back, and follow it again when it has caught up', () => {
    const times = [NOW, NOW, NOW - 3_600_000, NOW - 3_600_000, NOW + 1];
    const newId = createTransactionIds(() => times.shift() as number);
    const ids = Array.from({ length: times.length }, newId);
    expectRising(ids);
    expect(ids.at(-1)).toMatch(new RegExp(`^TXN${NOW + 1}`));
  });

  test('of two processes in the same millisecond differ in their random digits', () => {
    const ids = Array.from({ length: 50 }, () => createTransactionIds(() => NOW)());
    expect(new Set(ids.map(timePart)).size).toBe(1);
    // Fifty draws from a million: a collision or two may happen, fifty equal ones do not.
    expect(new Set(ids).size).toBeGreaterThan(40);
  });
});
