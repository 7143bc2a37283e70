import { once } from 'node:events';
import { expect, it, onTestFinished } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { expectFirst } from '../../testkit/client/payment-answers.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { FULL_OUTPUT } from '../../testkit/processes/command.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { SERVICE } from '../../testkit/programs.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { until } from '../../testkit/time/until.js';

const START_MS = 40_000;
const ENDED = { code: 0, signal: null };
/** Logged at `debug`: together more than a socket or a pipe holds. */
const REQUESTS = 3_000;

/**
 * Bug: with its log on a full disk, or with a reader of its log that had stopped, a service stopped answering for ever and could not be
 * ended by SIGTERM. Cause: sonic-boom tried the last lines again and again on the main thread. Fix: lines that cannot be written are
 * dropped and counted, and the process gives its last lines a second.
 */
describeOneDeployment('a service whose log cannot be written', (deployment) => {
  async function start(launcher: readonly string[]) {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const port = await freePort();
    const settings = { ...stores.environment, HOST: '127.0.0.1', PORT: String(port), LOG_LEVEL: 'debug' };
    const { child, ended } = spawnProgram(SERVICE, settings, launcher);
    onTestFinished(() => void child.kill('SIGKILL'));
    const url = `http://127.0.0.1:${port}`;
    const isReady = async () => (await ask(`${url}/readyz`)).status === 200;
    await until('the service to be ready', START_MS, () => isReady().catch(() => false));
    return { url, child, ended };
  }

  it('pays and answers with its log on a full disk, and SIGTERM ends it with exit code 0', async () => {
    const { url, child, ended } = await start(FULL_OUTPUT);
    for (let payment = 0; payment < 3; payment += 1) expectFirst(await pay(url, await generateKey(url)));
    expect((await ask(`${url}/livez`)).status).toBe(200);
    child.kill('SIGTERM');
    expect(await ended).toEqual(ENDED);
  });

  it('pays and answers while the reader of its log has stopped, and SIGTERM ends it with exit code 0', async () => {
    const { url, child, ended } = await start([]);
    child.stdout.pause();
    await inParallel(REQUESTS, 16, () => ask(`${url}/livez`));
    expectFirst(await pay(url, await generateKey(url)));
    child.kill('SIGTERM');
    const [code, signal] = await once(child, 'exit');
    expect({ code, signal }).toEqual(ENDED);
    child.stdout.resume();
    await ended;
  });
});
