import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { exportRows } from '#idempay/cli/output/export.js';
import { until } from '../../testkit/time/until.js';

const OPENED_DEADLINE_MS = 10_000;

/**
 * Bug: an export that failed with its first answer now and then left a part of a file. Cause: the part was removed while it
 * was still being opened. Fix: it is removed once it is closed.
 */
test('an export that fails before its first row leaves no part of a file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-export-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  async function* failing(): AsyncGenerator<{ amount: string }> {
    yield* [];
    throw new Error('no rows came');
  }
  const options = { format: 'ndjson', output: join(folder, 'all.ndjson') } as const;
  for (let run = 0; run < 20; run += 1) {
    await expect(exportRows(failing(), ['amount'], options)).rejects.toThrow('no rows came');
  }
  const isNothingOpened = () => !process.getActiveResourcesInfo().includes('FSReqCallback');
  await until('nothing to be at work on a file', OPENED_DEADLINE_MS, isNothingOpened);
  expect(readdirSync(folder)).toEqual([]);
});
