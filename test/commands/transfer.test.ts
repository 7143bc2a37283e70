import { afterAll, beforeAll, expect, test } from 'vitest';
import { expectKnown, givenFolder, type Known, openTransfer } from '../../testkit/deployments/transfer-environment.js';
import { type ProcessorInProcess, serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';

let processor: ProcessorInProcess;
let given: { folder: string; known: Known; remove(): Promise<void> };

beforeAll(async () => {
  processor = await serveReferenceProcessor();
  given = await givenFolder(processor, 5_500);
});
afterAll(() => Promise.all([processor.close(), given.remove()]));

const open = () => openTransfer(given.folder, processor);

test('a moved deployment answers as before, charges nothing again, and goes on with what was under way', async () => {
  const moved = await open();
  const result = await moved.run();
  expect(result).toMatchObject({ code: 0, stderr: '' });
  expect(result.stdout).toContain('4 payments and refunds and 5501 transactions were copied and compared');
  const { url } = await moved.serveTarget();
  await expectKnown(url, given.known, processor);
});
