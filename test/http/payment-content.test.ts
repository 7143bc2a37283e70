import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { todayUtc } from '#idempay/statements/days.js';
import { expectError } from '../../testkit/client/error-body.js';
import { pay, sendJson } from '../../testkit/client/http-client.js';
import { expectFirst, expectRefused, expectReplay, givenPaid } from '../../testkit/client/payment-answers.js';
import { metadataOf, REFUSED_CONTENT, SHOE } from '../../testkit/client/payment-bodies.js';
import { exportDay, listPayments, shownPaymentOf } from '../../testkit/client/payment-records.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const MONEY = { amount: '100.50', currency: 'USD' };

const TAKEN: readonly [what: string, content: Readonly<Record<string, unknown>>][] = [
  ['the shortest source', { source: '!' }],
  ['the longest source', { source: '~'.repeat(500) }],
  ['a source of digits that is no card number', { source: '4242424242424241' }],
  ['a source of digits that no card begins with', { source: '79927398713000' }],
  ['a source that is a card number with more around it', { source: 'tok_4242424242424242' }],
  ['the longest description', { description: SHOE.repeat(255) }],
  ['a description of blanks and lines', { description: ' \n\t\u2028' }],
  ['twenty members of metadata', { metadata: metadataOf(20) }],
  [
    'the longest text and name',
    { metadata: { ['n'.repeat(40)]: 'x'.repeat(500), [SHOE.repeat(40)]: SHOE.repeat(500) } },
  ],
  ['no member of metadata', { metadata: {} }],
  ['names that objects have', { metadata: { constructor: 'x', toString: '' } }],
  ['other members', { order: 1, Source: 5, card: { source: null } }],
];

/** Rule P19; the content that the processor gets, and the places that keep a source: `faults/payment-content`. */
describeDeployments('the content of a payment', (deployment) => {
  const shared = shareService(deployment);

  it.each(TAKEN)('may have %s, and is shown as it came', async (_what, content) => {
    const { key } = await givenPaid(shared.url, { ...MONEY, ...content });
    const { description = null, metadata = null } = content;
    expect(await shownPaymentOf(shared.url, key)).toMatchObject({ ...MONEY, description, metadata });
  });

  it.each(REFUSED_CONTENT)('is refused with %s, and the key stays unspent', async (content, message) => {
    await expectRefused(shared.url, `{"amount":"100.50","currency":"USD",${content}}`, 400, { message });
  });

  it('is that of the first request: a repeat with any other gets its outcome, also with a wrong one', async () => {
    const { key, transactionId } = await givenPaid(shared.url, { ...MONEY, source: 'tok_1', description: 'Shoes' });
    for (const content of [{}, { source: 'tok_2', description: 'Hat', metadata: { a: 'b' } }, { source: null }])
      expectReplay(await pay(shared.url, key, { ...MONEY, ...content }), transactionId);
    expect(await shownPaymentOf(shared.url, key)).toMatchObject({ description: 'Shoes', metadata: null });
  });

  it('with another amount is refused because of the amount, whatever else is wrong', async () => {
    const path = `${shared.url}/api/payment?reference=order-${randomUUID()}`;
    const send = (body: object) => sendJson(path, 'POST', body);
    expectFirst(await send({ ...MONEY, source: 'tok_1' }));
    expectReplay(await send({ ...MONEY, source: null }));
    expectError(await send({ ...MONEY, amount: '1.00', source: null }), 422);
  });

  it('with a number like that of a card is taken, and warned of once for each member, without the number', async () => {
    const stores = await deployment.open();
    try {
      const { url, logs } = await stores.serve();
      const content = { description: 'order 4242424242424242', metadata: { number: '4242424242424242', other: 'x' } };
      for (let payment = 0; payment < 2; payment += 1) await givenPaid(url, { ...MONEY, ...content });
      const warnings = logs.filter(({ msg }) => msg?.includes('looks like a card number'));
      expect(warnings.map(({ level, member }) => [level, member])).toEqual([
        [40, 'description'],
        [40, 'metadata.number'],
      ]);
      expect(JSON.stringify(warnings)).not.toContain('4242424242424242');
    } finally {
      await stores.close();
    }
  });

  it('is in the list and the export, without the source', async () => {
    const { key } = await givenPaid(shared.url, {
      ...MONEY,
      source: 'tok_secret',
      description: 'Hat',
      metadata: { a: 'b' },
    });
    const shown = { description: 'Hat', metadata: { a: 'b' } };
    const { payments } = await listPayments(shared.url, '?limit=1');
    const lines = await exportDay(shared.url, todayUtc());
    for (const list of [payments, lines]) {
      expect(list.find(({ idempotencyKey }) => idempotencyKey === key)).toMatchObject(shown);
      expect(JSON.stringify(list)).not.toContain('tok_secret');
    }
  });
});
