import { describe, expect, test } from 'vitest';
import { ifMatchCondition, ifNoneMatchCondition, quoted } from '#idempay/http/entity-tags.js';
import { MATCHING_FORMS, OTHER_FORMS } from '../../testkit/client/entity-tags.js';

const TAG = '00112233445566778899aabbccddeeff';
const OTHER = 'ffeeddccbbaa99887766554433221100';

/** As Node hands over a header that was sent several times. */
const joined = (value: string | string[]) => [value].flat().join(', ');

test('a tag is sent in double quotes', () => {
  expect(quoted(TAG)).toBe(`"${TAG}"`);
});

describe('If-None-Match', () => {
  test('without the header there is no condition', () => {
    expect(ifNoneMatchCondition(undefined)).toBeUndefined();
  });

  test.each(MATCHING_FORMS)('%s names the current tag', (_name, make) => {
    expect(ifNoneMatchCondition(joined(make(TAG)))?.(TAG)).toBe(true);
  });

  test.each(OTHER_FORMS)('%s does not name the current tag', (_name, make) => {
    expect(ifNoneMatchCondition(joined(make(TAG)))?.(TAG)).toBe(false);
  });

  test.each(['', ' ', '""'])('%j is a condition that nothing satisfies', (header) => {
    expect(ifNoneMatchCondition(header)?.(TAG)).toBe(false);
  });

  test('white space around the tag does not matter', () => {
    expect(ifNoneMatchCondition(` \t"${TAG}" `)?.(TAG)).toBe(true);
    expect(ifNoneMatchCondition(` ${TAG} `)?.(TAG)).toBe(true);
    expect(ifNoneMatchCondition(' * ')?.(TAG)).toBe(true);
  });
});

describe('If-Match', () => {
  test.each([undefined, '*', ' * '])('%j is no condition on the tag', (header) => {
    expect(ifMatchCondition(header)).toBeUndefined();
  });

  test.each([
    ['the quoted tag', `"${TAG}"`],
    ['the bare tag', TAG],
    ['the bare tag with white space', ` ${TAG} `],
    ['a list with the tag', `"${OTHER}", "${TAG}"`],
    ['a list with empty members', `, "${TAG}" ,,`],
    ['a list that has the tag weak and strong', `W/"${TAG}", "${TAG}"`],
  ])('%s is satisfied by the tag, and by no other', (_form, header) => {
    expect(ifMatchCondition(header)?.(TAG)).toBe(true);
    expect(ifMatchCondition(header)?.(`${TAG}0`)).toBe(false);
  });

  test.each([
    ['the weak tag, for the comparison is strong', `W/"${TAG}"`],
    ['another tag', `"${OTHER}"`],
    ['an empty header', ''],
    ['an empty tag', '""'],
    ['a quoted star', '"*"'],
    ['a list of weak tags', `W/"${TAG}", W/"${OTHER}"`],
    ['a part of the tag', `"${TAG.slice(1)}"`],
    ['an unclosed quote', `"${TAG}`],
  ])('%s is not satisfied', (_form, header) => {
    expect(ifMatchCondition(header)?.(TAG)).toBe(false);
  });
});
