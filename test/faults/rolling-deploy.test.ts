import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { expectPromisesKept } from '../../testkit/checkers/expect-no-violations.js';
import { Load } from '../../testkit/client/load.js';
import { openDistributedStores } from '../../testkit/deployments/distributed-stores.js';
import { History } from '../../testkit/history/history.js';
import { type Service, startProgram } from '../../testkit/processes/service.js';
import { ROOT, SERVICE } from '../../testkit/programs.js';
import { seededRandom, seedFrom } from '../../testkit/random.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

/** The last commit before access control: it knows no clients, no probes and no additive migrations. */
const OLD_COMMIT = '179d838bbf1ca885eded8c13d38de0d216d978ea';
const OLD = join(ROOT, 'build', 'old-version');
const OLD_SERVICE = join(OLD, 'dist', 'main.js');
const CLIENTS = { payments: 16, transactions: 16 };
const LEASE_SECONDS = 5;
/** At each stage, with every pair of versions beside each other. */
const KEYS = 300;
const WRITES = 100;
const STAGE_DEADLINE_MS = 60_000;

beforeAll(() => {
  rmSync(OLD, { recursive: true, force: true });
  mkdirSync(OLD, { recursive: true });
  // Throws with git's own words where the history is not there: `git fetch --unshallow`.
  const archive = execFileSync(
    'git',
    ['archive', OLD_COMMIT, 'src', 'scripts', 'package.json', 'tsconfig.json', 'tsconfig.build.json'],
    {
      cwd: ROOT,
      maxBuffer: 1e8,
    },
  );
  execFileSync('tar', ['-x', '-C', OLD], { input: archive });
  symlinkSync(join(ROOT, 'node_modules'), join(OLD, 'node_modules'));
  execFileSync(process.execPath, ['scripts/build.mjs'], { cwd: OLD });
}, 120_000);
afterAll(() => rmSync(OLD, { recursive: true, force: true }));

test('two versions side by side keep every promise, while one replaces the other and while it is taken back', async () => {
  const stores = await openDistributedStores();
  const history = new History();
  const running = new Map<string, Service>();
  onTestFinished(async () => {
    history.close();
    await Promise.all([...running.values()].map((service) => service.kill()));
    await stores.close();
  });
  const ports = new Map([
    ['service 1', await freePort()],
    ['service 2', await freePort()],
  ]);
  history.targets = [...ports].map(([name, port]) => ({ name, url: `http://127.0.0.1:${port}` }));
  const start = async (name: string, program: string) => {
    const environment = {
      HOST: '127.0.0.1',
      PORT: `${ports.get(name)}`,
      LOCK_TTL_SECONDS: `${LEASE_SECONDS}`,
      ...stores.environment,
    };
    running.set(name, await startProgram(program, environment));
  };
  /** As a deploy does: told to stop, drained, then the other version at the same address. */
  const replace = (name: string, program: string) =>
    history.disturbances.during(name, async () => {
      expect(await running.get(name)?.stop()).toMatchObject({ code: 0 });
      await start(name, program);
    });
  const serveForAWhile = () => {
    const [keys, writes] = [history.keys.length + KEYS, history.writes + WRITES];
    return until(
      'enough keys and writes',
      STAGE_DEADLINE_MS,
      () => history.keys.length >= keys && history.writes >= writes,
    );
  };

  await start('service 1', OLD_SERVICE);
  await start('service 2', OLD_SERVICE);
  const load = new Load(history, seededRandom(seedFrom('ROLLING_SEED')), { withKeysOfCreates: false });
  await load.during(CLIENTS, async () => {
    await serveForAWhile();
    for (const [name, program] of [
      ['service 1', SERVICE],
      ['service 2', SERVICE],
      ['service 1', OLD_SERVICE],
      ['service 2', OLD_SERVICE],
      ['service 1', SERVICE],
    ] as const) {
      await replace(name, program);
      await serveForAWhile();
    }
  });
  await expectPromisesKept(load, { charges: undefined, leaseMs: LEASE_SECONDS * 1_000 });
  expect(await stores.sql('SELECT name FROM idempay.additive_migrations')).not.toEqual([]);
}, 400_000);
