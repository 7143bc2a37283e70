import { existsSync, readFileSync } from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { type CodeBlock, codeBlocks, documents, isPartOf } from '../../testkit/documents/code-blocks.js';
import { runShell, withoutIds } from '../../testkit/documents/shell-page.js';
import { runTypescript } from '../../testkit/documents/typescript-page.js';
import { ROOT } from '../../testkit/programs.js';
import { makeCertificates } from '../../testkit/servers/certificates.js';

/** What the TypeScript of a page prints; others print nothing. */
const PRINTED: Readonly<Record<string, RegExp>> = {
  'docs/guides/getting-started.md': /^paid: TXN\d+\n$/,
  'docs/reference/client.md':
    /^TXN\d+ false 1\nCANCELLED 1\n1 COMPLETED\nTXN\d+ false 1\npaid: TXN\d+\nCOMPLETED 100\.50 TXN[\s\S]*\n5 1\n/,
};
const TESTS = [(name: string) => `test/examples/${name}.test.ts`, (name: string) => `test/browser/${name}.test.ts`];
const inRoot = (path: string) => join(ROOT, path);
const SCRIPTS = Object.keys(JSON.parse(readFileSync(inRoot('package.json'), 'utf8')).scripts);

const pages = documents().map((document) => ({ document, blocks: codeBlocks(document) }));
const all = pages.flatMap(({ blocks }) => blocks);
const here = (language: string) =>
  pages
    .map(({ document, blocks }) => {
      const ours = blocks.filter((block) => block.language === language && block.run.how === 'here');
      return [document, ours] as const;
    })
    .filter(([, blocks]) => blocks.length > 0);
const at = ({ document, line }: CodeBlock) => `${document}:${line}`;

describe('the samples of the documents', () => {
  test('are run here, or say where, or why they are not', () => {
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

  describe('in TypeScript', () => {
    const service = shareService(embedded);

    test.each(here('ts'))('of %s do what they show', async (document, blocks) => {
      expect(await runTypescript(blocks, service.url)).toMatch(PRINTED[document] ?? /^$/);
    });
  });

  describe('in the shell', () => {
    let folder: string;

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), 'idempay-documents-'));
    });

    afterAll(() => rm(folder, { recursive: true, force: true }));

    test.each(here('sh'))('of %s print what they show', async (document, blocks) => {
      const workplace = await mkdtemp(join(folder, 'page-'));
      const certificates = await makeCertificates();
      await copyFile(certificates.certificate, join(workplace, 'cert.pem'));
      await copyFile(certificates.key, join(workplace, 'key.pem'));
      await certificates.remove();

      for (const { line, shown, printed } of await runShell(blocks, workplace)) {
        const where = `${document}:${line}`;
        let rest = withoutIds(printed);
        for (const output of shown.map(withoutIds)) {
          expect(rest, where).toContain(output);
          rest = rest.slice(rest.indexOf(output) + output.length);
        }
        // Not at the start of a line: a body before it has no line end.
        const statuses = [...printed.matchAll(/HTTP\/1\.1 \d{3} [A-Za-z ]+/g)].map(([status]) => status.trim());
        const shownStatuses = shown.filter((output) => output.startsWith('HTTP/'));
        // The comment is about the command above it.
        if (shownStatuses.length > 0) expect(statuses.at(-1), where).toBe(shownStatuses.at(-1));
        // A refusal that the page does not show would mean that its sample is wrong.
        const refused = statuses.filter((status) => /^HTTP\/1\.1 [45]/.test(status));
        expect(
          refused.filter((status) => !shownStatuses.includes(status)),
          where,
        ).toEqual([]);
      }
    });
  });
});
