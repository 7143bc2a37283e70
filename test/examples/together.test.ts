import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ask } from '../../testkit/client/http-client.js';
import { compileExamples, type Examples } from '../../testkit/processes/examples.js';
import { spawnProgram } from '../../testkit/processes/service.js';
import { until } from '../../testkit/time/until.js';

const START_MS = 30_000;
const PAID = /Paid: (TXN\d+)/;

describe('shop, back office, Idempay and Stripe adapter, started by one command', () => {
  let examples: Examples;
  let folder: string;
  beforeAll(async () => {
    examples = await compileExamples();
  });
  afterAll(() => examples?.remove());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'idempay-together-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  function run(settings: Readonly<Record<string, string>>, parameters: readonly string[]) {
    const environment = { PORT: '0', BACK_OFFICE_PORT: '0', IDEMPAY_PORT: '0', TMPDIR: folder, ...settings };
    const { child, ended } = spawnProgram(examples.program('together'), environment, [], parameters);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += chunk;
      });
    }
    const address = (name: string) => new RegExp(`${name}: +(http://[^\\s,]+)`).exec(output)?.[1] ?? '';
    const started = () => until('the example to say where it is', START_MS, async () => output.includes('Ctrl-C'));
    return { child, ended, started, address, output: () => output };
  }
  /** The shop keeps a session that it knows: one for all orders of these tests. */
  const Cookie = 'session=11111111-1111-4111-8111-111111111111';
  const form = (url: string, fields: Readonly<Record<string, string>>) =>
    ask(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', Cookie },
      body: new URLSearchParams(fields).toString(),
    });
  const open = async (url: string) => (await ask(url, { headers: { Cookie } })).text;
  const orderAt = async (shop: string) => `${(await form(`${shop}/orders`, { basket: 'book' })).headers.location}`;

  /** Orders a book, and pays it as its page says. */
  async function buy(shop: string, source: string, attempt = '1', path?: string) {
    const order = path ?? (await orderAt(shop));
    const answer = await form(shop + order, { attempt, source });
    return { order, text: answer.status === 303 ? await open(shop + order) : answer.text };
  }

  test('the source goes from the page to Stripe, each card does what the page says, and Ctrl-C ends all', async () => {
    const data = join(folder, 'data');
    const { child, ended, started, address } = run({}, [data]);
    await started();
    const [shop, charges] = [address('The shop'), address('The charges')];

    const first = await buy(shop, 'pm_card_visa');
    const declined = await buy(shop, 'pm_card_chargeDeclined');
    expect(declined.text).toContain('Declined: Your card was declined.');
    const again = await buy(shop, 'pm_card_visa', '2', declined.order);
    const [slow, lost] = await Promise.all([buy(shop, 'pm_slow'), buy(shop, 'pm_lostReply')]);
    for (const { text } of [first, again, slow, lost]) expect(text).toMatch(PAID);

    const charged = (await ask(charges)).json() as { payment_method: string; metadata: Record<string, string> }[];
    expect(charged).toHaveLength(4);
    const ofFirst = charged.find(({ metadata }) => metadata.idempay_transaction === PAID.exec(first.text)?.[1]);
    expect(ofFirst).toMatchObject({
      amount: 2_490,
      payment_method: 'pm_card_visa',
      description: 'A book',
      metadata: { articles: 'book', idempay_order: first.order.replace('/orders/', 'order-') },
    });
    // The shop's look finds that the order is paid, and then a line of it can come back.
    const returns = `${address('The office')}${first.order}`;
    await until('the line to have a button', 30_000, async () => (await open(returns)).includes('Give back'));
    for (const _click of [1, 2]) await form(`${returns}/returns`, { line: '1' });
    await until('the refund', 30_000, async () => /Given back: TXN\d+/.test(await open(returns)));

    for (const fields of [
      { attempt: '1' },
      ...['a card', '4242424242424242'].map((source) => ({ attempt: '1', source })),
    ])
      expect((await form(shop + first.order, fields as Record<string, string>)).status).toBe(400);

    child.kill('SIGINT');
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 0 });
    for (const url of [shop, address('The console'), charges]) await expect(ask(url)).rejects.toThrow();
    const files = await readdir(data);
    expect(files).toEqual(expect.arrayContaining(['adapter.log', 'idempay.log', 'orders.ndjson', 'shop.log']));
    for (const name of files.filter((each) => each.endsWith('.log')))
      expect(await readFile(join(data, name), 'utf8'), name).not.toMatch(/pm_(card|slow|lost)/);
  });

  test('a card that asks its holder leads to the bank and back, and its payment is ended before another card is charged', async () => {
    const { child, ended, started, address } = run({}, []);
    await started();
    const [shop, charges] = [address('The shop'), address('The charges')];
    /** The payer's browser follows the bank's answer to the page of the order. */
    async function confirmed(order: string, card: string, attempt = '1') {
      const { headers } = await form(shop + order, { attempt, source: card });
      const back = await form(`${headers.location}`, { answer: 'confirm' });
      expect(back.headers.location).toContain(`${shop}${order}?`);
      const isDecided = /Paid|Declined/;
      await until('the outcome', 10_000, async () => isDecided.test(await open(`${back.headers.location}`)));
      return open(shop + order);
    }

    const order = await orderAt(shop);
    expect(await confirmed(order, 'pm_card_threeDSecureRequiredChargeDeclined')).toContain('Declined: ');
    const { headers } = await form(shop + order, { attempt: '2', source: 'pm_card_threeDSecure2Required' });
    expect(await open(shop + order)).toContain('Another card');
    await form(`${shop}${order}/another-card`, { attempt: '2' });
    expect(await open(shop + order)).toContain('Try again');
    expect((await form(`${headers.location}`, { answer: 'confirm' })).status).toBe(410);
    expect((await ask(charges)).json()).toEqual([]);
    expect(await confirmed(order, 'pm_card_threeDSecure2Required', '3')).toMatch(PAID);
    expect((await ask(charges)).json()).toHaveLength(1);
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 0 });
  });

  test('a folder of its own is removed at the end', async () => {
    const { child, ended, started, output } = run({}, []);
    await started();
    const [, own = ''] = /are in (\S+), which is removed/.exec(output()) ?? [];
    expect(existsSync(own)).toBe(true);
    child.kill('SIGTERM');
    expect(await ended).toMatchObject({ code: 0 });
    expect(existsSync(own)).toBe(false);
  });

  test('where one of them cannot start all end, and its last lines say why', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const { ended, output } = run({ PORT: `${port}` }, []);
    expect(await ended).toMatchObject({ code: 1 });
    expect(output()).toMatch(/shop has ended[\s\S]*EADDRINUSE/);
    taken.close();
  });

  test.each([
    ['a key that charges real cards', { STRIPE_SECRET_KEY: 'sk_live_1' }, /must be a key for tests/],
    ["Stripe's script without its key", { STRIPE_PUBLISHABLE_KEY: 'pk_test_1' }, /Set STRIPE_SECRET_KEY too/],
  ])('refuses %s', async (_, settings, sentence) => {
    const { ended, output } = run(settings as Record<string, string>, []);
    expect(await ended).toMatchObject({ code: 1 });
    expect(output()).toMatch(sentence);
    expect(await readdir(folder)).toEqual([]);
  });

  test("loads Stripe's script only where a publishable key is given", async () => {
    const keys = { STRIPE_SECRET_KEY: 'sk_test_1', STRIPE_PUBLISHABLE_KEY: 'pk_test_1' };
    for (const [settings, isLoaded] of [[keys, true] as const, [{}, false] as const]) {
      const { child, ended, started, address } = run(settings, []);
      await started();
      const shop = address('The shop');
      const page = await open(shop + (await orderAt(shop)));
      expect(page.includes('https://js.stripe.com/v3/')).toBe(isLoaded);
      child.kill('SIGTERM');
      await ended;
    }
  });
});
