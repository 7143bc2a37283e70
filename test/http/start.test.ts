import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { type LogLine, runToExit } from '../../testkit/processes/service.js';

const WARN = 40;
const PACKAGE = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));

/**
 * Bug: `PROCESOR_URL=...` started a service that answered 200 and moved no money, and no log line said so.
 * Cause: variables with other names were ignored in silence, and the start line named neither stores nor processor.
 * Fix: names that look like a setting are warned of, so is the simulated processor, and the start line names everything.
 */
describeDeployments('the start', (deployment) => {
  let stores: Stores;
  beforeEach(async () => {
    stores = await deployment.open();
  });
  afterEach(() => stores.close());

  /** What the log says until the port is open, and right after. */
  async function logOf(environment: Record<string, string>): Promise<readonly LogLine[]> {
    const service = await stores.start(environment);
    await service.stop();
    return service.logs;
  }

  function startLine(logs: readonly LogLine[]): LogLine | undefined {
    return logs.find(({ msg }) => msg === 'listening');
  }

  function warnings(logs: readonly LogLine[]): string[] {
    return logs.filter(({ level }) => level === WARN).map(({ msg }) => msg ?? '');
  }

  it('names version, deployment, stores and processor in its line', async () => {
    const line = startLine(await logOf({}));
    const { DATA_DIR, REDIS_URL, DATABASE_URL } = stores.environment;
    expect(line).toMatchObject({ version: PACKAGE.version, host: '127.0.0.1', processor: 'simulated' });
    if (DATA_DIR) expect(line).toMatchObject({ deployment: 'embedded', dataDir: DATA_DIR });
    else {
      expect(line).toMatchObject({ deployment: 'distributed' });
      expect(line?.redis).toContain(new URL(REDIS_URL?.split(',')[0] ?? '').host);
      expect(line?.database).toContain(new URL(DATABASE_URL ?? '').pathname);
    }
  });

  it('shows no credentials of the processor, and does not call it simulated', async () => {
    const logs = await logOf({ PROCESSOR_URL: 'http://merchant:topsecret@127.0.0.1:1/v1' });
    expect(startLine(logs)?.processor).toContain('http://127.0.0.1:1/v1');
    expect(JSON.stringify(logs)).not.toContain('topsecret');
    expect(warnings(logs).join()).not.toMatch(/simulated/);
  });

  it('warns that payments are simulated', async () => {
    expect(warnings(await logOf({}))).toContainEqual(expect.stringMatching(/simulated.*PROCESSOR_URL/));
  });

  it('warns of a name that looks like a setting and is none', async () => {
    const logs = await logOf({ PROCESOR_URL: 'http://user:topsecret@processor.example' });
    expect(warnings(logs)).toContainEqual(expect.stringMatching(/^PROCESOR_URL .*PROCESSOR_URL was probably meant/));
    expect(JSON.stringify(logs)).not.toContain('topsecret');
  });
});

describe('the command line', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-command-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  async function run(...parameters: string[]) {
    const exit = await runToExit({ DATA_DIR: join(folder, 'data') }, { parameters });
    expect(await readdir(folder), 'a store was opened').toEqual([]);
    return exit;
  }

  it('answers --version with the version', async () => {
    expect(await run('--version')).toMatchObject({ code: 0, output: `idempay ${PACKAGE.version}\n` });
  });

  it('answers --help with every setting of .env.example but the one for tests, and its default', async () => {
    const { code, output } = await run('--help');
    expect(code).toBe(0);
    const example = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
    const documented = [...example.matchAll(/^([A-Z_]+)=(.*)$/gm)].filter(([, name]) => name !== 'CRASH_AT');
    expect(documented.length).toBeGreaterThan(15);
    for (const [, name, fallback] of documented) expect(output).toMatch(new RegExp(`^ +${name} +${fallback}`, 'm'));
  });

  it.each(['serve', '--port=80', '-x', '--halp'])(
    'refuses %s with a sentence, and opens nothing',
    async (parameter) => {
      const { code, output } = await run(parameter);
      expect(code).toBe(1);
      expect(output).toContain(`'${parameter}' is not an argument of Idempay`);
      expect(output).toContain('--help');
    },
  );
});
