import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { run } from '#idempay/command-line.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { beginPayment, expectFirst, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import {
  DEPLOYMENTS,
  type Deployment,
  describeDeployments,
  type Stores,
} from '../../testkit/deployments/deployments.js';
import { shareProcess, shareService } from '../../testkit/deployments/shared-service.js';
import { type LogLine, runToExit, type Service } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';

const WARN = 40;
const PACKAGE = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
/** A wrong value for each setting; `test/unit/config.test.ts` has many more. */
const BAD_SETTINGS = {
  PORT: '65536',
  IDEMPOTENCY_TTL_SECONDS: 'a day',
  LOCK_TTL_SECONDS: '-1',
  TRANSACTION_CACHE_TTL_SECONDS: '1.5',
  PROCESSOR_URL: 'not an address',
  PROCESSOR_DELAY_MS: '0x10',
  PROCESSOR_TIMEOUT_MS: 'soon',
  PROCESSOR_DEDUP_SECONDS: '1e3',
  PAYLOAD_MISMATCH: 'perhaps',
  LOG_LEVEL: 'shout',
};
const [ANY_DEPLOYMENT] = DEPLOYMENTS as [Deployment];
const MISSPELT = { PROCESOR_URL: 'http://user:topsecret@processor.example' };

const startLine = (logs: readonly LogLine[]) => logs.find(({ msg }) => msg === 'listening');
const warnings = (logs: readonly LogLine[]) => logs.filter(({ level }) => level === WARN).map(({ msg }) => msg ?? '');

/**
 * Bug: `PROCESOR_URL=...` started a service that answered 200 and moved no money, and no log line said so.
 * Cause: variables with other names were ignored in silence, and the start line named neither stores nor processor.
 * Fix: names that look like a setting are warned of, so is the simulated processor, and the start line names everything.
 */
describeDeployments('a process', (deployment) => {
  const shared = shareProcess(deployment, MISSPELT);

  it('names version, deployment, stores and processor in the line "listening"', () => {
    const line = startLine(shared.service.logs);
    const { DATA_DIR, REDIS_URL, DATABASE_URL } = shared.stores.environment;
    expect(line).toMatchObject({ version: PACKAGE.version, host: '127.0.0.1', processor: 'simulated' });
    if (DATA_DIR) expect(line).toMatchObject({ deployment: 'embedded', dataDir: DATA_DIR });
    else {
      expect(line).toMatchObject({ deployment: 'distributed' });
      expect(line?.redis).toContain(new URL(REDIS_URL?.split(',')[0] ?? '').host);
      expect(line?.database).toContain(new URL(DATABASE_URL ?? '').pathname);
    }
  });

  it('warns that payments are simulated, and of a name that looks like a setting and is none', async () => {
    await until('the warning of the simulated processor', 5_000, () =>
      warnings(shared.service.logs).some((sentence) => /simulated.*PROCESSOR_URL/.test(sentence)),
    );
    const misspelt = expect.stringMatching(/^PROCESOR_URL .*PROCESSOR_URL was probably meant/);
    expect(warnings(shared.service.logs)).toContainEqual(misspelt);
    expect(JSON.stringify(shared.service.logs)).not.toContain('topsecret');
  });

  it('ends on SIGINT with exit code 0, without waiting for connections that are idle', async () => {
    await ask(`${shared.url}/api/health/redis`); // Leaves a kept-alive connection behind.
    const signalledAt = performance.now();
    shared.service.signal('SIGINT');
    expect(await shared.service.ended).toEqual({ code: 0, signal: null });
    expect(performance.now() - signalledAt).toBeLessThan(4_000);
  });

  it('answers what is under way on SIGTERM, sent again and again, and keeps what it answered', async () => {
    const service = await shared.stores.start({ PROCESSOR_DELAY_MS: '1000' });
    const keys = await Promise.all(Array.from({ length: 4 }, () => generateKey(service.url)));
    const begun = await Promise.all(keys.map((key) => beginPayment(service.url, key)));
    // Twice at once, as a process group gets it.
    service.signal('SIGTERM');
    service.signal('SIGTERM');
    // The listening socket closes when the first one is handled: what comes then is surely a further one.
    await untilRefused(service);
    service.signal('SIGTERM');
    const ids = await Promise.all(begun.map(async ({ finished }) => expectFirst(await finished)));
    expect(await service.ended).toEqual({ code: 0, signal: null });

    const next = await shared.stores.serve();
    for (const [index, key] of keys.entries()) expectReplay(await pay(next.url, key), ids[index]);
  });
});

describeDeployments('a start with empty settings', (deployment) => {
  const names = ['HOST', ...Object.keys(BAD_SETTINGS).filter((name) => name !== 'PORT')];
  const shared = shareService(deployment, Object.fromEntries(names.map((name) => [name, ''])));

  it('is a start without them', async () => {
    const { key } = await givenPaid(shared.url);
    const { ttlSeconds } = (await ask(`${shared.url}/api/health/redis/key/${key}`)).json<{ ttlSeconds: number }>();
    expect(ttlSeconds).toBeGreaterThan(86_400 - 60);
    expect(ttlSeconds).toBeLessThanOrEqual(86_400);
  });
});

/** The same program on every deployment, up to what is asked here. */
describe('the program', () => {
  let stores: Stores;
  beforeAll(async () => {
    stores = await ANY_DEPLOYMENT.open();
  });
  afterAll(() => stores.close());

  it('refuses bad settings, and names every one of them at once', async () => {
    const { code, output } = await runToExit({ ...BAD_SETTINGS, REDIS_URL: 'redis://127.0.0.1:1', DATABASE_URL: '' });
    expect(code).toBe(1);
    for (const name of [...Object.keys(BAD_SETTINGS), 'REDIS_URL', 'DATABASE_URL']) expect(output).toContain(name);
  });

  it('refuses a port that is taken, with a sentence', async () => {
    const { port } = await stores.serve();
    const others = await ANY_DEPLOYMENT.open();
    try {
      const { code, output } = await runToExit({ ...others.environment, PORT: String(port) });
      expect(code).toBe(1);
      expect(output).toMatch(new RegExp(`in use.*${port}`));
      expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
    } finally {
      await others.close();
    }
  });

  it('shows no credentials of the processor, and does not call it simulated', async () => {
    const others = await ANY_DEPLOYMENT.open();
    try {
      const { logs, stop } = await others.start({ PROCESSOR_URL: 'http://merchant:topsecret@127.0.0.1:1/v1' });
      await stop();
      expect(startLine(logs)?.processor).toContain('http://127.0.0.1:1/v1');
      expect(JSON.stringify(logs)).not.toContain('topsecret');
      expect(warnings(logs).join()).not.toMatch(/simulated/);
    } finally {
      await others.close();
    }
  });

  it('ends with exit code 1 for an argument that it does not know', async () => {
    const { code, output } = await runToExit({ DATA_DIR: '/nowhere' }, { parameters: ['--port=80'] });
    expect(code).toBe(1);
    expect(output).toContain("'--port=80' is not an argument of Idempay");
  });
});

describe('the command line', () => {
  let output: string;
  beforeEach(() => {
    output = '';
    for (const stream of ['log', 'error'] as const) {
      vi.spyOn(console, stream).mockImplementation((text) => {
        output += text;
      });
    }
  });
  afterEach(() => {
    vi.restoreAllMocks();
    process.exitCode = undefined;
  });

  it('answers --version with the version', async () => {
    await run(['--version']);
    expect(output).toBe(`idempay ${PACKAGE.version}`);
  });

  it('answers --help with every setting of .env.example but the one for tests, and its default', async () => {
    await run(['--help']);
    const example = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8');
    const documented = [...example.matchAll(/^([A-Z_]+)=(.*)$/gm)].filter(([, name]) => name !== 'CRASH_AT');
    expect(documented.length).toBeGreaterThan(15);
    for (const [, name, fallback] of documented) expect(output).toMatch(new RegExp(`^ +${name} +${fallback}`, 'm'));
  });

  it.each(['serve', '-x', '--halp'])('refuses %s with a sentence, and does not serve', async (parameter) => {
    await run([parameter]);
    expect(process.exitCode).toBe(1);
    expect(output).toContain(`'${parameter}' is not an argument of Idempay`);
    expect(output).toContain('--help');
  });
});

/** Resolves once the service takes no new connections. */
async function untilRefused(service: Service): Promise<void> {
  const code = await until('the port is closed', 5_000, () =>
    ask(`${service.url}/api/health/redis`, { agent: new Agent() }).then(
      () => undefined,
      (error: NodeJS.ErrnoException) => error.code,
    ),
  );
  expect(['ECONNREFUSED', 'ECONNRESET']).toContain(code);
}
