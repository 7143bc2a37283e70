import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { createListener } from '#idempay/http/connections/listener.js';
import { publicErrors } from '#idempay/http/errors/catalogue.js';
import { type PublicError, problemBody } from '#idempay/http/errors/public-error.js';
import { createServer, type Features } from '#idempay/http/server.js';
import type { Charge } from '#idempay/payments/history/charge.js';
import type { Payments } from '#idempay/payments/payments.js';
import { credentialOf } from '../../testkit/client/credentials.js';
import { expectError } from '../../testkit/client/error-body.js';
import { type Answer, type Ask, ask, generateKey, pay, sendJson } from '../../testkit/client/http-client.js';
import { requireKeys } from '../../testkit/client/key-file.js';
import { beginPayment, expectFirst, UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { resolvePayment } from '../../testkit/client/payment-records.js';
import { answerTo, requestText } from '../../testkit/client/raw-http.js';
import { describeOneDeployment } from '../../testkit/deployments/deployments.js';
import { shareProcessedService } from '../../testkit/deployments/processed-service.js';
import { shareService } from '../../testkit/deployments/shared-service.js';
import { until } from '../../testkit/time/until.js';

const PROBLEM = { Accept: 'application/problem+json' };
const MONEY = { amount: '100.50', currency: 'USD' };
const RESOLVABLE_DEADLINE_MS = 20_000;

/** Exactly this error as RFC 9457, with the headers of every error. */
function expectProblem(answer: Answer, error: PublicError, charge?: Charge): void {
  expect([answer.status, answer.json()]).toEqual([error.status, problemBody(error, charge && { charge })]);
  expect(answer.headers).toMatchObject({
    'content-type': 'application/problem+json',
    'cache-control': 'no-store',
    idempay: '1',
    'x-request-id': expect.stringMatching(/\S/),
  });
  // No cache may keep it, so none needs to know what it depends on.
  expect(answer.headers).not.toHaveProperty('vary');
}

/** Tested without a service, because its row would have to be lost and cancelled while the processor charges. */
test('a charge against a cancellation was made, although its row is cancelled', async () => {
  const silent = pino({ level: 'silent' });
  const payments = {
    pay: async () => ({ state: 'charged after cancellation' }),
    tellCharge: async () => 'none',
  } as unknown as Payments;
  const rules = { access: undefined, loopbackOnly: false, trustedNetworks: undefined };
  const features = { payments, readiness: { isDraining: false } } as Features;
  const server = createServer(createListener(silent), features, rules, silent, () => {});
  const { statusCode, body } = await server.inject({
    method: 'POST',
    url: '/api/payment',
    headers: { ...PROBLEM, 'Idempotency-Key': UNKNOWN_KEY },
    payload: MONEY,
  });
  expect([statusCode, JSON.parse(body)]).toEqual([
    410,
    problemBody(publicErrors.chargedAfterCancellation(), { charge: 'made' }),
  ]);
});

describeOneDeployment('Accept: application/problem+json', (deployment) => {
  const shared = shareService(deployment);
  const endless = shareService(deployment, { PROCESSOR_DELAY_MS: '600000' });

  describe('whatever refuses the request', () => {
    const raw = async (line: string, headers: string[] = []) =>
      answerTo(Number(new URL(shared.url).port), requestText(line, [...headers, 'Accept: application/problem+json']));

    test.each<[what: string, error: PublicError, path: string, options?: Ask]>([
      ['an unknown path', publicErrors.unknownRoute(), '/nothing'],
      ['a wrong method', publicErrors.methodNotAllowed('GET, HEAD'), '/livez', { method: 'DELETE' }],
      ['a path that is not encoded', publicErrors.invalidPath(), '/%zz'],
      ['a query that is not encoded', publicErrors.invalidQuery(), '/api/transactions?from=%zz'],
      ['a long target', publicErrors.uriTooLong(10_000), `/${'x'.repeat(10_001)}`],
      ['no id', publicErrors.invalidTransactionId(), '/api/transactions/abc'],
      ['an unknown id', publicErrors.transactionNotFound('100000000000001'), '/api/transactions/100000000000001'],
      ['a condition', publicErrors.preconditionFailed('page'), '/problems', { headers: { 'If-Match': '"x"' } }],
      ['an unknown record', publicErrors.recordNotFound(), `/api/payments/${UNKNOWN_KEY}`],
      [
        'a body that is not JSON',
        publicErrors.unsupportedMediaType(),
        '/api/transactions',
        { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: 'x' },
      ],
    ])('has its type and no charge: %s', async (_what, error, path, { headers, ...options } = {}) => {
      const url = `${shared.url}${path}`;
      expectProblem(await ask(url, { ...options, headers: { ...headers, ...PROBLEM } }), error);
      expectError(await ask(url, { ...options, headers: { ...headers } }), error.status, error.message);
    });

    test('has its type also outside of all routes, and no body in an answer to HEAD', async () => {
      expectProblem(
        await raw('CONNECT example.com:443 HTTP/1.1'),
        publicErrors.methodNotAllowed('DELETE, GET, HEAD, POST, PUT'),
      );
      expectProblem(await raw('GET / HTTP/1.1', ['Expect: a-miracle']), publicErrors.expectationFailed());
      expectProblem(await raw('GET / HTTP/2.0'), publicErrors.unknownVersion());
      const head = await ask(`${shared.url}/nothing`, { method: 'HEAD', headers: PROBLEM });
      expect([head.status, head.text, head.headers['content-type']]).toEqual([404, '', 'application/problem+json']);
    });

    test('is plain JSON where the parser refuses, because the headers are not known then', async () => {
      expectError(await raw('BREW / HTTP/1.1'), 501);
    });
  });

  test('the types are explained on a page, which everybody may read', async () => {
    const page = await ask(`${shared.url}/problems`);
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.text).toContain('<dt id="payment-in-progress">');
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    const again = await ask(`${shared.url}/problems`, { headers: { 'If-None-Match': String(page.headers.etag) } });
    expect([again.status, again.text]).toEqual([304, '']);
  });

  describe('an error of a payment says what is known of its charge', () => {
    test('unknown, where the key names no payment', async () => {
      const { url } = shared;
      const asking = { headers: PROBLEM };
      expectProblem(await pay(url, UNKNOWN_KEY, MONEY, asking), publicErrors.invalidIdempotencyKey(), 'unknown');
      expectProblem(await pay(url, 'none', MONEY, asking), publicErrors.invalidIdempotencyKey(), 'unknown');
      expectProblem(await pay(url, '', MONEY, asking), publicErrors.missingIdempotencyKey(), 'unknown');
      const key = await generateKey(url);
      expectProblem(
        await ask(`${url}/api/payment-status`, { headers: { ...PROBLEM, 'Idempotency-Key': key } }),
        publicErrors.paymentNotFound(),
        'unknown',
      );
      expectProblem(await pay(url, key, '', asking), publicErrors.emptyBody(), 'unknown');
      const refused = await pay(url, key, { currency: 'USD' }, asking);
      expect([refused.status, refused.json()]).toMatchObject([
        400,
        { type: '/problems#invalid-body', detail: expect.stringContaining("'amount'"), charge: 'unknown' },
      ]);
      const wrongType = { headers: { ...PROBLEM, 'Content-Type': 'text/plain' } };
      expectProblem(await pay(url, key, 'x', wrongType), publicErrors.unsupportedMediaType(), 'unknown');
      const generating = `${url}/api/server-generated/generate-key`;
      expectProblem(await ask(`${generating}?reference=`, asking), publicErrors.invalidReference(), 'unknown');
      // It names no payment.
      expectProblem(await ask(`${generating}?attempt=2`, asking), publicErrors.withoutReference('attempt'));
    });

    test('unknown, while it is under way', async () => {
      const { url } = endless;
      const key = await generateKey(url);
      const { finished } = await beginPayment(url, key);
      finished.catch(() => {});
      const answer = await pay(url, key, MONEY, { headers: PROBLEM });
      expectProblem(answer, publicErrors.paymentInProgress(1), 'unknown');
      expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
    });

    test('made of a key that was paid, and none of one that was cancelled', async () => {
      const { url } = shared;
      const [paid, closed] = [await generateKey(url), await generateKey(url)];
      const id = expectFirst(await pay(url, paid));
      const cancel = (key: string) =>
        ask(`${url}/api/payment-cancellation`, { method: 'POST', headers: { ...PROBLEM, 'Idempotency-Key': key } });
      expectProblem(await cancel(paid), publicErrors.cancelledTooLate(id), 'made');
      expect((await cancel(closed)).status).toBe(200);
      expectProblem(await pay(url, closed, MONEY, { headers: PROBLEM }), publicErrors.paymentCancelled(), 'none');
      const status = await ask(`${url}/api/payment-status`, { headers: { ...PROBLEM, 'Idempotency-Key': closed } });
      expectProblem(status, publicErrors.paymentNotFound(), 'none');
    });
  });

  describe('with a processor that declines', async () => {
    const shop = credentialOf('shop', ['payments:write', 'payments:read']);
    const rival = credentialOf('rival', ['payments:write', 'payments:read']);
    const operator = credentialOf('operator', ['operations']);
    const { environment } = await requireKeys(shop, rival, operator);
    const processed = shareProcessedService(
      deployment,
      { declineRate: 1 },
      { ...environment, PROCESSOR_DEDUP_SECONDS: '1', PAYLOAD_MISMATCH: 'reject' },
    );
    const asking = { ...PROBLEM, ...shop.headers };
    const payOrder = (reference: string, attempt = 1, body: unknown = MONEY) =>
      sendJson(`${processed().url}/api/payment?reference=${reference}&attempt=${attempt}`, 'POST', body, asking);
    const statusOf = (query: string) => ask(`${processed().url}/api/payment-status?${query}`, { headers: asking });

    test('a reference is answered for all its attempts, also if the key of one attempt names it', async () => {
      const { url } = processed();
      await processed().processor.behave({ declineRate: 1 });
      const declined = publicErrors.attemptDeclined('declined by the reference processor', 1);
      const first = await payOrder('order-1');
      expect([first.status, first.json()]).toMatchObject([402, { type: problemBody(declined).type, charge: 'none' }]);
      const key = String(first.headers['idempotency-key']);
      expectProblem(await payOrder('order-1', 3), publicErrors.attemptOutOfTurn(3, 'absent'), 'none');
      expectProblem(await statusOf('reference=order-1'), publicErrors.paymentNotFound(), 'none');
      expectProblem(await payOrder('order-1', 1, { ...MONEY, amount: '7' }), publicErrors.referenceMismatch(), 'none');

      await processed().processor.behave({ declineRate: 0 });
      const transactionId = expectFirst(await payOrder('order-1', 2));
      const superseded = publicErrors.attemptSuperseded(1, { attempt: 2, state: 'COMPLETED', transactionId });
      expectProblem(await payOrder('order-1'), superseded, 'made');
      const generating = `${url}/api/server-generated/generate-key?reference=order-1&attempt=3`;
      const refused = publicErrors.attemptOutOfTurn(3, 'completed');
      expectProblem(await ask(generating, { headers: asking }), refused, 'made');
      // Asked by the key of the first attempt alone.
      expectProblem(await pay(url, key, MONEY, { headers: asking }), superseded, 'made');
      const status = await ask(`${url}/api/payment-status`, { headers: { ...asking, 'Idempotency-Key': key } });
      expectProblem(status, publicErrors.paymentNotFound(), 'made');
    });

    test('another client learns nothing', async () => {
      const { url } = processed();
      await processed().processor.behave({ declineRate: 1 });
      const key = String((await payOrder('order-2')).headers['idempotency-key']);
      const answer = await pay(url, key, MONEY, { headers: { ...PROBLEM, ...rival.headers } });
      expectProblem(answer, publicErrors.invalidIdempotencyKey(), 'unknown');
      const credentials = await pay(url, key, MONEY, { headers: PROBLEM });
      expectProblem(credentials, publicErrors.credentialsMissing(), 'unknown');
    });

    test('what an operator found declined is unknown', async () => {
      const { url } = processed();
      await processed().processor.behave({ declineRate: 0, refuseWith: 500 });
      const key = await until('a payment whose outcome is unknown', RESOLVABLE_DEADLINE_MS, async () => {
        const answer = await payOrder('order-3');
        return answer.status === 504 && String(answer.headers['idempotency-key']);
      });
      await until('the resolution', RESOLVABLE_DEADLINE_MS, async () => {
        const verdict = { outcome: 'declined', reason: 'not on the statement' };
        return (await resolvePayment(url, key, verdict, operator.headers)).status === 200;
      });
      const again = await payOrder('order-3');
      expect([again.status, again.json<{ charge: Charge }>().charge]).toEqual([402, 'unknown']);
      expectProblem(await statusOf('reference=order-3'), publicErrors.paymentNotFound(), 'unknown');
    });
  });
});
