import { expect, onTestFinished, test } from 'vitest';
import type { Finding } from '#idempay/platform/finding.js';
import { adoptStopped } from '../../testkit/client/adoption.js';
import { credentialOf } from '../../testkit/client/credentials.js';
import { type Ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { openTestStores } from '../../testkit/deployments/distributed-stores.js';
import { runCommand } from '../../testkit/processes/command.js';
import type { Environment } from '../../testkit/processes/service.js';

const shop = credentialOf('shop', ['payments:write']);
const keys = await requireKeys(shop);

const payOrder = (url: string, headers: Ask['headers'] = {}) =>
  sendJson(`${url}/api/payment?reference=order-1`, 'POST', { amount: '7.00', currency: 'EUR' }, headers);

/** The doctor ends its process, so it runs in one of its own. */
async function findingOf(environment: Environment): Promise<Finding | undefined> {
  const { stdout } = await runCommand('', ['doctor', '--json'], environment);
  const findings = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Finding);
  return findings.find(({ what }) => what === 'AUTH and the orders');
}

const FINE = expect.objectContaining({ verdict: 'ok', found: 'none that would be charged again' });
const refused = (...words: string[]) =>
  expect.objectContaining({ verdict: 'wrong', found: expect.stringMatching(words.join('.*')) });

/** Bug: the doctor found nothing wrong with a store on which no service could start. Cause: it did not compare AUTH with the orders. */
describeDeployments('the finding about AUTH and the orders', (deployment) => {
  test('says why a start is refused, and what to do', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const required = { ...stores.environment, ...keys.environment };
    expect(await findingOf(required), 'without a schema').toBeUndefined();
    const open = await stores.serve();
    expect((await payOrder(open.url)).status).toBe(200);
    await open.stop();
    expect(await findingOf(stores.environment)).toEqual(FINE);
    expect(await findingOf(required)).toEqual(refused('were paid without credentials', "run 'idempay adopt key:NAME'"));

    await adoptStopped(stores.environment, 'key:shop');
    expect(await findingOf(required)).toEqual(FINE);
    expect(await findingOf(stores.environment)).toEqual(refused('belongs to key:shop', 'Set AUTH=required'));
  });

  test('says that orders of clients want AUTH=required', async () => {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    const closed = await stores.serve(keys.environment);
    expect((await payOrder(closed.url, shop.headers)).status).toBe(200);
    await closed.stop();
    expect(await findingOf({ ...stores.environment, ...keys.environment })).toEqual(FINE);
    expect(await findingOf(stores.environment)).toEqual(refused('were paid with credentials', 'Set AUTH=required'));
  });
});

/** A process that died after its mark and before its claim has decided it. */
test.each([
  ['everybody', refused('were paid without credentials'), FINE],
  ['clients', FINE, refused('were paid with credentials')],
])('the mark %s alone refuses a start in PostgreSQL, and the doctor says so', async (mark, withAuth, withoutAuth) => {
  const stores = await openTestStores();
  const service = await stores.serve();
  await service.stop();
  await stores.sql('UPDATE idempay.deployment SET adopter = $1', [mark]);
  expect(await findingOf({ ...stores.environment, ...keys.environment })).toEqual(withAuth);
  expect(await findingOf(stores.environment)).toEqual(withoutAuth);
});
