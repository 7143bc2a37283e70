import { expect, onTestFinished, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { startCollector } from '../../testkit/servers/otlp-collector.js';
import { withSlack } from '../../testkit/time/patience.js';
import { until } from '../../testkit/time/until.js';

const DEADLINE_MS = 15_000;
/** An export that hangs takes as long. */
const EXPORT_LIMIT_MS = 10_000;
/** For the last export. */
const STOP_MS = 2_000;

describeOneDeployment('traces', (deployment) => {
  test('delay and fail nothing while the collector refuses or hangs, which the log says once', async () => {
    const [collector, stores] = await Promise.all([startCollector(), deployment.open()]);
    onTestFinished(async () => {
      await stores.close();
      await collector.close();
    });
    const { url, logs, stop } = await stores.serve({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
    const about = (sentence: RegExp) => logs.filter(({ msg }) => sentence.test(msg ?? ''));
    const payments = async () => {
      const begun = performance.now();
      expect((await pay(url, await generateKey(url))).status).toBe(200);
      expect(performance.now() - begun).toBeLessThan(EXPORT_LIMIT_MS);
    };
    collector.behave('refuse');
    await until('the warning', DEADLINE_MS, async () => {
      await payments();
      return about(/cannot be exported/).length > 0;
    });
    const refused = collector.asked.length;
    await until('a second refusal', DEADLINE_MS, async () => {
      await payments();
      return collector.asked.length > refused + 1;
    });
    collector.behave('take');
    await until('the end of it', DEADLINE_MS, async () => {
      await payments();
      return about(/exported again/).length > 0;
    });
    expect(about(/cannot be exported/)).toHaveLength(1);
    expect(about(/cannot be exported/)[0]).toMatchObject({ level: 40 });
    expect(about(/exported again/)[0]).toMatchObject({ level: 30, lostSpans: expect.any(Number) });

    collector.behave('hang');
    const asked = collector.asked.length;
    await until('an export that hangs', DEADLINE_MS, async () => {
      await payments();
      return collector.asked.length > asked;
    });
    await payments();
    const begun = performance.now();
    await stop();
    expect(performance.now() - begun).toBeLessThan(withSlack(STOP_MS));
  });
});
