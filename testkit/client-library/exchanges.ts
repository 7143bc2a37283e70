import { type Ask, ask } from '../client/http-client.js';
import { UNKNOWN_KEY } from '../client/payment-answers.js';

/** The part of an answer that is compared, with a name in place of each value that differs between any two services. */
export interface SeenAnswer {
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Headers that tell a client what to do. Times and limits of one machine are not among them. */
const HEADERS = [
  'content-type',
  'cache-control',
  'etag',
  'idempay-attempt-state',
  'idempay-refund-key',
  'idempotency-key',
  'idempotent-replayed',
  'link',
  'location',
  'retry-after',
  'www-authenticate',
];
/** The tag of a payment may differ, because its times are in it. Tags of transactions and lists must be the same. */
const PAYMENT_TAG = /\b[0-9a-f]{32}\b/g;
/** Values that differ between any two runs: they get names in the order in which they appear. */
const NAMED = [
  /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi,
  /TXN\d+/g,
  /(?<=cursor=)[\w-]+/g,
  /\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z/g,
];

/** The same requests to any service that begins empty, and what it answers: the real one and the fake must not differ. */
export async function exchangesWith(url: string): Promise<SeenAnswer[]> {
  const { send, seen, hideTags } = exchange(url);
  hideTags(true);
  await payments(send);
  await references(send);
  await refunds(send);
  hideTags(false);
  await transactions(send);
  await unusualBodies(send);
  return seen;
}

/** The same of declined attempts and refunds. `decline`: what runs in it is declined. */
export async function declinesWith(
  url: string,
  decline: <T>(work: () => Promise<T>, operation?: 'pay' | 'refund') => Promise<T>,
): Promise<SeenAnswer[]> {
  const { send, seen, hideTags } = exchange(url);
  hideTags(true);
  const money = { amount: '100.50', currency: 'EUR' };
  const pay = (attempt: number) => send('POST', `/api/payment?reference=order-1&attempt=${attempt}`, json(money));
  const cancel = (attempt: number) => send('POST', `/api/payment-cancellation?reference=order-1&attempt=${attempt}`);
  await decline(() => pay(1));
  await pay(1);
  await cancel(1);
  await decline(() => pay(2));
  await pay(1);
  await pay(2);
  await pay(3);
  await pay(1);
  await pay(2);
  await cancel(2);
  await send('GET', '/api/payment-status?reference=order-1');
  await send('GET', '/api/payment-status?reference=order-1&attempt=2');
  await send('GET', '/api/payments?reference=order-1');
  const refund = (name: string) => send('POST', `/api/refund?reference=order-1&refund=${name}`, json(money));
  await decline(() => refund('line-1'), 'refund');
  await refund('line-1');
  await refund('line-2');
  return seen;
}

function exchange(url: string) {
  const seen: SeenAnswer[] = [];
  const names = new Map<string, string>();
  const nameOf = (text: string) => {
    // A time may be the same as in the request before, or a millisecond later.
    if (/T\d\d:/.test(text)) return '<time>';
    const name = text.toLowerCase();
    if (!names.has(name)) names.set(name, `<${names.size + 1}>`);
    return names.get(name) as string;
  };
  // Each processor has names of its own for its charges, and the fake service may have none.
  const withoutProcessorIds = (text: string) => text.replace(/,"processorId":"[^"]+"/g, '');
  const nameIn = (text: string) =>
    NAMED.reduce((rest, pattern) => rest.replace(pattern, nameOf), withoutProcessorIds(text));
  let named = nameIn;

  async function send(method: string, path: string, options: Pick<Ask, 'headers' | 'body'> = {}) {
    const answer = await ask(`${url}${path}`, { method, ...options });
    const headers = HEADERS.flatMap((name) => {
      const value = answer.headers[name];
      return value === undefined ? [] : [[name, named(`${value}`)] as const];
    });
    const request = named(`${method} ${path} ${JSON.stringify(options)}`);
    seen.push({ request, status: answer.status, headers: Object.fromEntries(headers), body: named(answer.text) });
    return answer;
  }

  return {
    send,
    seen,
    /** A payment's tag differs with its times. */
    hideTags(isHidden: boolean) {
      named = isHidden ? (text) => nameIn(text.replace(PAYMENT_TAG, nameOf)) : nameIn;
    },
  };
}

const json = (body: unknown, headers: Record<string, string> = {}) => ({
  headers: { 'content-type': 'application/json', ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

type Send = (method: string, path: string, options?: Pick<Ask, 'headers' | 'body'>) => ReturnType<typeof ask>;

async function payments(send: Send): Promise<void> {
  const newKey = async () => (await send('GET', '/api/server-generated/generate-key')).json<string>();
  const pay = (body: unknown, key?: string) =>
    send('POST', '/api/payment', json(body, key ? { 'idempotency-key': key } : {}));
  const hundred = { amount: '100.5', currency: 'usd' };

  const key = await newKey();
  await send('GET', `/api/payments/${key}`);
  await pay(hundred);
  await pay(hundred, UNKNOWN_KEY);
  await pay(hundred, 'no-uuid');
  for (const body of [
    {},
    [],
    { amount: '1' },
    { amount: 1, currency: 'XXX' },
    { amount: '1.234', currency: 'EUR' },
    '{"amount":',
    '',
  ]) {
    await pay(body, key);
  }
  await send('POST', '/api/payment', { headers: { 'idempotency-key': key, 'content-type': 'text/plain' }, body: 'x' });
  await send('GET', '/api/payment-status', { headers: { 'idempotency-key': key } });
  await pay(hundred, key);
  await pay(hundred, key.toUpperCase());
  await pay({ amount: '7', currency: 'EUR' }, `"${key}"`);
  await pay({}, key);
  await send('GET', '/api/payment-status', { headers: { 'idempotency-key': key } });
  await send('GET', '/api/payment-status');
  const shown = await send('GET', `/api/payments/${key}`);
  await send('GET', `/api/payments/${key}`, { headers: { 'if-none-match': `${shown.headers.etag}` } });
  await send('GET', `/api/payments/${key}`, { headers: { 'if-match': '"other"' } });
  await send('GET', `/api/payments/${UNKNOWN_KEY}`);
  await pay({ amount: '12', currency: 'JPY' }, await newKey());
  await newKey();
  await send('GET', '/api/payments');
  const first = await send('GET', '/api/payments?limit=1&state=completed');
  const next = /<([^>]+)>/.exec(`${first.headers.link}`)?.[1] ?? '/no-link';
  await send('GET', next);
  await send('GET', '/api/payments?state=DECLINED');
  await send('GET', '/api/payments?stat=DECLINED');
  await send('GET', '/api/payments?limit=0');
  for (const query of [`find=${key}`, 'find=txn&processor=simulated&limit=1', 'find=x', 'processor=other'])
    await send('GET', `/api/payments?${query}`);
  await send('GET', '/api/payments/export');
  await send('GET', '/api/payments/export?day=2020-01-01');
  await send('POST', `/api/payments/${key}/resolution`, json({ outcome: 'completed', reason: 'x' }));
  await send('POST', `/api/payments/${UNKNOWN_KEY}/resolution`, json({ outcome: 'completed', reason: 'x' }));
  await send('POST', `/api/payments/${key}/resolution`, json({ outcome: 'lost' }));
}

async function references(send: Send): Promise<void> {
  const hundred = { amount: '100.5', currency: 'usd' };
  const pay = (query: string, body: unknown = hundred, headers?: Record<string, string>) =>
    send('POST', `/api/payment?${query}`, json(body, headers));
  const cancel = (query: string, headers: Record<string, string> = {}) =>
    send('POST', `/api/payment-cancellation${query}`, { headers });
  const newKey = async (query = '') => (await send('GET', `/api/server-generated/generate-key${query}`)).json<string>();

  for (const query of [
    'reference=',
    'reference=a+b',
    'attempt=1',
    'reference=a&attempt=0',
    'reference=a&attempt=100',
  ]) {
    await newKey(`?${query}`);
    await pay(query);
    await send('GET', `/api/payment-status?${query}`);
    await cancel(`?${query}`);
  }
  await cancel('?reference=a&client=shop');
  await send('GET', '/api/payment-status?reference=a&client=shop');
  await send('GET', '/api/payments?reference=a+b');

  await send('GET', '/api/payment-status?reference=order-17');
  await pay('reference=order-17', '');
  await pay('reference=order-17', { amount: '1.234', currency: 'EUR' });
  await pay('reference=order-17');
  await pay('reference=order-17');
  await pay('reference=order-17', hundred, { 'idempotency-key': UNKNOWN_KEY });
  await pay('reference=order-17', hundred, { 'idempotency-key': ' ' });
  await pay('reference=order-17', { amount: '7', currency: 'EUR' });
  await pay('reference=order-17', {});
  await pay('reference=order-17&attempt=2');
  await pay('reference=order-17&attempt=3');
  await newKey('?reference=order-17');
  await newKey('?reference=order-17&attempt=2');
  await newKey('?reference=order-17&attempt=3');
  await cancel('?reference=order-17');
  await cancel('?reference=order-17&attempt=2');
  await cancel('?reference=order-17&attempt=3');
  await send('GET', '/api/payment-status?reference=order-17');
  await send('GET', '/api/payment-status?reference=order-17&attempt=2');

  const key = await newKey('?reference=order-18');
  await send('GET', `/api/payments/${key}`);
  await send('POST', '/api/payment', json(hundred, { 'idempotency-key': key }));
  await pay('reference=order-18');
  await send('GET', `/api/payments/${key}`);

  await cancel('?reference=order-19');
  await cancel('?reference=order-19');
  await pay('reference=order-19');
  await pay('reference=order-19', {});
  await pay('reference=order-19&attempt=2');
  await newKey('?reference=order-19');
  await send('GET', '/api/payment-status?reference=order-19');
  await cancel('');
  await cancel('', { 'idempotency-key': 'no-uuid' });
  await cancel('', { 'idempotency-key': UNKNOWN_KEY });
  const closed = await newKey();
  await cancel('', { 'idempotency-key': closed });
  await cancel('', { 'idempotency-key': closed });
  await send('POST', '/api/payment', json(hundred, { 'idempotency-key': closed }));
  await send('GET', `/api/payments/${closed}`);
  for (const reference of ['order-17', 'order-18', 'order-19', 'order-20'])
    await send('GET', `/api/payments?reference=${reference}`);
  await send('GET', '/api/payments?state=CANCELLED');
  await send('GET', '/api/payments');
}

/** Byte order marks, media types and lengths. */
async function unusualBodies(send: Send): Promise<void> {
  const text = '{"amount":"1","currency":"EUR"}';
  const sendAs = (mediaType: string, body: string | Buffer, path = '/api/payment?reference=order-21') =>
    send('POST', path, { headers: { 'content-type': mediaType }, body });
  for (const mediaType of [
    'application/vnd.shop+json',
    'application/vnd.shop!1+json',
    'application/json; charset=utf-8',
    'application/json; charset=latin1',
    'application/json;charset="UTF8"',
    'application/jsonp',
    'text/plain',
  ])
    await sendAs(mediaType, text);
  await sendAs('application/json', `\uFEFF${text}`);
  await sendAs('application/json', Buffer.from([0xff, 0xfe, 0x7b, 0x7d]));
  await send('POST', '/api/payment?reference=order-21', {
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: text,
  });
  const long = JSON.stringify({ amount: '1', currency: 'EUR', note: 'x'.repeat(16_384) });
  await sendAs('application/json', long);
  const row = { fromAccount: 'alice', toAccount: 'bob', amount: '1', note: 'x'.repeat(5_000_000) };
  await sendAs('application/json', JSON.stringify({ transactions: [row] }), '/api/transactions/batch');
  await send('PATCH', '/api/payment');
  await send('GET', '/api/payment');
  await send('GET', '/api/session', { headers: { 'sec-fetch-site': 'cross-site' } });
}

/** Of order-19, which is paid here. */
async function refunds(send: Send): Promise<void> {
  const line = { amount: '12.50', currency: 'usd', reason: 'returned' };
  const refund = (query: string, body: unknown = line, headers?: Record<string, string>) =>
    send('POST', `/api/refund?${query}`, json(body, headers));

  await refund('reference=order-19&refund=line-1');
  await send('POST', '/api/payment?reference=order-19', json({ amount: '100.5', currency: 'usd' }));
  for (const query of ['reference=order-19', 'reference=order-19&refund=line-', 'refund=line-1']) await refund(query);
  for (const body of [{}, { amount: '1' }, { ...line, amount: '0' }, { ...line, reason: '' }])
    await refund('reference=order-19&refund=line-1', body);
  const made = await refund('reference=order-19&refund=line-1');
  await refund('reference=order-19&refund=line-1');
  await refund('refund=line-1', line, { 'idempotency-key': `${made.headers['idempotency-key']}` });
  await refund('refund=line-1', line, { 'idempotency-key': UNKNOWN_KEY });
  await refund('reference=order-19&refund=line-1', { ...line, amount: '12.51' });
  await refund('reference=order-19&refund=line-2', { ...line, currency: 'EUR' });
  await refund('reference=order-19&refund=line-2', { ...line, amount: '88.01' });
  await refund('reference=order-19&refund=line-2', line, { prefer: 'return=representation' });
  await refund('reference=order-17&refund=line-1', line, { accept: 'application/problem+json' });
  await send('GET', `/api/payments/${made.headers['idempotency-key']}`);
  await send('GET', `/api/payments/${made.headers['idempotency-key']}/refunds`);
  for (const kind of ['payment', 'refund', 'all']) await send('GET', `/api/payments?kind=${kind}`);
}

async function transactions(send: Send): Promise<void> {
  const row = { fromAccount: 'alice', toAccount: 'bob', amount: '12.340' };
  const create = (body: unknown, headers?: Record<string, string>) =>
    send('POST', '/api/transactions', json(body, headers));
  const created = await create(row);
  const { transactionId: id } = created.json<{ transactionId: number }>();
  const tag = `${created.headers.etag}`;
  await create({ ...row, amount: 1e7, status: 'COMPLETED' }, { 'idempotency-key': 'mine' });
  await create({ ...row, amount: 1e7, status: 'COMPLETED' }, { 'idempotency-key': 'mine' });
  await create(row, { 'idempotency-key': 'mine' });
  await create(row, { 'idempotency-key': '' });
  for (const body of ['', '{}', { ...row, toAccount: 'alice' }, { ...row, amount: '0' }, { ...row, status: 'DONE' }])
    await create(body);
  const batch = { transactions: [row, { ...row, fromAccount: 'carol' }] };
  await send('POST', '/api/transactions/batch', json(batch, { 'idempotency-key': 'mine' }));
  await send('POST', '/api/transactions/batch', json(batch, { 'idempotency-key': 'mine' }));
  await send('POST', '/api/transactions/batch', json({ transactions: [row, {}] }));
  await send('POST', '/api/transactions/batch', json({}));

  await send('GET', `/api/transactions/${id}`);
  await send('GET', `/api/transactions/${id}`, { headers: { 'if-none-match': tag } });
  await send('GET', `/api/transactions/${id}`, { headers: { 'if-match': '"other"' } });
  await send('GET', '/api/transactions/7');
  await send('GET', '/api/transactions/007');
  const list = await send('GET', '/api/transactions?from=alice');
  await send('GET', '/api/transactions?from=alice', { headers: { 'if-none-match': `${list.headers.etag}` } });
  await send('GET', '/api/transactions?from=nobody');
  for (const query of ['', '?from=alice&limit=2&status=', '?status=COMPLETED&to=bob', '?limit=201', '?state=DONE'])
    await send('GET', `/api/transactions/search${query}`);
  const first = await send('GET', '/api/transactions/search?limit=1');
  await send('GET', /<([^>]+)>/.exec(`${first.headers.link}`)?.[1] ?? '/no-link');

  const change = (path: string, body: unknown, headers?: Record<string, string>) =>
    send('PUT', path, json(body, headers));
  await change(`/api/transactions/${id}/status`, { status: 'FLAGGED' }, { 'if-match': tag });
  await change(`/api/transactions/${id}/status`, { status: 'ON_HOLD' }, { 'if-match': tag });
  await change(`/api/transactions/${id}/status`, { status: 'NONE' });
  await change(`/api/transactions/${id}/status?newStatus=FAILED`, '');
  await change(`/api/transactions/${id}/status`, { status: 'FAILED' });
  await change(`/api/transactions/${id}/status`, { status: 'PENDING' });
  await change('/api/transactions/7/status', { status: 'PENDING' });
  await send('DELETE', `/api/transactions/${id}`, { headers: { 'if-match': tag } });
  await send('DELETE', `/api/transactions/${id}`);
  await send('DELETE', `/api/transactions/${id}`);
  await send('GET', '/nowhere');
}
