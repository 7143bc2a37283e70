import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { makeCertificates } from '../servers/certificates.js';
import { type CodeBlock, codeBlocks, documents } from './code-blocks.js';
import { runShell, withoutIds } from './shell-page.js';

export const pages = documents().map((document) => ({ document, blocks: codeBlocks(document) }));

/** The blocks in a language that are run as they stand, by document. */
export const blocksIn = (language: string) =>
  pages
    .map(({ document, blocks }) => {
      const ours = blocks.filter((block) => block.language === language && block.run.how === 'here');
      return [document, ours] as const;
    })
    .filter(([, blocks]) => blocks.length > 0);

/** Runs the shell blocks of a document in a folder of their own, which has the certificate that pages name. */
export async function expectShown(document: string, blocks: readonly CodeBlock[]): Promise<void> {
  const workplace = await mkdtemp(join(tmpdir(), 'idempay-documents-'));
  try {
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
  } finally {
    await rm(workplace, { recursive: true, force: true });
  }
}
