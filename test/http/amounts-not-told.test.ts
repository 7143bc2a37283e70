import { expect, onTestFinished, test } from 'vitest';
import { givenPaid } from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { runDoctor } from '../../testkit/deployments/doctor.js';
import { serveReferenceProcessor } from '../../testkit/processes/reference-processor.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

const LOGGED_DEADLINE_MS = 10_000;
const WARNING = 'look-ups at the processor do not say what was charged';

/** An adapter whose replies name the reference, and never an amount. */
async function startSilentAdapter() {
  const charged = new Set<string>();
  const { port } = await startHttpServer((response, { method, url, headers }) => {
    const reference = String(headers['idempotency-key'] ?? url.split('/').at(-1));
    if (method === 'POST') charged.add(reference);
    const isCharged = charged.has(reference);
    response.writeHead(isCharged ? 200 : 404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...(isCharged && { status: 'succeeded' }), reference }));
  });
  return `http://127.0.0.1:${port}`;
}

/**
 * An adapter whose look-ups name no amount works every day, and after a failover that loses rows each lost payment waits for an operator (rule
 * P18). So a start and the doctor say it while there is time to mend it.
 */
describeDeployments('an adapter whose look-ups do not say what was charged', (deployment) => {
  async function secondStart(processorUrl: string) {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const settings = { PROCESSOR_URL: processorUrl };
    const first = await stores.serve(settings);
    await givenPaid(first.url);
    await first.stop();
    const { rows } = await runDoctor({ ...stores.environment, ...settings });
    return { service: await stores.serve(settings), row: rows.find((each) => each.includes('Processor amounts')) };
  }

  test('is named by the next start and by the doctor', async () => {
    const { service, row } = await secondStart(await startSilentAdapter());
    await until('the warning', LOGGED_DEADLINE_MS, () => service.logs.some(({ msg }) => msg?.startsWith(WARNING)));
    expect(row).toMatch(/^warning .*does not say what was charged/);
  });

  test('is told from one whose look-ups say it', async () => {
    const processor = await serveReferenceProcessor();
    onTestFinished(() => processor.close());
    const { service, row } = await secondStart(processor.url);
    expect(row).toMatch(/^ok .*told/);
    await givenPaid(service.url);
    expect(service.logs.filter(({ msg }) => msg?.startsWith(WARNING))).toEqual([]);
  });
});
