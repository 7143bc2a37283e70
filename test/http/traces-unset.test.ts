import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ask, generateKey, pay } from '../../testkit/client/http-client.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { freePort } from '../../testkit/servers/server-process.js';
import { withSlack } from '../../testkit/time/patience.js';

/** For the last export. */
const STOP_MS = 2_000;

describeOneDeployment('a process', (deployment) => {
  /** Every file of code that the process loaded: Node.js writes them down when it ends. */
  async function filesLoadedBy(settings: Record<string, string>): Promise<string[]> {
    const coverage = await mkdtemp(join(tmpdir(), 'idempay-loaded-'));
    const stores = await deployment.open();
    onTestFinished(async () => {
      await stores.close();
      await rm(coverage, { recursive: true });
    });
    const service = await stores.start({ NODE_V8_COVERAGE: coverage, ...settings });
    expect((await pay(service.url, await generateKey(service.url))).status).toBe(200);
    expect((await ask(`${service.url}/metrics`)).status).toBe(200);
    const begun = performance.now();
    expect(await service.stop()).toEqual({ code: 0, signal: null });
    expect(performance.now() - begun).toBeLessThan(withSlack(STOP_MS));
    const reports = await Promise.all((await readdir(coverage)).map((file) => readFile(join(coverage, file), 'utf8')));
    return reports.flatMap((report) =>
      (JSON.parse(report) as { result: { url: string }[] }).result.map(({ url }) => url),
    );
  }
  const ofTraces = (files: readonly string[]) =>
    files.filter((file) => file.includes('@opentelemetry') || file.endsWith('dist/traces/traces.js'));

  test('loads nothing of OpenTelemetry without its setting', async () => {
    const files = await filesLoadedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: '' });
    expect(files.some((file) => file.endsWith('dist/app.js'))).toBe(true);
    expect(ofTraces(files)).toEqual([]);
  });

  test('loads it with the setting, pays without a collector, and ends in time', async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    expect(ofTraces(await filesLoadedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: nobody }))).not.toEqual([]);
  });
});
