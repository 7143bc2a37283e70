import { beforeAll, expect, test } from 'vitest';
import { credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { ask, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { keysOf, type ShownPayment } from '../../testkit/client/payment-records.js';
import { inParallel } from '../../testkit/concurrency.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const DAY_MS = 86_400_000;
const MAIL = 'Ann_%@shop.example';
/** The rows that one page reads, and a few more. */
const PAYMENTS = 1_020;
const AT_ONCE = 10;

/**
 * Bug: a search for an e-mail in the console said that nobody has paid this order. Cause: a list could only be asked for references and for
 * beginnings of keys. Fix: an operator may search the content of the payments of a range of days, a bounded number of rows for each page.
 */
describeDeployments('GET /api/payments?content=', async (deployment) => {
  const shop = credentialOf('shop', ['payments:write', 'payments:read']);
  const rival = credentialOf('rival', ['payments:write']);
  const operator = credentialOf('operator', ['operations']);
  const second = credentialOf('second', ['operations']);
  const keys = await requireKeys(shop, rival, operator, second);
  const shared = shareService(deployment, keys.environment);
  let [first, others] = ['', ''];
  let from: string;

  async function pay({ headers }: typeof shop, reference: string, content: object): Promise<string> {
    const payment = { amount: '1.50', currency: 'EUR', ...content };
    // On a busy machine one may be refused (503) until it is sent again.
    return until('the payment', 30_000, async () => {
      const answer = await sendJson(`${shared.url}/api/payment?reference=${reference}`, 'POST', payment, headers);
      return answer.status === 200 && String(answer.headers['idempotency-key']);
    });
  }

  const search = (query: Readonly<Record<string, string>>, { headers } = operator) =>
    ask(`${shared.url}/api/payments?${new URLSearchParams(query)}`, { headers });

  /** Every page, and how far each came. */
  async function searched(content: string, as = operator) {
    const found: string[] = [];
    const cameTo: string[] = [];
    let path: string | undefined = `/api/payments?${new URLSearchParams({ content, from })}`;
    while (path !== undefined) {
      const answer = await ask(`${shared.url}${path}`, { headers: as.headers });
      expect(answer.status, answer.text).toBe(200);
      found.push(...keysOf(answer.json<ShownPayment[]>()));
      cameTo.push(String(answer.headers['idempay-searched-from']));
      path = /<(.*)>/.exec(String(answer.headers.link ?? ''))?.[1];
    }
    return { found, cameTo };
  }

  beforeAll(async () => {
    from = new Date(Date.now() - DAY_MS).toISOString();
    first = await pay(shop, 'first', { description: MAIL });
    others = await pay(rival, 'first', { metadata: { mail: MAIL, cart: '8812' } });
    await inParallel(PAYMENTS, AT_ONCE, (index) => pay(shop, `order-${index}`, { description: 'Shoes' }));
  });

  test('finds what has exactly this text, of every client, page by page, and says how far each page came', async () => {
    const { found, cameTo } = await searched(MAIL);
    expect(found).toEqual([others, first]);
    expect(cameTo).toHaveLength(2);
    const [middle = '', end] = cameTo;
    expect(end).toBe(from);
    expect(middle > from && middle < new Date().toISOString()).toBe(true);
    // A payment that was not read yet was claimed before that moment.
    const { claimedAt } = (await search({ reference: 'first' })).json<ShownPayment[]>()[0] as ShownPayment;
    expect(middle > String(claimedAt)).toBe(true);
    expect((await searched('8812', second)).found).toEqual([others]);
  });

  test.each([
    'ann_%@shop.example',
    'Ann',
    '%',
    '_',
    'Ann_%@shop.exampl',
    'AnnX%@shop.example',
    'mail',
    'x'.repeat(500),
    "' OR 1=1",
  ])('finds nothing that is only like it: %s', async (content) => {
    expect((await searched(content)).found).toEqual([]);
  });

  test('is for operators: a client cannot search its own payments either', async () => {
    expectError(await search({ content: MAIL, from }, shop), 403, /operations/);
    expectError(await search({ content: '' }, shop), 403);
    expectError(await search({ content: MAIL, from }, rival), 403);
  });

  test('keeps the other filters', async () => {
    expect(keysOf((await search({ content: MAIL, from, reference: 'first' })).json<ShownPayment[]>())).toEqual([
      others,
      first,
    ]);
    const answer = await search({ content: 'Shoes', from, limit: '7', state: 'completed' });
    expect(answer.json()).toHaveLength(7);
    for (const [name, value] of Object.entries({ state: 'DECLINED', processor: 'none', reference: 'second' })) {
      expect((await search({ content: MAIL, from, [name]: value })).json()).toEqual([]);
    }
  });
});
