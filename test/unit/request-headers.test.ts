import { describe, expect, test } from 'vitest';
import { ifMatchCondition, ifNoneMatchCondition, quoted } from '#idempay/http/requests/entity-tags.js';
import { preferredWaitSeconds, prefersRepresentation } from '#idempay/http/requests/prefer.js';

const TAG = '00112233445566778899aabbccddeeff';
const OTHER = 'ffeeddccbbaa99887766554433221100';

describe('If-None-Match', () => {
  test('without the header there is no condition; a tag is sent in double quotes', () => {
    expect(ifNoneMatchCondition(undefined)).toBeUndefined();
    expect(quoted(TAG)).toBe(`"${TAG}"`);
  });

  /** Spec 4.3 rule 3 for the bare tag, RFC 9110 13.1.2 for the rest. */
  test.each(
    [
      [TAG, `"${TAG}"`, `W/"${TAG}"`, ` \t"${TAG}" `, ` ${TAG} `, '*', ' * '],
      [`"${OTHER}", "${TAG}"`, `"${OTHER}" , W/"${TAG}" , ""`, `, "${OTHER}",, "${TAG}" ,`, `"a,b", "${TAG}"`],
    ].flat(),
  )('%j names the current tag', (header) => {
    expect(ifNoneMatchCondition(header)?.(TAG)).toBe(true);
  });

  test.each(
    [
      [`"${OTHER}"`, `"${OTHER}", W/"x", ""`, `"${TAG.toUpperCase()}"`, `"${TAG}0"`, `"x,${TAG}"`, ' ', '"*"'],
      [`"${TAG}`, `${TAG}"`, `'${TAG}'`, `W/${TAG}`, `w/"${TAG}"`],
    ].flat(),
  )('%j does not name it, or is no form at all', (header) => {
    expect(ifNoneMatchCondition(header)?.(TAG)).toBe(false);
  });
});

describe('If-Match', () => {
  test.each([undefined, '*', ' * '])('%j is no condition on the tag', (header) => {
    expect(ifMatchCondition(header)).toBeUndefined();
  });

  test.each([
    ['the bare tag with white space', ` ${TAG} `, true],
    ['a list with the tag', `, "${OTHER}",, "${TAG}"`, true],
    ['a list that has the tag weak and strong', `W/"${TAG}", "${TAG}"`, true],
    ['the weak tag, for the comparison is strong', `W/"${TAG}"`, false],
    ['another tag', `"${OTHER}"`, false],
    ['an empty header', '', false],
    ['a quoted star', '"*"', false],
  ])('%s is satisfied by the tag: %s %s, and by no other', (_form, header, isSatisfied) => {
    expect(ifMatchCondition(header)?.(TAG)).toBe(isSatisfied);
    expect(ifMatchCondition(header)?.(`${TAG}0`)).toBe(false);
  });
});

/** RFC 7240 2 and 4.3. */
describe('a wait that is preferred', () => {
  test.each<[header: string | string[], seconds: number]>([
    ['wait=30', 30],
    ['wait=31', 30],
    [`wait=${'9'.repeat(400)}`, 30],
    ['WAIT=007', 7],
    ['  wait\t=\t5  ', 5],
    ['wait="5"; x="a, b; c"', 5],
    ['respond-async,wait=5,return=minimal', 5],
    [', ,wait=5,', 5],
    ['return="a \\"b\\", c", wait=5', 5],
    [['respond-async', 'wait=5'], 5],
    ['wait="2"; x=1, wait=9', 2],
  ])('of %j is %i seconds', (header, seconds) => {
    expect(preferredWaitSeconds(header)).toBe(seconds);
  });

  const NO_WAIT =
    `wait wait= wait="" wait=0 wait="0" wait=000 wait=abc wait=-1 wait=+1 wait=1.5 wait=1e1 wait=0x5 wait=5s
    wait="5 wait=5" wait:5 await=5 wait-for=5 x;wait=5 wait=0,wait=9 wait='5' wait=\u0665`.split(/\s+/);
  /**
   * Bug: what stood between commas in the quoted string of another preference was read as one of its own. Cause: the
   * header was split at every comma. Fix: a quoted string is passed over whole.
   */
  const IN_QUOTES = ['note="a,wait=5,b"', 'x; y="a, wait=5; b"', 'x="\\",wait=5,\\""', 'x="a,wait=5,b'];
  test.each([undefined, '', 'wait=5 6', 'x; y, z; wait=5', ...NO_WAIT, ...IN_QUOTES])(
    'is not read from %j',
    (header) => {
      expect(preferredWaitSeconds(header)).toBeUndefined();
    },
  );

  /** The time-out of the test is the bound: a search in quadratic time would take minutes. */
  test.each(['"', '\\"', '"\\', ',"', 'wait=', 'wait ', '=', ';', '"a,'])(
    'is looked for in time that grows with the header only: 256 KiB of %j',
    (piece) => expect(preferredWaitSeconds(piece.repeat(262_144 / piece.length))).toBeUndefined(),
  );
});

/** RFC 7240 2 and 4.2. */
describe('a representation that is preferred', () => {
  test.each([
    'return=representation',
    'Return="representation"; x=1',
    'wait=5, return = Representation',
    'return=representation, return=minimal',
  ])('is read from %j', (header) => expect(prefersRepresentation(header)).toBe(true));

  test.each([
    undefined,
    '',
    'representation',
    'return',
    'return=',
    'return=minimal, return=representation',
    'return=representation-of-nothing',
    'note="a,return=representation,b"',
    'noreturn=representation',
  ])('is not read from %j', (header) => expect(prefersRepresentation(header)).toBe(false));
});
