// The tests of the back office, without a service. Run them with `node --test`, after `npx tsc`.
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { Idempay } from '@idempay/client';
import { FakeIdempay, TestClock } from 'idempay/testing';
import type { Order } from '../shop/orders.ts';
import { ordersPage, returnsPage } from './pages.ts';
import { giveBack } from './refunds.ts';

const BOOK = { article: 'book', price: { amount: '24.90', currency: 'EUR' } };
const LAMP = { article: 'lamp', price: { amount: '89.00', currency: 'EUR' } };
const order = { id: '17', lines: [BOOK, LAMP] };

describe('a line that comes back', () => {
  let fake: FakeIdempay;
  let idempay: Idempay;
  beforeEach(async () => {
    fake = new FakeIdempay();
    idempay = new Idempay({ baseUrl: fake.baseUrl, fetch: fake.fetch, clock: new TestClock() });
    await idempay.payments.pay({ amount: '113.90', currency: 'EUR' }, { reference: 'order-17' });
  });

  test('is given back once, however often the button is clicked, and the other line too', async () => {
    const clicks = await Promise.all(Array.from({ length: 8 }, () => giveBack(idempay, order, 2)));
    const given = await giveBack(idempay, order, 2);
    assert.match(given.text, /^Given back: TXN\d+$/);
    // A click at the same moment as another one may end before the outcome is known.
    const ended = clicks.filter(({ state }) => state !== 'under way');
    assert.deepEqual(new Set(ended.map(({ text }) => text)), new Set([given.text]));
    assert.equal((await giveBack(idempay, order, 1)).state, 'given back');
    assert.deepEqual(
      fake.refunds.map(({ amount }) => amount),
      ['89.00', '24.90'],
    );
  });

  test('is not known while answers are lost, and the next look finds it', async () => {
    fake.next('refund', { status: 504, after: true, retryAfterSeconds: 120 });
    const clicked = await giveBack(idempay, order, 2);
    assert.deepEqual([clicked.state, fake.refunds.length], ['under way', 1]);
    assert.match(clicked.text, /^Not known yet\./);
    assert.equal((await giveBack(idempay, order, 2)).state, 'given back');
    assert.equal(fake.refunds.length, 1);
  });

  test('is under way while the bank takes its time, and is then given back', async () => {
    fake.next('refund', { pending: {} });
    assert.match((await giveBack(idempay, order, 2)).text, /^The bank takes its time\./);
    fake.confirm(fake.pendingRefunds[0]?.key ?? '');
    assert.equal((await giveBack(idempay, order, 2)).state, 'given back');
    assert.equal(fake.refunds.length, 1);
  });

  test('is declined for good, with the reason', async () => {
    fake.next('refund', { decline: 'the account was closed' });
    for (const _time of [1, 2])
      assert.deepEqual(await giveBack(idempay, order, 2), {
        state: 'declined',
        text: 'Declined: the account was closed',
      });
    assert.deepEqual(fake.refunds, []);
  });

  test('is refused with the sentence of Idempay, and may be tried again', async () => {
    fake.next('refund', { status: 501 });
    const { state, text } = await giveBack(idempay, order, 2);
    assert.equal(state, 'refused');
    assert.match(text, /^The adapter of the processor does not know refunds /);
    assert.equal((await giveBack(idempay, { ...order, id: '18' }, 2)).state, 'refused');
    const dearer = { id: '17', lines: [{ ...LAMP, price: { ...LAMP.price, amount: '113.91' } }] };
    assert.match((await giveBack(idempay, dearer, 1)).text, /^The payment has 113\.90 EUR left /);
    assert.deepEqual(fake.refunds, []);
    assert.equal((await giveBack(idempay, order, 2)).state, 'given back');
  });
});

test('an article is shown as it is written, whatever its name has', () => {
  const odd: Order = {
    ...order,
    lines: [{ article: '<img src=x>', price: BOOK.price }],
    price: BOOK.price,
    session: '',
    url: '',
    orderedAtMs: 0,
  };
  for (const shown of [ordersPage([odd]), returnsPage(odd, new Map())])
    assert.deepEqual([shown.includes('<img'), shown.includes('&#60;img')], [false, true]);
});
