import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../testkit/programs.js';

const run = promisify(execFile);
const COMMAND = join('bin', 'idempay.js');

// Bug: `npx idempay` in a clone that was not built yet failed, and went on to fail after the build; in the image `idempay` could not be executed.
// Cause: the command was a file of the build. npm remembers which commands a package has, and a compiler writes no executable file.
describe('the command', () => {
  let unbuilt: string;

  beforeAll(async () => {
    unbuilt = await mkdtemp(join(tmpdir(), 'idempay-unbuilt-'));
    await cp(join(ROOT, 'bin'), join(unbuilt, 'bin'), { recursive: true });
  });
  afterAll(() => rm(unbuilt, { recursive: true, force: true }));

  test('says what to run in a clone that is not built', async () => {
    const { code, stderr } = await run(join(unbuilt, COMMAND)).catch((fault) => fault);
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'Idempay is not built yet. Run: npm run build\n' });
  });

  test('is executable and starts what was built, with options that this Node.js has', async () => {
    const { stdout, stderr } = await run(join(ROOT, COMMAND), ['--version']);
    expect(stdout).toMatch(/^idempay \d/);
    // The engine says here which of the options that main.ts sets it does not know.
    expect(stderr).toBe('');
  });
});
