import { describe, expect, it } from 'vitest';
import { preferredWaitSeconds } from '#idempay/http/prefer.js';

/** RFC 7240 2 and 4.3. */
describe('a wait that is preferred', () => {
  it.each([
    ['wait=5', 5],
    ['wait=1', 1],
    ['wait=30', 30],
    ['wait=007', 7],
    ['Wait=5', 5],
    ['WAIT=5', 5],
    ['  wait=5  ', 5],
    ['wait = 5', 5],
    ['wait\t=\t5', 5],
    ['wait="5"', 5],
    ['wait=5; x=y', 5],
    ['wait="5"; x="a, b; c"', 5],
    ['wait=5;', 5],
    ['respond-async, wait=5', 5],
    ['respond-async,wait=5,return=minimal', 5],
    ['wait=5, respond-async', 5],
    [', ,wait=5,', 5],
    ['return="a \\"b\\", c", wait=5', 5],
  ])('is read from %j', (header, seconds) => {
    expect(preferredWaitSeconds(header)).toBe(seconds);
  });

  it('is read where the header came more than once', () => {
    expect(preferredWaitSeconds(['respond-async', 'wait=5'])).toBe(5);
  });

  it.each(['wait=31', 'wait=100', 'wait="3600"', `wait=${'9'.repeat(400)}`])('is at most 30 seconds: %j', (header) => {
    expect(preferredWaitSeconds(header)).toBe(30);
  });

  it('is the first of several', () => {
    expect(preferredWaitSeconds('wait=2, wait=9')).toBe(2);
    expect(preferredWaitSeconds('wait="2"; x=1, wait=9')).toBe(2);
    expect(preferredWaitSeconds('wait=0, wait=9')).toBeUndefined();
  });

  it.each([
    undefined,
    '',
    ' ',
    'wait=5 6',
    'wait=\u0665',
    "wait='5'",
    'x; y, z; wait=5',
    'return=minimal, handling=lenient',
    ...`, wait wait= wait="" wait=0 wait="0" wait=000 wait=abc wait=-1 wait=+1 wait=1.5 wait=1e1 wait=0x5 wait=5s
    wait="5 wait=5" wait:5 await=5 wait-for=5 x;wait=5 respond-async`.split(/\s+/),
  ])('is not read from %j', (header) => {
    expect(preferredWaitSeconds(header)).toBeUndefined();
  });

  /**
   * Bug: what stood between commas in the quoted string of another preference was read as one of its own. Cause: the
   * header was split at every comma. Fix: a quoted string is passed over whole.
   */
  it.each(['note="a,wait=5,b"', 'x; y="a, wait=5; b"', 'x="\\",wait=5,\\""', 'x="a,wait=5,b'])(
    'is not read from inside a quoted string: %j',
    (header) => {
      expect(preferredWaitSeconds(header)).toBeUndefined();
    },
  );

  /** The time-out of the test is the bound: a search in quadratic time would take minutes. */
  it.each(['"', '\\"', '"\\', ',"', 'wait=', 'wait ', '=', ';', '"a,'])(
    'is looked for in time that grows with the header only: 256 KiB of %j',
    (piece) => {
      expect(preferredWaitSeconds(piece.repeat(262_144 / piece.length))).toBeUndefined();
    },
  );
});
