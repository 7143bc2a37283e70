import { describe, expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { blocksIn, expectShown } from '../../testkit/documents/samples.js';
import { runTypescript } from '../../testkit/documents/typescript-page.js';

/** The output of a page's TypeScript; other pages print nothing. */
const PRINTED: Readonly<Record<string, RegExp>> = {
  'docs/guides/getting-started.md': /^paid: TXN\d+\n$/,
  'docs/guides/refunds.md': /^TXN\d+, sent 2 times, replayed: true\nnot refunded \(too-much\), left: 47\.40\n$/,
  'docs/reference/client.md':
    /^TXN\d+ false 1\nTXN\d+\nCANCELLED 1\n1 COMPLETED\nTXN\d+ false\nline-2 12\.50 COMPLETED\nTXN\d+ false 1\npaid: TXN\d+\nCOMPLETED 100\.50 TXN[\s\S]*\nsignature The message is signed with none[\s\S]*\n5 1\n/,
};

describe('the samples in TypeScript', () => {
  const service = shareService(embedded);

  test.each(blocksIn('ts'))('of %s do what they show', async (document, blocks) => {
    expect(await runTypescript(blocks, service.url)).toMatch(PRINTED[document] ?? /^$/);
  });
});

/** `samples.test.ts` runs the README. */
describe('the samples in the shell', () => {
  test.each(blocksIn('sh').filter(([document]) => document !== 'README.md'))('of %s print what they show', expectShown);
});
