import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { embedded } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { runCommand } from '../../testkit/processes/command.js';
import { ROOT } from '../../testkit/programs.js';
import { newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { WITHOUT_LIMIT } from '../../testkit/time/patience.js';

const DAY_MS = 86_400_000;
const KEPT = { amount: '100.00', currency: 'USD' };
const NODE_OPTIONS = `--import=${pathToFileURL(join(ROOT, 'testkit', 'processes', 'crash-at-call.mjs')).href}`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'idempay-command-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('idempay pay', () => {
  const shared = shareProcessedService(embedded);
  const charges = async () => (await shared().processor.charges()).length;
  const keep = (file: string, idempotencyKey: string) =>
    writeFileSync(file, `${JSON.stringify({ idempotencyKey, ...KEPT })}\n`);
  /** The service is certain that it has expired unpaid. */
  const unusedKey = () => newKeyOf(Date.now() - 2 * DAY_MS);

  /** Killed before its nth call, for every n that it comes to, and run again; resolves with how often it was killed. */
  async function killedAtEach(parametersOf: (at: number) => string[], prepare = (_at: number) => {}): Promise<number> {
    for (let at = 1; ; at += 1) {
      prepare(at);
      const before = await charges();
      const parameters = ['pay', '--amount', '100.00', '--currency', 'USD', '--json', ...parametersOf(at)];
      const killed = await runCommand(shared().url, parameters, { NODE_OPTIONS, CRASH_AT_CALL: `${at}` });
      const again = await runCommand(shared().url, parameters);
      expect([again.code, again.stderr]).toEqual([0, expect.any(String)]);
      expect(await charges()).toBe(before + 1);
      if (killed.signal === null) return at - 1;
    }
  }

  it(
    'killed before each of its steps, pays once by a reference when it is run again, with nothing on the disk',
    WITHOUT_LIMIT,
    async () => {
      const kills = await killedAtEach((at) => ['--reference', `order-${at}`]);
      // The request and its answer.
      expect(kills).toBeGreaterThanOrEqual(1);
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  it.each([
    ['a new key file', undefined],
    ['a key file whose key expired unused', unusedKey],
  ])('killed before each of its steps, pays once with %s when it is run again', WITHOUT_LIMIT, async (_, keyOf) => {
    const fileOf = (at: number) => join(folder, `order-${at}.key`);
    const kills = await killedAtEach(
      (at) => ['--key-file', fileOf(at)],
      (at) => keyOf && keep(fileOf(at), keyOf()),
    );
    // Draft, sync, link, folder, the requests and their answers.
    expect(kills).toBeGreaterThanOrEqual(10);
  });
});
