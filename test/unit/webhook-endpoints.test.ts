import { Webhook } from 'standardwebhooks';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { PaymentRecord } from '#idempay/payments/ports/payment-history.js';
import { endpointsIn, openEndpointFile, WebhooksFileError } from '#idempay/webhooks/endpoint-file.js';
import { messageOf, signedHeaders } from '#idempay/webhooks/message.js';
import { newWebhookSecret, writeEndpointFile } from '../../testkit/servers/webhook-receiver.js';
import { until } from '../../testkit/time/until.js';

const SECRET = newWebhookSecret();
const GOOD = { name: 'shop', url: 'https://shop.example/hooks', secrets: [SECRET] };
const CHANGED_DEADLINE_MS = 10_000;

describe('the file of endpoints', () => {
  test.each([
    ['an endpoint', GOOD],
    ['a client', { ...GOOD, client: 'key:shop' }],
    ['two secrets', { ...GOOD, secrets: [SECRET, newWebhookSecret()] }],
    ['a private address', { ...GOOD, private: true, url: 'https://10.0.0.1/hooks' }],
    ['this machine', { ...GOOD, private: true, url: 'http://localhost:8080/hooks?of=shop' }],
  ])('takes %s', (_what, endpoint) => {
    expect(endpointsIn(JSON.stringify([endpoint]))).toEqual([endpoint]);
  });

  test.each([
    ['no JSON', '[', /it is not JSON/],
    ['no array', '{}', /array/],
    ['a text in the array', ['shop'], /entry 1 is no object/],
    ['too many', Array.from({ length: 101 }, (_, n) => ({ ...GOOD, name: `shop-${n}` })), /at most 100 endpoints/],
    ['no name', [{ ...GOOD, name: undefined }], /entry 1 has no 'name'/],
    ['a name with a slash', [{ ...GOOD, name: 'a/b' }], /entry 1 has a 'name' that is not 1 to 64 letters/],
    ['a name twice', [GOOD, GOOD], /shop is there twice/],
    ['an unknown member', [GOOD, { ...GOOD, secret: SECRET }], /entry 2 has a member 'secret', .* name, url, client/],
    ['no secret', [{ ...GOOD, secrets: [] }], /'secrets' that is not .* whsec_/],
    ['a secret without its prefix', [{ ...GOOD, secrets: [SECRET.slice('whsec_'.length)] }], /'secrets' .* whsec_/],
    ['a short secret', [{ ...GOOD, secrets: ['whsec_c2hvcnQ='] }], /24 to 64 bytes/],
    ['private false', [{ ...GOOD, private: false }], /'private' that is not true/],
    ['a client that is none', [{ ...GOOD, client: 'shop' }], /name it as records do, such as key:shop/],
    ['a path', [{ ...GOOD, url: '/hooks' }], /https URL/],
    ['another protocol', [{ ...GOOD, url: 'ftp://shop.example/' }], /https URL/],
    ['a user', [{ ...GOOD, url: 'https://user:pass@shop.example/' }], /user/],
    ['a fragment', [{ ...GOOD, url: 'https://shop.example/#top' }], /fragment/],
    ['http', [{ ...GOOD, url: 'http://shop.example/' }], /http url/],
    ['http on a private network', [{ ...GOOD, url: 'http://10.0.0.1/', private: true }], /http url/],
    ['http on this machine without private', [{ ...GOOD, url: 'http://127.0.0.1/' }], /http url/],
  ] as const)('refuses %s, and tells no secret', (_what, content, problem) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    const read = () => endpointsIn(text);
    expect(read).toThrow(WebhooksFileError);
    expect(read).toThrow(problem);
    expect(read).not.toThrow(SECRET);
  });

  test('is read again when it changes, and its last good version stays in use', async () => {
    const file = await writeEndpointFile([GOOD]);
    onTestFinished(file.remove);
    const warnings: string[] = [];
    const opened = openEndpointFile(file.path, (sentence) => warnings.push(sentence));
    onTestFinished(opened.close);
    expect(opened.current).toEqual([GOOD]);
    await file.write('[');
    await until('a warning', CHANGED_DEADLINE_MS, () => warnings.length > 0);
    expect(opened.current).toEqual([GOOD]);
    await file.change([{ ...GOOD, name: 'other' }]);
    await until('the change', CHANGED_DEADLINE_MS, () => opened.current[0]?.name === 'other');
    expect(warnings).toEqual([expect.stringContaining('the webhook endpoints were not replaced')]);
  });

  test('that is not there stops a start', () => {
    expect(() => openEndpointFile('/not/there.json', () => {})).toThrow(WebhooksFileError);
  });
});

describe('a message', () => {
  const RECORD: PaymentRecord = {
    key: '019abcde-1c1a-7f3e-8b5a-2f6c1d9e4b70',
    state: 'COMPLETED',
    transactionId: 'TXN1763640000000000000001',
    amount: '100.50',
    currency: 'USD',
    processor: 'https://psp.example/?user=1234',
    client: 'key:shop',
    executions: 1,
    claimedAt: 1_763_640_000_000,
    settledAt: 1_763_640_001_000,
  } as PaymentRecord;
  const REFUND = { payment: RECORD.key, name: 'line-2', reason: undefined, chargeId: undefined };

  test.each([
    [{}, 'payment.completed', 'completed'],
    [{ state: 'DECLINED', reason: 'no' }, 'payment.declined', 'declined'],
    [{ state: 'CANCELLED' }, 'payment.cancelled', 'cancelled'],
    [{ refund: REFUND }, 'refund.completed', 'completed'],
    [{ refund: REFUND, state: 'DECLINED', reason: 'no' }, 'refund.declined', 'declined'],
  ])('of %j is a %s', (change, type, state) => {
    const { id, body } = messageOf({ ...RECORD, ...change } as PaymentRecord, undefined);
    expect(id).toBe(`${RECORD.key}.${state}`);
    expect(JSON.parse(body)).toMatchObject({
      type,
      timestamp: '2025-11-20T12:00:01.000Z',
      data: { idempotencyKey: RECORD.key },
    });
  });

  test('for a client has what the client may see', () => {
    const own = JSON.parse(messageOf(RECORD, 'key:shop').body);
    const operators = JSON.parse(messageOf(RECORD, undefined).body);
    expect(operators.data.client).toBe('key:shop');
    expect(own.data.client).toBeUndefined();
  });

  test('is signed with each secret, and with the time of the try', () => {
    const secrets = [SECRET, newWebhookSecret()];
    const message = messageOf(RECORD, undefined);
    const nowMs = Date.now();
    const headers = signedHeaders(message, { secrets }, nowMs);
    expect(headers['webhook-timestamp']).toBe(String(Math.floor(nowMs / 1_000)));
    expect(headers['webhook-signature'].split(' ')).toHaveLength(2);
    for (const secret of secrets)
      expect(new Webhook(secret).verify(message.body, headers)).toMatchObject({ type: 'payment.completed' });
    expect(() => new Webhook(newWebhookSecret()).verify(message.body, headers)).toThrow(/signature/);
  });
});
