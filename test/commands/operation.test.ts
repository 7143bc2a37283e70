import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { runCommand } from '../../testkit/processes/command.js';
import { type Environment, spawnProgram } from '../../testkit/processes/service.js';
import { SERVICE } from '../../testkit/programs.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 20_000;

/** Starts what serves until a signal, and ends it with the test. */
async function start(parameters: readonly string[], environment: Environment, isReady: () => Promise<boolean>) {
  const { child, ended } = spawnProgram(SERVICE, environment, [], parameters);
  child.stdout.resume();
  child.stderr.resume();
  onTestFinished(async () => {
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
  });
  await until('it answers', DEADLINE_MS, isReady);
}

it('serve serves, processor runs the reference processor, and a payment of one is charged by the other', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'idempay-operation-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [port, processorPort] = [await freePort(), await freePort()];
  const answers = (url: string) => () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  const processor = `http://127.0.0.1:${processorPort}`;
  const log = join(folder, 'charges.ndjson');
  await start(['processor'], { PROCESSOR_PORT: `${processorPort}`, CHARGE_LOG: log }, answers(processor));
  const url = `http://127.0.0.1:${port}`;
  const settings = { PORT: `${port}`, DATA_DIR: join(folder, 'data'), PROCESSOR_URL: processor };
  await start(['serve'], settings, answers(`${url}/readyz`));
  expect(await runCommand(url, ['pay', '--amount', '3.00', '--currency', 'EUR'])).toMatchObject({ code: 0 });
  expect(readFileSync(log, 'utf8')).toContain('"amount":"3.00"');
});
