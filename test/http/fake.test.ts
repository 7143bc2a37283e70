import { expect, onTestFinished, test } from 'vitest';
import { FakeIdempay } from '#idempay/testing/index.js';
import { declinesWith, exchangesWith } from '../../testkit/client-library/exchanges.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { setProcessorEnvironment } from '../../testkit/deployments/processor-environment.js';

describeOneDeployment('the fake service of idempay/testing', (deployment) => {
  test.each(['replay', 'reject'] as const)(
    'answers as the service does, with PAYLOAD_MISMATCH=%s',
    async (payloadMismatch) => {
      const stores = await deployment.open();
      onTestFinished(() => stores.close());
      const service = await stores.serve({ PAYLOAD_MISMATCH: payloadMismatch });
      const fake = await new FakeIdempay({ payloadMismatch }).listen();
      onTestFinished(() => fake.close());
      const expected = await exchangesWith(service.url);
      const actual = await exchangesWith(fake.url);
      expect(actual).toEqual(expected);
      expect(new Set(actual.map(({ status }) => status)).size).toBeGreaterThanOrEqual(10);
    },
  );

  const environment = setProcessorEnvironment(deployment);

  test('answers about declined attempts as the service does', async () => {
    const { url } = await environment.serve();
    const expected = await declinesWith(url, async (work) => {
      await environment.processor.behave({ declineRate: 1 });
      return work().finally(() => environment.processor.behave({ declineRate: 0 }));
    });
    const fake = new FakeIdempay();
    const listener = await fake.listen();
    onTestFinished(() => listener.close());
    const actual = await declinesWith(listener.url, (work, operation = 'pay') => {
      fake.next(operation, { decline: operation === 'pay' ? 'insufficient funds' : 'the card was closed' });
      return work();
    });
    expect(namedAlike(actual)).toEqual(namedAlike(expected));
  });
});

/** The one processor is simulated, the other one speaks HTTP. */
function namedAlike(seen: Awaited<ReturnType<typeof declinesWith>>) {
  return seen.map(({ body, ...rest }) => ({
    ...rest,
    body: body.replace(/"processor":"[^"]+"/g, '"processor":"any"'),
  }));
}
