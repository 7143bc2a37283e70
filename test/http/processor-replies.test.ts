import { expect, it, onTestFinished } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

const OTHER = '0193a5b4-7c1e-7000-8000-000000000002';
const DEADLINE_MS = 20_000;
const EUR = { amount: '5.00', currency: 'EUR' };

/**
 * Bug: a reply about another charge was this payment's success, and the 404 page of an ingress was "no record". Cause: only the status of a
 * reply was read. Fix: what a reply names is compared, and a 404 must be the adapter's (rule P23).
 */
describeOneDeployment('a reply of the processor', (deployment) => {
  /** A service whose processor answers a charge, and then look-ups, with these bodies; `undefined`: the 404 page of an ingress. */
  async function servedWith(replies: { charge: object; lookUp: object | undefined }) {
    const processor = await startHttpServer((response, { method }) => {
      if (method === 'POST') return response.writeHead(201).end(JSON.stringify(replies.charge));
      if (replies.lookUp === undefined) return response.writeHead(404).end('404 page not found');
      return response.end(JSON.stringify(replies.lookUp));
    });
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const at = { PROCESSOR_URL: `http://127.0.0.1:${processor.port}`, PROCESSOR_ACCOUNT: 'test' };
    const charges = () => processor.received.filter(({ method }) => method === 'POST').length;
    return { ...(await stores.serve(at)), charges };
  }

  const succeeded = (about: object) => ({ status: 'succeeded', ...about });

  it.each([
    ['reference', { reference: OTHER }],
    ['amount', { amount: '7.00', currency: 'eur' }],
  ])(
    'that names another %s is unknown, sends nothing again, and ends with a look-up that names this one',
    async (...[, difference]) => {
      const replies = { charge: succeeded(difference), lookUp: succeeded(difference) as object | undefined };
      const { url, charges } = await servedWith(replies);
      const key = await generateKey(url);
      expectError(await pay(url, key, EUR), 504);
      expect(await shownPaymentOf(url, key)).toMatchObject({ state: 'PROCESSING' });
      replies.lookUp = undefined;
      const unclear = await pay(url, key, EUR);
      expect([409, 504]).toContain(unclear.status);
      replies.lookUp = succeeded({ reference: key, amount: '5', currency: 'eur' });
      const paid = await until('the look-up that names the payment', DEADLINE_MS, async () => {
        const answer = await pay(url, key, EUR);
        return answer.status === 200 && answer;
      });
      expect(paid.text).toContain('TXN');
      expect(charges()).toBe(1);
    },
  );
});
