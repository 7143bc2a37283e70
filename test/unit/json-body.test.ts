import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { PublicError } from '#idempay/http/errors/public-error.js';
import { type JsonMember, membersOf, readJsonBody } from '#idempay/http/requests/json-body.js';

const MAX_DEPTH = 64;
const MAX_VALUES = 20_000;
const RUNS = 2_000;

const read = (text: string) => readJsonBody(Buffer.from(text));
const membersIn = (text: string) => membersOf(read(text)) as ReadonlyMap<string, unknown>;

/** The message of the 400 with which the body is refused; undefined when it is read. */
function refusalOf(body: string | Buffer): string | undefined {
  try {
    readJsonBody(Buffer.from(body));
    return undefined;
  } catch (error) {
    if (error instanceof PublicError && error.status === 400) return error.message;
    throw error;
  }
}

function isJson(text: string): boolean {
  try {
    // RFC 8259 8.1: one byte order mark in front of it is passed over.
    JSON.parse(text.replace(/^\ufeff/, ''));
    return true;
  } catch {
    return false;
  }
}

/** Characters that mean something in JSON, or nearly do: most mutations of real texts are made of them. */
const PIECES = [...'{}[]:,"\\/*-+.0123456789eEtrufalsn \t\n\r\0\b\f\v\u00a0\u2028\ufeff\ud83d', '//', '/*', '\\u00'];
const pieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((all) => all.join(''));
const jsonTexts = fc.oneof(
  fc.json({ maxDepth: 4, stringUnit: 'binary' }),
  fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.stringify(value, undefined, ' \t')),
);
const mutation = fc.record({ at: fc.nat(), cut: fc.nat(2), put: fc.constantFrom('', ...PIECES) });
/** A JSON text with some pieces cut out and others put in. */
const mutatedTexts = fc.tuple(jsonTexts, fc.array(mutation, { minLength: 1, maxLength: 4 })).map(([text, mutations]) =>
  mutations.reduce((mutated, { at, cut, put }) => {
    const from = at % (mutated.length + 1);
    return mutated.slice(0, from) + put + mutated.slice(from + cut);
  }, text),
);

const NO_JSON = `- {a:1} {"a":1,} [1,] {'a':1} 01 1. .5 +1 0x1 NaN True {}/**/ "\t" "\\x41" "\\u12g4" \ufeff\ufeff{} \ufeff {\ufeff} \ufeff \u00a0{}`;

describe('reading a JSON body', () => {
  test.each([
    ['arbitrary text', RUNS, fc.string({ unit: 'binary' })],
    ['texts of JSON characters', 5 * RUNS, pieces],
    ['JSON', RUNS, jsonTexts],
    ['mutated JSON', 5 * RUNS, mutatedTexts],
  ])('takes exactly what JSON.parse takes, of %s', (_what, numRuns, texts) => {
    // A lone surrogate cannot be sent as UTF-8.
    const sent = texts.filter((text) => text.isWellFormed());
    const agrees = (text: string) => expect(refusalOf(text) === undefined, JSON.stringify(text)).toBe(isJson(text));
    const examples = ['', '{} {}', '// c\n{}', ...NO_JSON.split(' ')].map((text): [string] => [text]);
    fc.assert(
      fc.property(sent, (text) => void agrees(text)),
      { numRuns, examples },
    );
  });

  test('passes over one byte order mark in front, and no second one', () => {
    expect(membersIn('\ufeff{"a":1.50}')).toEqual(membersIn('{"a":1.50}'));
    for (const text of ['\ufeff', '\ufeff\ufeff{}', ' \ufeff{}', '{}\ufeff'])
      expect(refusalOf(text)).toMatch(/not valid JSON/);
  });

  test('refuses what is no JSON or no UTF-8 as such', () => {
    expect(refusalOf('{a:1}')).toMatch(/^The request body cannot be read: it is not valid JSON/);
    // A byte that never stands in UTF-8, half a character, and a surrogate as bytes.
    for (const bytes of [[0xff], [0xe2, 0x82], [0xed, 0xa0, 0x80]]) {
      const body = Buffer.from([...Buffer.from('{"a":"'), ...bytes, ...Buffer.from('"}')]);
      expect(refusalOf(body)).toBe('The request body cannot be read: it is not valid UTF-8.');
    }
  });

  test.each([
    ['arrays', '[', '', ']'],
    ['objects', '{"a":', '1', '}'],
  ])('nested %s are taken up to the limit and refused beyond it', (_what, open, inner, close) => {
    const nested = (levels: number) => open.repeat(levels) + inner + close.repeat(levels);
    expect(refusalOf(nested(MAX_DEPTH))).toBeUndefined();
    for (const levels of [MAX_DEPTH + 1, 5_000]) {
      expect(refusalOf(nested(levels))).toMatch(/nested deeper than 64 levels/);
    }
  });
});

test('a body of more values than any request needs is refused before all of it is read', () => {
  const values = (count: number) => `[${Array(count).fill('0').join()}]`;
  expect(refusalOf(values(MAX_VALUES - 1))).toBeUndefined();
  expect(refusalOf(`${values(MAX_VALUES).slice(0, -1)} and no JSON`)).toMatch(/has more than 20000 values/);
  expect(refusalOf(`[${Array(MAX_VALUES).fill('{}').join()}]`)).toMatch(/has more than 20000 values/);
});

describe('the members of a body', () => {
  test('are strings as decoded, and everything but numbers as such', () => {
    const members = membersIn('{"s":"\\u0041\\n","t":true,"f":false,"z":null,"a":[1,"x",{"s":"deep"}]}');
    const others = [...'tfza'].map((name) => [name, { type: 'other' }]);
    expect([...members]).toEqual([['s', { type: 'string', text: 'A\n' }], ...others]);
  });

  test('are objects of one level: what is deeper is not read', () => {
    const members = membersIn(
      '{"o":{"s":"in","n":1.50,"o":{"s":"deep"},"a":[{"s":"deep"}],"s":"twice"},"e":{},"s":"out"}',
    );
    const inner = [
      ['s', { type: 'string', text: 'twice' }],
      ['n', { type: 'number', text: '1.50' }],
      ['o', { type: 'other' }],
      ['a', { type: 'other' }],
    ] as const;
    const object = { kind: 'object', members: new Map<string, unknown>(inner), duplicate: 's' };
    expect(members.get('o')).toMatchObject({ type: 'object', object });
    expect(members.get('e')).toMatchObject({ type: 'object', object: { members: new Map(), duplicate: undefined } });
    expect(members.get('s')).toEqual({ type: 'string', text: 'out' });
  });

  test.each(['-0', '1.50', '1E+3', '1e999', '-1.5e-400', '123456789012345678901234567890'])(
    'keep the text of the number %s',
    (text) => expect(membersIn(`{"n": ${text} ,"m":2}`).get('n')).toEqual({ type: 'number', text }),
  );

  test('have the names and texts that JSON.parse finds', () => {
    const texts = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(fc.dictionary(texts, texts, { noNullPrototype: true }), (object) => {
        const text = JSON.stringify(object);
        const members = Object.entries(JSON.parse(text));
        const expected = members.map(([name, value]) => [name, { type: 'string', text: value }]);
        expect([...membersIn(text)].sort()).toEqual(expected.sort());
      }),
      { examples: [[{ constructor: 'x', '': 'y' }], [JSON.parse('{"__proto__":"x"}')]] },
    );
  });

  test.each([
    ['with equal values', '{"a":1,"a":1}', 'a'],
    ['with one name escaped', '{"amount":1,"\\u0061mount":2}', 'amount'],
    ['apart from each other', '{"a":1,"b":{"x":1},"c":[],"a":1,"c":2}', 'a'],
    ['named __proto__', '{"__proto__":1,"__proto__":1}', '__proto__'],
  ])('that stand there twice, %s, are seen', (_how, text, name) => {
    expect(read(text)).toMatchObject({ kind: 'object', duplicate: name });
    expect(membersOf(read(text))).toEqual({ problem: `'${name}' appears in the body more than once.` });
  });

  test.each(['{"a":{"a":1},"b":{"a":2}}', '{"a":[{"x":1},{"x":2}]}', '{"a":1,"A":2}', '{"a":{"x":1,"x":2}}'])(
    'of %s are no duplicates: they stand in different objects, or are not what the service reads',
    (text) => expect(read(text)).toMatchObject({ kind: 'object', duplicate: undefined }),
  );

  test.each(['[{"a":1,"a":2}]', 'null', '1', ' "x" '])('are not in %s', (text) => {
    expect(read(text)).toEqual({ kind: 'not an object' });
    expect(membersOf(read(text))).toEqual({ problem: 'The body must be a JSON object.' });
  });
});

describe('the rows of a member', () => {
  const MOST = 3;
  const rowsIn = (text: string) => {
    const members = membersOf(readJsonBody(Buffer.from(text), { name: 'rows', most: MOST }));
    return (members as ReadonlyMap<string, JsonMember>).get('rows') as
      | Partial<JsonMember & { type: 'rows' }>
      | undefined;
  };
  const NO_ROW = { kind: 'not an object' };

  test('are objects as they were sent, in their order, and what else is there', () => {
    const rows = rowsIn(
      '{"x":[{"a":1}],"rows":[{"n":1.50,"s":"\\u0041","o":{"n":2},"l":[{"n":3}]},[{"n":4}],5],"y":{"rows":[6]}}',
    );
    const first = new Map<string, unknown>([
      ['n', { type: 'number', text: '1.50' }],
      ['s', { type: 'string', text: 'A' }],
      ['o', { type: 'other' }],
      ['l', { type: 'other' }],
    ]);
    expect(rows).toMatchObject({ type: 'rows', rows: [{ kind: 'object', members: first }, NO_ROW, NO_ROW] });
  });

  test('tell a member that stands there twice, each of its own', () => {
    const rows = rowsIn('{"rows":[{"a":1,"b":{"c":1,"c":2}},{"a":1,"\\u0061":2},{"a":1}]}');
    expect(rows).toMatchObject({ rows: [{ duplicate: undefined }, { duplicate: 'a' }, { duplicate: undefined }] });
  });

  test.each(['{"a":1}', '[]', '7'])('are refused when there are more than were asked for: %s', (row) => {
    const rows = (count: number) => `{"rows":[${Array(count).fill(row).join()}]}`;
    expect(rowsIn(rows(MOST))?.rows).toHaveLength(MOST);
    expect(() => rowsIn(rows(MOST + 1))).toThrow("'rows' has more than 3 rows. Send at most 3 in one request.");
    expect(rowsIn(`{"a":${rows(MOST + 1)},"rows":[]}`)?.rows).toEqual([]);
  });

  test.each([
    '{"rows":{"a":[{}]}}',
    '{"rows":"[{}]"}',
    '{"rows":null}',
    '{"a":{"rows":[{}]}}',
    '{"a":[{"rows":[{}]}]}',
  ])('are not in %s', (text) => expect(rowsIn(text)?.type).not.toBe('rows'));

  test.each(['{"rows":[]}', '{"rows":[[]]}'])('may be none, or none that is an object: %s', (text) => {
    expect(rowsIn(text)).toMatchObject({ type: 'rows', rows: text.includes('[[') ? [NO_ROW] : [] });
  });

  test('are those that JSON.parse finds, whatever stands next to them', () => {
    const values = fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 3 })), {
      noNullPrototype: true,
    });
    fc.assert(
      fc.property(
        fc.array(fc.oneof(values, fc.jsonValue({ maxDepth: 2 })), { maxLength: MOST }),
        fc.jsonValue(),
        (list, beside) => {
          const text = JSON.stringify({ a: beside, rows: list, b: beside });
          const found = rowsIn(text)?.rows ?? [];
          const expected = (JSON.parse(text) as { rows: unknown[] }).rows.map((value) => namesIn(value));
          expect(found.map((row) => (row.kind === 'object' ? [...row.members.keys()].sort() : undefined))).toEqual(
            expected,
          );
        },
      ),
      { numRuns: 1_000 },
    );
  });

  function namesIn(value: unknown): string[] | undefined {
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value).sort() : undefined;
  }

  test('are limited in depth as all else is', () => {
    const deep = (levels: number) => `{"rows":[{"a":${'['.repeat(levels)}${']'.repeat(levels)}}]}`;
    expect(rowsIn(deep(MAX_DEPTH - 3))?.rows).toHaveLength(1);
    expect(() => rowsIn(deep(MAX_DEPTH - 2))).toThrow(/nested deeper than 64 levels/);
  });
});
