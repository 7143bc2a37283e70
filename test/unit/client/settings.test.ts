import { Idempay, InvalidRequestError, NotAuthorizedError } from '@idempay/client';
import { describe, expect, test } from 'vitest';
import {
  BASE_URL,
  failureOf,
  json,
  KEY,
  PAID,
  refusal,
  scripted,
} from '../../../testkit/client-library/scripted-fetch.js';

describe('options', () => {
  test.each([
    ['no baseUrl', {}],
    ['a baseUrl without a scheme', { baseUrl: 'localhost:8080' }],
    ['a baseUrl of another scheme', { baseUrl: 'ftp://localhost' }],
    ['a baseUrl with credentials', { baseUrl: 'http://user:secret@localhost' }],
    ['a baseUrl with a query', { baseUrl: 'http://localhost/?a=b' }],
    ['a key and a token', { baseUrl: BASE_URL, apiKey: 'idem_1', token: () => 'x' }],
    ['a key with a line end', { baseUrl: BASE_URL, apiKey: 'idem_1\n' }],
    ['a deadline of nothing', { baseUrl: BASE_URL, deadlineMs: 0 }],
  ])('%s is refused with a sentence', (_, options) => {
    expect(() => new Idempay(options as never)).toThrow(InvalidRequestError);
  });

  test('a path of a gateway is kept, with or without a slash at its end', async () => {
    for (const path of ['/shop/idempay', '/shop/idempay/']) {
      const { idempay, sent } = scripted([json(KEY)], { baseUrl: `${BASE_URL}${path}` });
      await idempay.payments.prefetchKeys(1);
      expect(sent[0]?.path).toBe('/shop/idempay/api/server-generated/generate-key');
    }
  });
});

describe('credentials', () => {
  test('an API key is sent with every request', async () => {
    const { idempay, sent } = scripted([json(KEY), json(PAID)], { apiKey: 'idem_1' });
    await idempay.payments.pay({ amount: '1', currency: 'EUR' });
    expect(sent.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer idem_1', 'Bearer idem_1']);
  });

  test('a token that is refused is asked for once more', async () => {
    const asked: boolean[] = [];
    const token = ({ refresh }: { refresh: boolean }) => {
      asked.push(refresh);
      return refresh ? 'new' : 'old';
    };
    const { idempay, sent } = scripted([json(KEY), refusal(401), json(PAID)], { token });
    const { attempts } = await idempay.payments.pay({ amount: '1', currency: 'EUR' });
    expect([attempts, asked]).toEqual([1, [false, false, true]]);
    expect(sent.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer old', 'Bearer old', 'Bearer new']);
    const twice = scripted([json(KEY), refusal(401), refusal(401)], { token });
    await failureOf(NotAuthorizedError, twice.idempay.payments.pay({ amount: '1', currency: 'EUR' }));
  });

  test('a token that cannot be had for a moment is asked for again', async () => {
    let times = 0;
    const token = () => {
      times += 1;
      return times === 1 ? Promise.reject(new Error('the identity provider is down')) : 'token';
    };
    const { idempay } = scripted([json(KEY), json(PAID)], { token });
    expect(await idempay.payments.pay({ amount: '1', currency: 'EUR' })).toMatchObject({ transactionId: 'TXN1' });
  });
});
