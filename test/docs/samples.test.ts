import { expect, test } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { runSamples } from '../../testkit/docs/samples.js';

/** What the samples of a page print, at least. */
const PAGES: Readonly<Record<string, RegExp>> = {
  'docs/client.md': /TXN\d+ false 1\ntrue\nCOMPLETED 100\.50 TXN[\s\S]*\n5 1\n/,
  'README.md': /^$/,
};

const service = shareService(embedded);

test.each(Object.entries(PAGES))('the TypeScript samples of %s compile and run', async (page, printed) => {
  expect(await runSamples(page, service.url)).toMatch(printed);
});
