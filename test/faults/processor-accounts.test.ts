import { expect, it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { expectInProgress } from '../../testkit/client/payment-answers.js';
import { shownPayment } from '../../testkit/client/processor-payer.js';
import { describeDeployments, type Stores } from '../../testkit/deployments/deployments.js';
import { expectUnknown, LEASE_MS, REACHED_DEADLINE_MS } from '../../testkit/deployments/processor-environment.js';
import { type Received, startHttpServer } from '../../testkit/servers/processor-servers.js';
import { until } from '../../testkit/time/until.js';

/** A processor with accounts: each knows its own charges only. The reply to a charge is lost while `losesReplies`. */
async function startProcessorWithAccounts() {
  const behaviour = { losesReplies: false };
  const charges: string[] = [];
  const recordOf = ({ headers, url }: Received, reference = url.split('/').at(-1)) =>
    `${headers.authorization} ${reference}`;
  const server = await startHttpServer((response, request) => {
    if (request.method === 'GET') {
      const known = charges.includes(recordOf(request));
      response.writeHead(known ? 200 : 404).end('{"status":"succeeded"}');
      return;
    }
    charges.push(recordOf(request, String(request.headers['idempotency-key'])));
    if (behaviour.losesReplies) response.destroy();
    else response.end('{"status":"succeeded"}');
  });
  return { behaviour, charges, urlFor: (user: string) => `http://${user}:secret@127.0.0.1:${server.port}/` };
}

describeDeployments('a service that is started for another account of its processor', (deployment) => {
  /**
   * Bug: a payment was charged at account A and its reply lost; after a restart with account B recovery looked it up there,
   * found no record, and charged account B: two charges for one row. Fix: the account is part of the processor's name.
   */
  it('leaves the payments of the account before alone, and finishes them when it has that one again', async () => {
    const processor = await startProcessorWithAccounts();
    const stores: Stores = await deployment.open();
    try {
      const settings = { LOCK_TTL_SECONDS: `${LEASE_MS / 1000}`, PROCESSOR_TIMEOUT_MS: '1000' };
      const startFor = (user: string) => stores.start({ ...settings, PROCESSOR_URL: processor.urlFor(user) });

      const before = await startFor('merchant-a');
      processor.behaviour.losesReplies = true;
      const key = await generateKey(before.url);
      expectUnknown(await pay(before.url, key));
      await before.stop();

      const other = await startFor('merchant-b');
      expectInProgress(await pay(other.url, key), LEASE_MS / 1000);
      // Recovery finishes this one, a back-off later at the earliest, so it has met the other one too.
      const probe = await generateKey(other.url);
      expectUnknown(await pay(other.url, probe));
      await until('recovery to finish its own', REACHED_DEADLINE_MS, async () => {
        return (await shownPayment(other.url, probe))?.state === 'COMPLETED';
      });
      expect(await shownPayment(other.url, key)).toMatchObject({ state: 'PROCESSING', attempts: 1 });
      await other.stop();

      const after = await startFor('merchant-a');
      await until(
        'the account to be asked',
        REACHED_DEADLINE_MS,
        async () => (await pay(after.url, key)).status === 200,
      );
      expect(processor.charges.filter((charge) => charge.endsWith(key))).toHaveLength(1);
      expect(JSON.stringify(after.logs)).not.toContain('merchant-a');
    } finally {
      await stores.close();
    }
  });
});
