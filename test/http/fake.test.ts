import { expect, onTestFinished, test } from 'vitest';
import { FakeIdempay } from '#idempay/testing/index.js';
import { exchangesWith } from '../../testkit/client-library/exchanges.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';

describeDeployments('the fake service of idempay/testing', (deployment) => {
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
});
