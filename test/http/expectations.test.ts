import { expect, it } from 'vitest';
import { generateKey } from '../../testkit/client/http-client.js';
import { expectUnspent } from '../../testkit/client/payment-answers.js';
import { BODY_LIMIT_BYTES, GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { converse, GOOD_LENGTH, requestText, statusesIn } from '../../testkit/client/raw-http.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const EXPECT = 'Expect: 100-continue';
const JSON_TYPE = 'Content-Type: application/json';
const PAY = 'POST /api/payment HTTP/1.1';

/**
 * Bug: the client was answered 100, sent its body, and was then refused for what its head had said. Cause: Node sends the
 * 100 by itself. Fix: it is sent when the body begins to be read.
 */
describeDeployments('Expect: 100-continue', (deployment) => {
  const shared = shareService(deployment);

  it('is answered 100 where the body is wanted, then as any request, on a connection that stays', async () => {
    const key = await generateKey(shared.url);
    const head = requestText(PAY, [EXPECT, JSON_TYPE, GOOD_LENGTH, `Idempotency-Key: ${key}`]);
    const read = requestText('GET /api/health/redis HTTP/1.1', []);
    const received = await converse(shared.service.port, [head, GOOD_BODY, read], 3);
    expect(statusesIn(received)).toEqual([100, 200, 200]);
  });

  it('is not answered 100 in version 1.0', async () => {
    const key = await generateKey(shared.url);
    const head = requestText(PAY.replace('1.1', '1.0'), [EXPECT, JSON_TYPE, GOOD_LENGTH, `Idempotency-Key: ${key}`]);
    expect(statusesIn(await converse(shared.service.port, [head + GOOD_BODY]))).toEqual([200]);
  });

  it.concurrent.each([
    ['no key', PAY, [JSON_TYPE, GOOD_LENGTH], 400],
    ['a path that is not there', 'POST /api/nothing HTTP/1.1', [JSON_TYPE, GOOD_LENGTH], 404],
    ['a method that is not served', 'PUT /api/payment HTTP/1.1', [JSON_TYPE, GOOD_LENGTH], 405],
    ['a length beyond the limit', PAY, [JSON_TYPE, `Content-Length: ${BODY_LIMIT_BYTES + 1}`, 'KEY'], 413],
    ['another media type', PAY, ['Content-Type: text/plain', GOOD_LENGTH, 'KEY'], 415],
    ['no media type', PAY, [GOOD_LENGTH, 'KEY'], 415],
    ['a compressed body', PAY, [JSON_TYPE, 'Content-Encoding: gzip', GOOD_LENGTH, 'KEY'], 415],
    ['another charset', PAY, ['Content-Type: application/json; charset=utf-16', GOOD_LENGTH, 'KEY'], 415],
    ['a transfer coding', PAY, [JSON_TYPE, 'Transfer-Encoding: gzip, chunked', 'KEY'], 501],
    ['a second Host', PAY, [JSON_TYPE, GOOD_LENGTH, 'Host: b', 'KEY'], 400],
  ])('gets a refusal at once, without 100, and the connection ends: %s', async (_what, line, headers, status) => {
    const key = await generateKey(shared.url);
    const lines = headers.map((header) => (header === 'KEY' ? `Idempotency-Key: ${key}` : header));
    const received = await converse(shared.service.port, [requestText(line, [EXPECT, ...lines])]);
    expect(statusesIn(received)).toEqual([status]);
    expect(received).toMatch(/^connection: close\r$/im);
    await expectUnspent(shared.url, key);
  });

  it.each(['a-miracle', '100-continue, a-miracle', '"100-continue"'])(
    'of another kind is 417 with the error body: %s',
    async (expectation) => {
      const request = requestText(PAY, [`Expect: ${expectation}`, JSON_TYPE, GOOD_LENGTH]);
      const received = await converse(shared.service.port, [request]);
      expect(statusesIn(received)).toEqual([417]);
      expect(received).toMatch(/\{"status":417,"error":"Expectation Failed","message":"[^"]+"\}$/);
    },
  );
});
