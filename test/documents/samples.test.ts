import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type CodeBlock, documents, isPartOf } from '../../testkit/documents/code-blocks.js';
import { blocksIn, expectShown, pages } from '../../testkit/documents/samples.js';
import { ROOT } from '../../testkit/programs.js';

const TESTS = [(name: string) => `test/examples/${name}.test.ts`, (name: string) => `test/browser/${name}.test.ts`];
const inRoot = (path: string) => join(ROOT, path);
const SCRIPTS = Object.keys(JSON.parse(readFileSync(inRoot('package.json'), 'utf8')).scripts);

const all = pages.flatMap(({ blocks }) => blocks);
const at = ({ document, line }: CodeBlock) => `${document}:${line}`;

describe('the samples of the documents', () => {
  test('are run, or say where, or why they are not', () => {
    const unknown = all.filter(({ language, run }) => run.how === 'here' && !['sh', 'ts', 'json'].includes(language));
    expect(unknown.map(at)).toEqual([]);
    const untrue = all.filter(({ run, text }) => {
      if (run.how === 'by') return !existsSync(inRoot(run.test));
      if (run.how === 'from')
        return !existsSync(inRoot(run.file)) || !isPartOf(readFileSync(inRoot(run.file), 'utf8'), text);
      return false;
    });
    expect(untrue.map(at)).toEqual([]);
  });

  test('that stand in an example stand in one that has a test', () => {
    const examples = all.flatMap(({ run }) =>
      run.how === 'from' ? (/^examples\/([a-z-]+)\//.exec(run.file)?.[1] ?? []) : [],
    );
    const untested = [...new Set(examples)].filter((name) => !TESTS.some((test) => existsSync(inRoot(test(name)))));
    expect(untested).toEqual([]);
  });

  test('and the text around them name scripts that package.json has', () => {
    const named = documents().flatMap((document) =>
      [...readFileSync(inRoot(document), 'utf8').matchAll(/\bnpm run (?:--silent )?([\w:]+)/g)].map(
        ([, script = '']) => ({ script, document }),
      ),
    );
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter(({ script }) => !SCRIPTS.includes(script))).toEqual([]);
  });

  test('that are JSON can be read', () => {
    for (const block of all.filter(({ language }) => language === 'json'))
      expect(() => JSON.parse(block.text), at(block)).not.toThrow();
  });

  /** `samples-run.test.ts` runs the other pages. */
  test.each(blocksIn('sh').filter(([document]) => document === 'README.md'))('of %s print what they show', expectShown);
});
