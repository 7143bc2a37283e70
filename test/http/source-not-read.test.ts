import { expect, test } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { startHttpServer } from '../../testkit/servers/processor-servers.js';

const MONEY = { amount: '12.50', currency: 'EUR' };
const SOURCE = 'tok_never_in_a_log';
const WARN = 40;

/** An adapter that answers each charge with this status and state. */
function startAdapter(headers: Record<string, string>, status = 200, state = 'succeeded') {
  return startHttpServer((response) =>
    response.writeHead(status, headers).end(JSON.stringify({ status: state, reason: 'no cover' })),
  );
}

describeDeployments('an adapter that does not say that it reads who pays', (deployment) => {
  /** Pays with each content, one after the other, and returns what the log says of it once the service has ended. */
  async function warningsOf(adapter: Awaited<ReturnType<typeof startAdapter>>, contents: readonly object[]) {
    const stores = await deployment.open();
    try {
      const { url, logs, stop } = await stores.serve({ PROCESSOR_URL: `http://127.0.0.1:${adapter.port}` });
      for (const content of contents) await pay(url, await generateKey(url), { ...MONEY, ...content });
      await stop();
      expect(adapter.received.filter(({ method }) => method === 'POST')).toHaveLength(contents.length);
      expect(JSON.stringify(logs)).not.toContain(SOURCE);
      return logs.filter(({ msg }) => msg?.includes('payments have a source'));
    } finally {
      await stores.close();
    }
  }

  test.each([
    [200, 'succeeded'],
    [402, 'declined'],
  ])('is warned of in the log, once, when it settles such a charge with %i', async (...reply) => {
    const withSource = { source: SOURCE, description: 'shoes' };
    const warnings = await warningsOf(await startAdapter({}, ...reply), [{}, withSource, withSource, withSource]);
    expect(warnings).toMatchObject([{ level: WARN, msg: expect.stringContaining('docs/reference/processor.md') }]);
  });

  test.each([
    ['no payment has a source', {}, { description: 'shoes', metadata: { cart: 'c-1' } }],
    ['the adapter answers with Idempay-Contract: 2', { 'idempay-contract': '2' }, { source: SOURCE }],
  ])('is not warned of where %s', async (_what, headers, content) => {
    expect(await warningsOf(await startAdapter(headers), [content, content])).toEqual([]);
  });
});
