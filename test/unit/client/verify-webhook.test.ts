import { createHmac } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import { InvalidWebhookError, verifyWebhook, type WebhookHeaders } from '@idempay/client';
import fc from 'fast-check';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { SECRET, signedWebhook } from '../../../testkit/client/signed-webhook.js';

const KEY = '0193a5b4-7c1e-7000-8000-000000000001';
const ID = `${KEY}.completed`;
const RECORD = {
  idempotencyKey: KEY,
  state: 'COMPLETED',
  reference: 'order-17',
  amount: '24.90',
  currency: 'EUR',
  transactionId: 'TXN1795170621886000522918',
  description: 'Zwei Bücher für Zoë 📚',
};
const EVENT = { type: 'payment.completed', timestamp: '2026-11-29T12:00:00.000Z', data: RECORD };
const BODY = JSON.stringify(EVENT);
const secretOf = (bytes: number, fill = 7) => `whsec_${Buffer.alloc(bytes, fill).toString('base64')}`;
const NEW_SECRET = secretOf(32);
const NOW_MS = Date.parse('2026-11-29T12:00:05.400Z');

const whyOf = (verified: Promise<unknown>) =>
  verified.then(
    () => 'taken',
    (error) => {
      expect(error).toBeInstanceOf(InvalidWebhookError);
      return (error as InvalidWebhookError).why;
    },
  );

describe('verifyWebhook', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['Date'], now: NOW_MS });
    return () => void vi.useRealTimers();
  });

  const { headers } = signedWebhook(ID, BODY, { atMs: NOW_MS });
  const takes = (change: Readonly<Record<string, string | readonly string[] | undefined>>, body: unknown = BODY) =>
    whyOf(verifyWebhook({ ...headers, ...change }, body as string, [SECRET]));

  test('returns the event, with the id of the message', async () => {
    const event = await verifyWebhook(headers, BODY, [SECRET]);
    expect(event).toEqual({ ...EVENT, id: ID });
    expect(Object.isFrozen(event)).toBe(true);
  });

  /** The vector of the library of Standard Webhooks: its body is no event of Idempay, which is seen only behind the signature. */
  test('takes the signature that Standard Webhooks gives as its example, and no other one', async () => {
    vi.setSystemTime(1_614_265_330_000);
    const vector = (signature: string) =>
      verifyWebhook(
        {
          'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
          'webhook-timestamp': '1614265330',
          'webhook-signature': signature,
        },
        '{"test": 2432232314}',
        [SECRET],
      );
    expect(await whyOf(vector('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='))).toBe('event');
    expect(await whyOf(vector('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA='))).toBe('signature');
  });

  test('takes what the library signs with any secret, as text and as bytes in the middle of others, and nothing else', async () => {
    const secrets = fc.uint8Array({ minLength: 24, maxLength: 64 });
    const texts = fc.string({ unit: 'binary', maxLength: 300 });
    await fc.assert(
      fc.asyncProperty(secrets, texts, fc.integer({ min: -300, max: 300 }), fc.nat(), async (key, text, late, at) => {
        const secret = `whsec_${Buffer.from(key).toString('base64')}`;
        const body = JSON.stringify({ ...EVENT, data: { ...RECORD, description: text } });
        const signed = signedWebhook(ID, body, { secrets: [secret], atMs: NOW_MS - late * 1_000 });
        const bytes = Buffer.from(`{}${body}{}`).subarray(2, -2);
        const expected = { data: { description: JSON.parse(body).data.description } };
        for (const each of [body, bytes])
          expect(await verifyWebhook(signed.headers, each, [secret])).toMatchObject(expected);
        const changed = Uint8Array.from(bytes);
        changed[at % changed.length] = (changed[at % changed.length] ?? 0) ^ 1;
        expect(await whyOf(verifyWebhook(signed.headers, changed, [secret]))).toBe('signature');
      }),
      { numRuns: 40 },
    );
  });

  describe('reads headers', () => {
    test.each<[string, WebhookHeaders]>([
      ['of fetch', new Headers(headers)],
      ['that have a get method, and are of another realm', { get: (name) => new Headers(headers).get(name) }],
      ['as Node.js has them', { ...headers, host: 'shop.example', 'set-cookie': ['a=1', 'b=2'], 'x-none': undefined }],
      ['in any case', Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]))],
      ['in lists', Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))],
    ])('%s', async (_form, given) => {
      expect(await verifyWebhook(given, BODY, [SECRET])).toMatchObject({ id: ID });
    });

    test.each(Object.keys(headers))('and refuses a message without %s', async (name) => {
      for (const value of [undefined, '', []]) expect(await takes({ [name]: value })).toBe('headers');
    });

    test('and refuses a promise of headers, and a list of names and values', async () => {
      for (const given of [Promise.resolve(headers), Object.entries(headers).flat()])
        expect(await whyOf(verifyWebhook(given as never, BODY, [SECRET]))).toBe('headers');
    });

    test.each(['webhook-id', 'webhook-timestamp'] as const)('and refuses %s if it was sent twice', async (name) => {
      expect(await takes({ [name]: [headers[name], headers[name]] })).toBe('headers');
      expect(await takes({ [name.toUpperCase()]: headers[name] })).toBe('headers');
      // Node.js and fetch join them.
      expect(await takes({ [name]: `${headers[name]}, ${headers[name]}` })).toMatch(/^(headers|signature)$/);
    });

    test.each([
      '',
      'hello',
      '1e9',
      '1764417605.4',
      '-1764417605',
      ' 1764417605',
      '0x6929',
      '１７６４',
      '1764417605.{}',
    ])('and refuses the time %j', async (time) => {
      expect(await takes({ 'webhook-timestamp': time })).toBe('headers');
    });
  });

  describe('looks at signatures', () => {
    const { 'webhook-signature': right } = headers;
    const wrong = 'v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=';

    test.each([
      ['among others, and versions that it does not know', `${wrong} v2,${right.slice(3)} v1a,${wrong} ${right}`],
      ['with more space between them', `${wrong}   ${right} `],
      ['in two headers that were joined', `${right}, ${wrong}`],
      ['in a list', [wrong, right]],
      ['among more than a receiver should compute', `${Array.from({ length: 2_000 }, () => wrong).join(' ')} ${right}`],
    ])('%s', async (_where, signature) => {
      expect(await takes({ 'webhook-signature': signature })).toBe('taken');
    });

    test.each([
      ['a wrong one', wrong],
      ['another version', `v2,${right.slice(3)}`],
      ['an asymmetric one', `v1a,${right.slice(3)}`],
      ['no version', right.slice(3)],
      ['an empty one', 'v1,'],
      ['half of it', right.slice(0, 8)],
      ['more than it', `${right}=`],
      ['two that are one', `${right},${right}`],
      ['without its padding', right.slice(0, -1)],
      ['in hexadecimal digits', `v1,${Buffer.from(right.slice(3), 'base64').toString('hex')}`],
      ['no base64', `v1,${'é'.repeat(44)}`],
      ['commas', ',,,'],
    ])('and refuses %s', async (_what, signature) => {
      expect(await takes({ 'webhook-signature': signature })).toBe('signature');
    });

    test('and refuses another id, another time, and a body that was written again', async () => {
      expect(await takes({ 'webhook-id': `${KEY}.declined` })).toBe('signature');
      expect(await takes({ 'webhook-timestamp': `${Number(headers['webhook-timestamp']) + 1}` })).toBe('signature');
      for (const body of [
        JSON.stringify(EVENT, null, 2),
        `${BODY}\n`,
        Buffer.from(BODY).toString('latin1'),
        btoa('{}'),
      ])
        expect(await takes({}, body)).toBe('signature');
    });

    test('and refuses a message whose full stops were moved from one part to another', async () => {
      const time = headers['webhook-timestamp'];
      expect(await takes({ 'webhook-id': KEY, 'webhook-timestamp': `completed.${time}` })).toBe('headers');
      expect(await takes({ 'webhook-id': KEY, 'webhook-timestamp': time }, `completed.${BODY}`)).toBe('signature');
    });
  });

  describe('takes secrets', () => {
    const verified = (given: unknown, secrets: readonly string[] = [SECRET]) =>
      whyOf(verifyWebhook(signedWebhook(ID, BODY, { secrets }).headers, BODY, given as string[]));

    test('of which one has signed, as during a change', async () => {
      expect(await verified([NEW_SECRET, SECRET])).toBe('taken');
      expect(await verified([NEW_SECRET], [SECRET, NEW_SECRET])).toBe('taken');
      expect(await verified([NEW_SECRET])).toBe('signature');
    });

    test('of 24 to 64 bytes, with and without padding', async () => {
      for (const secret of [secretOf(24), secretOf(64), secretOf(25), secretOf(25).replace(/=+$/, '')])
        expect(await verified([secret], [secret]), secret).toBe('taken');
      for (const secret of [secretOf(23), secretOf(67)]) expect(await verified([secret])).toBe('secrets');
    });

    test.each([
      ['none', []],
      ['an undefined one', [undefined]],
      ['an empty one', ['']],
      ['one without whsec_', [SECRET.slice('whsec_'.length)]],
      ['one with a line end', [`${SECRET}\n`]],
      ['two in one text', [`${SECRET} ${NEW_SECRET}`]],
      ['one in base64url', [`whsec_${'-_'.repeat(16)}`]],
      ['one that no base64 can have', [`whsec_${'A'.repeat(33)}`]],
      ['a public key', [SECRET.replace('whsec_', 'whpk_')]],
      ['a text', SECRET],
      ['nothing', undefined],
      ['a right one and a wrong one', [SECRET, 'secret']],
    ])('and refuses %s', async (_what, given) => {
      expect(await verified(given)).toBe('secrets');
    });

    test('and shows none of them', async () => {
      const secret = SECRET.replace('whsec_', '');
      const refused = verifyWebhook(headers, BODY, [secret]);
      await expect(refused).rejects.toThrow("'secrets[0]' must be a secret as WEBHOOKS_FILE has it: whsec_");
      await expect(refused).rejects.not.toThrow(secret.slice(0, 8));
    });
  });

  describe('takes messages of the last five minutes', () => {
    const signedAt = (seconds: number) => {
      const atMs = (Math.floor(NOW_MS / 1_000) + seconds) * 1_000;
      return verifyWebhook(signedWebhook(ID, BODY, { atMs }).headers, BODY, [SECRET]);
    };
    /** Signed by hand, because no date of the library is as late. */
    const signedAtText = (time: string) => {
      const key = Buffer.from(SECRET.slice('whsec_'.length), 'base64');
      const signature = createHmac('sha256', key).update(`${ID}.${time}.${BODY}`).digest('base64');
      return takes({ 'webhook-timestamp': time, 'webhook-signature': `v1,${signature}` });
    };

    test('and of as many minutes ahead, because clocks differ', async () => {
      for (const seconds of [-300, 0, 300]) expect(await whyOf(signedAt(seconds))).toBe('taken');
    });

    test('and says of others which clock to look at', async () => {
      expect(await whyOf(signedAt(-301))).toBe('too-old');
      expect(await whyOf(signedAt(301))).toBe('too-new');
      await expect(signedAt(-3_600)).rejects.toThrow('signed 3600 s ago');
      await expect(signedAt(3_600)).rejects.toThrow('signed 3600 s ahead');
      await expect(signedAt(3_600)).rejects.toThrow('correct the clock');
    });

    test.each([
      ['0', 'too-old'],
      [`${NOW_MS}`, 'too-new'],
      ['99999999999999999999', 'too-new'],
      ['9'.repeat(400), 'too-new'],
    ])('and not of %s s', async (time, why) => {
      expect(await signedAtText(time)).toBe(why);
    });

    test('and says that a forged message is forged, whatever its time is', async () => {
      expect(await takes({ 'webhook-timestamp': '1' })).toBe('signature');
    });
  });

  describe('takes bodies as they arrived', () => {
    test('also in bytes of another realm', async () => {
      const bytes = runInNewContext('Uint8Array.from(bytes)', { bytes: [...Buffer.from(BODY)] });
      expect(bytes).not.toBeInstanceOf(Uint8Array);
      expect(await takes({}, bytes)).toBe('taken');
    });

    test.each([
      ['parsed', EVENT],
      ['missing', undefined],
      ['null', null],
      ['a stream', new Blob([BODY]).stream()],
      ['empty text', ''],
      ['no bytes', new Uint8Array()],
    ])('and refuses one that is %s', async (_what, body) => {
      expect(await whyOf(verifyWebhook(headers, body as never, [SECRET]))).toBe('body');
    });

    test('and says how to read a body that was parsed', async () => {
      await expect(verifyWebhook(headers, EVENT as never, [SECRET])).rejects.toThrow('read it raw on this path');
    });

    test.each([
      'no JSON',
      '[]',
      'null',
      '{}',
      '{"type":"payment.completed","timestamp":"2026-11-29T12:00:00.000Z"}',
      '{"type":"payment.completed","timestamp":"2026-11-29T12:00:00.000Z","data":{"id":7}}',
      JSON.stringify({ ...EVENT, type: 7 }),
      JSON.stringify({ ...EVENT, data: [RECORD] }),
    ])('and refuses %s, although it is signed', async (body) => {
      expect(await whyOf(verifyWebhook(signedWebhook(ID, body).headers, body, [SECRET]))).toBe('event');
    });

    test('and returns an event whose type came later, so that its receiver can answer and do nothing', async () => {
      const body = JSON.stringify({ ...EVENT, type: 'payment.disputed' });
      const event = await verifyWebhook(signedWebhook(ID, body).headers, body, [SECRET]);
      expect(event.type).toBe('payment.disputed');
    });
  });
});
