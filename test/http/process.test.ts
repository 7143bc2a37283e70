import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { Agent } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { run } from '#idempay/commands/command-line.js';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { beginPayment, expectFirst, expectReplay, untilPaid } from '../../testkit/client/payment-answers.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { openConnection, paymentText, sendAndVanish, statusesIn } from '../../testkit/client/raw-http.js';
import { inParallel } from '../../testkit/concurrency.js';
import { DEPLOYMENTS, type Deployment, describeDeployments, embedded } from '../../testkit/deployments/deployments.js';
import { expectUnknown, untilCharged } from '../../testkit/deployments/processor-environment.js';
import { shareProcess } from '../../testkit/deployments/shared-service.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { DRAIN_LIMIT_MS, type LogLine, runToExit } from '../../testkit/processes/service.js';
import type { ServiceInProcess } from '../../testkit/processes/service-in-process.js';
import { startHoldingProcessor } from '../../testkit/servers/holding-processor.js';
import { until } from '../../testkit/time/until.js';

const PACKAGE = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const [ANY_DEPLOYMENT] = DEPLOYMENTS as [Deployment];
/** Longer than any test. */
const ENDLESS_MS = '600000';
const SHORT_DRAIN_MS = 200;
const DEADLINE_MS = 10_000;

const startLine = (logs: readonly LogLine[]) => logs.find(({ msg }) => msg === 'listening');
const warnings = (logs: readonly LogLine[]) => logs.filter(({ level }) => level === 40).map(({ msg }) => msg ?? '');

/** Stores that the test may do with as it likes. */
async function openStores(deployment: Deployment) {
  const stores = await deployment.open();
  onTestFinished(() => stores.close());
  return stores;
}

/**
 * Bug: `PROCESOR_URL=...` started a service that answered 200 and moved no money, and no log line said so.
 * Cause: variables with other names were ignored in silence, and the start line named neither stores nor processor.
 * Fix: names that look like a setting are warned of, so is the simulated processor, and the start line names everything.
 */
describeDeployments('a process', (deployment) => {
  // An empty setting counts as unset.
  const unset = { PROCESSOR_URL: '', LOG_LEVEL: '', HOST: '' };
  const shared = shareProcess(deployment, { PROCESOR_URL: 'http://user:topsecret@processor.example', ...unset });

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

  it('warns of who may do everything, that payments are simulated, and of a name that looks like a setting and is none', async () => {
    const { logs } = shared.service;
    await until('the warning of the simulated processor', 5_000, () =>
      warnings(logs).some((sentence) => /simulated.*PROCESSOR_URL/.test(sentence)),
    );
    const misspelt = expect.stringMatching(/^PROCESOR_URL .*PROCESSOR_URL was probably meant/);
    expect(warnings(logs)).toContainEqual(misspelt);
    expect(warnings(logs)).toContain('every program on this machine may do everything: set AUTH=required');
    expect(JSON.stringify(logs)).not.toContain('topsecret');
  });

  it('ends on SIGINT with exit code 0, without waiting for connections that are idle', async () => {
    const agent = new Agent({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    await ask(`${shared.url}/api/health/redis`, { agent });
    const signalledAt = performance.now();
    shared.service.signal('SIGINT');
    expect(await shared.service.ended).toEqual({ code: 0, signal: null });
    expect(performance.now() - signalledAt).toBeLessThan(DRAIN_LIMIT_MS);
  });

  it('answers what is under way on SIGTERM, sent again and again, and keeps what it answered', async () => {
    const { environment, release } = await startHoldingProcessor();
    const service = await shared.stores.start(environment);
    const keys = await Promise.all(Array.from({ length: 4 }, () => generateKey(service.url)));
    const begun = await Promise.all(keys.map((key) => beginPayment(service.url, key)));
    // Twice at once, as a process group gets it.
    service.signal('SIGTERM');
    service.signal('SIGTERM');
    // The listening socket closes when the first one is handled: what comes then is surely a further one.
    const health = () => ask(`${service.url}/api/health/redis`, { agent: new Agent() });
    await expect.poll(() => health().catch(String)).toMatch(/ECONNREFUSED|ECONNRESET|socket hang up/);
    service.signal('SIGTERM');
    for (const key of keys) release(key);
    const ids = await Promise.all(begun.map(async ({ finished }) => expectFirst(await finished)));
    expect(await service.ended).toEqual({ code: 0, signal: null });

    const next = await shared.stores.serve(environment);
    for (const [index, key] of keys.entries()) expectReplay(await pay(next.url, key), ids[index]);
  });
});

/**
 * Bug: a drain waited for connections, so a payment whose client had disconnected was cut: nothing was logged, row and lock
 * stayed leased, and a repeat after the restart got 409. Cause: only recovery's attempts were awaited. Fix: the drain waits
 * for every request under way, and what it must cut is given up while the stores are still open.
 */
describeDeployments('a drain', (deployment) => {
  async function untilClaimed({ url }: ServiceInProcess, key: string): Promise<string> {
    const { transactionId } = await until('the payment to be claimed', DEADLINE_MS, async () => {
      const payment = await shownPaymentOf(url, key);
      return payment.state === 'PROCESSING' && payment;
    });
    return transactionId as string;
  }

  /** A claimed payment whose client has disconnected. */
  async function givenPaymentWithoutClient(service: ServiceInProcess) {
    const key = await generateKey(service.url);
    await sendAndVanish(service.port, paymentText(key));
    return { key, transactionId: await untilClaimed(service, key) };
  }

  it('waits for a payment whose client has disconnected, so that a restart repeats it', async () => {
    const stores = await openStores(deployment);
    const { environment, release } = await startHoldingProcessor();
    const service = await stores.serve(environment);
    const { key, transactionId } = await givenPaymentWithoutClient(service);
    const stopped = service.stop();
    release(key);
    await stopped;

    const next = await stores.serve(environment);
    expect(await shownPaymentOf(next.url, key)).toMatchObject({ state: 'COMPLETED', executions: 1 });
    expectReplay(await pay(next.url, key), transactionId);
  });

  // If an answer were not written in its own turn, Node would take the connection for idle, and the drain would close it.
  it('answers each request of a connection that it started, and starts none that it would not answer', async () => {
    const stores = await openStores(deployment);
    const service = await stores.serve();
    const keys = await inParallel(100, 8, () => generateKey(service.url));
    const payments = openConnection(service.port, keys.map((key) => paymentText(key)).join('')).setEncoding('latin1');
    let received = '';
    payments.on('data', (text) => {
      received += text;
    });
    await once(payments, 'data');
    const stopped = service.stop();
    await once(payments, 'close');
    await stopped;
    const statuses = statusesIn(received);
    expect(new Set(statuses)).toEqual(new Set([200]));
    const next = await stores.serve();
    await inParallel(keys.length, 8, async (index) => {
      const answer = await pay(next.url, keys[index] as string);
      if (index < statuses.length) expectReplay(answer);
      else expectFirst(answer);
    });
  });

  it('that must cut payments gives them up and names them in the log, and repeats pay them at once', async () => {
    const stores = await openStores(deployment);
    const service = await stores.serve({ PROCESSOR_DELAY_MS: ENDLESS_MS });
    const cut = await givenPaymentWithoutClient(service);
    const key = await generateKey(service.url);
    const answer = pay(service.url, key);
    const transactionId = await untilClaimed(service, key);

    await service.stop(SHORT_DRAIN_MS);
    expectUnknown(await answer);
    const named = service.logs.filter(({ msg }) => msg === 'the outcome of a payment is not known yet');
    expect(named.map((line) => line.transactionId).sort()).toEqual([cut.transactionId, transactionId].sort());

    const next = await stores.serve();
    for (const each of [cut.key, key]) expect((await pay(next.url, each)).status).toBe(200);
  });

  it('that must cut a charge over the network gives it up, and the repeat looks it up', async () => {
    const processor = await serveReferenceProcessor({ behaviour: { replyLatencyMs: Number(ENDLESS_MS) } });
    onTestFinished(() => processor.close());
    const stores = await openStores(deployment);
    const service = await stores.serve({ PROCESSOR_URL: processor.url });
    const { key } = await givenPaymentWithoutClient(service);
    await untilCharged(processor, key);
    await service.stop(SHORT_DRAIN_MS);

    await processor.behave({ replyLatencyMs: 0 });
    const next = await stores.serve({ PROCESSOR_URL: processor.url });
    await untilPaid(next.url, key);
    expect(await processor.chargesOf(key)).toHaveLength(1);
  });
});

/** The same program on every deployment, up to what is asked here. */
describe('the program', () => {
  it('refuses bad settings, and names every one of them at once', async () => {
    const bad = { PORT: '65536', LOCK_TTL_SECONDS: '-1', PROCESSOR_URL: 'not an address', DATABASE_URL: '' };
    const { code, output } = await runToExit({ ...bad, REDIS_URL: 'redis://127.0.0.1:1' });
    expect(code).toBe(1);
    for (const name of Object.keys(bad)) expect(output).toContain(name);
  });

  it('refuses a port that is taken, with a sentence', async () => {
    const { port } = await (await openStores(ANY_DEPLOYMENT)).serve();
    const { environment } = await openStores(ANY_DEPLOYMENT);
    const { code, output } = await runToExit({ ...environment, PORT: String(port) });
    expect(code).toBe(1);
    expect(output).toMatch(new RegExp(`in use.*${port}`));
    expect(output, 'a stack trace').not.toMatch(/\bat \S.*:\d+:\d+/);
  });

  it('shows no credentials of the processor, and does not call it simulated', async () => {
    const stores = await openStores(ANY_DEPLOYMENT);
    const { logs, stop } = await stores.start({ PROCESSOR_URL: 'http://merchant:topsecret@127.0.0.1:1/v1' });
    await stop();
    expect(startLine(logs)?.processor).toContain('http://127.0.0.1:1/v1');
    expect(JSON.stringify(logs)).not.toContain('topsecret');
    expect(warnings(logs).join()).not.toMatch(/simulated/);
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

  it('answers --help with every setting of .env.example and its default, and with no other', async () => {
    await run(['--help']);
    const [example, settings] = ['.env.example', 'docs/reference/settings.md'].map((file) =>
      readFileSync(file, 'utf8'),
    );
    for (const [, name] of output.matchAll(/^ {2}([A-Z_]+) /gm)) {
      expect(example).toContain(`\n${name}=`);
      expect(settings).toContain(`\`${name}\``);
    }
    const documented = [...(example ?? '').matchAll(/^([A-Z_]+)=(.*)$/gm)];
    expect(documented.length).toBeGreaterThan(15);
    for (const [, name, fallback] of documented) expect(output).toMatch(new RegExp(`^ +${name} +${fallback}`, 'm'));
  });

  it.each(['srve', '-x', '--halp', '--port=80'])(
    'refuses %s with a sentence, and does not serve',
    async (parameter) => {
      await run([parameter]);
      expect(process.exitCode).toBe(1);
      expect(output).toContain(`'${parameter}' is not an argument of Idempay`);
      expect(output).toContain('--help');
    },
  );

  describe('backup', () => {
    afterEach(() => vi.unstubAllEnvs());

    it('copies the database of a service that runs, and says when the copy is complete', async () => {
      const stores = await openStores(embedded);
      await generateKey((await stores.serve()).url);
      const folder = stores.environment.DATA_DIR ?? '';
      vi.stubEnv('DATA_DIR', folder);
      const file = join(folder, 'copy.sqlite');
      vi.spyOn(process.stdout, 'write').mockImplementation((text, ...more) => {
        output += text;
        for (const done of more) if (typeof done === 'function') done();
        return true;
      });
      await run(['backup', file]);
      // A copy that takes longer shows its progress before.
      expect(output.endsWith(`${file} is complete.\n`), output).toBe(true);
      expect(statSync(file).size).toBeGreaterThan(0);
    });

    it.each([
      ['without a file', ['backup'], {}, "missing required argument 'file'"],
      ['with two files', ['backup', 'a', 'b'], {}, 'Expected 1 argument but got 2'],
      [
        'without a database',
        ['backup', 'a'],
        { DATA_DIR: '/dev/null/nowhere' },
        'There is no database in /dev/null/nowhere',
      ],
      [
        'of PostgreSQL',
        ['backup', 'a'],
        { REDIS_URL: 'redis://127.0.0.1', DATABASE_URL: 'postgres://127.0.0.1/a' },
        'back PostgreSQL up with its own tools',
      ],
      ['with a wrong setting', ['backup', 'a'], { PORT: 'x' }, 'PORT must be a whole number'],
    ])('%s is refused with a sentence', async (_what, parameters, environment, sentence) => {
      for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
      await run(parameters);
      expect(process.exitCode).toBe(1);
      expect(output).toContain(sentence);
    });
  });
});
