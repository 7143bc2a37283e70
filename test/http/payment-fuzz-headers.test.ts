import fc from 'fast-check';
import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectClientError,
  expectPaidOrUnspent,
  INVALID_KEY,
  MISSING_KEY,
} from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { exchange, requestText } from '../../testkit/client/raw-http.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const RUNS = { numRuns: 300 };
const FUZZ_TIMEOUT_MS = 120_000;

/** What Node's client agrees to send in a header. */
const headerText = fc.string({
  unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => (code === 0x7f ? '\t' : String.fromCharCode(code))),
  maxLength: 200,
});

/** Headers that this service or a library below it reads. None changes where the body ends or who the connection is for. */
const headerName = fc.constantFrom(
  ...['Content-Type', 'Content-Encoding', 'Content-Language', 'Accept', 'Accept-Encoding', 'Accept-Charset'],
  ...['X-Request-Id', 'If-None-Match', 'If-Match', 'Cookie', 'Origin', 'Prefer', 'Authorization', 'Range'],
  ...[
    'X-Forwarded-For',
    'X-Forwarded-Host',
    'Forwarded',
    'traceparent',
    'X-HTTP-Method-Override',
    'Idempotent-Replayed',
  ],
);

describeDeployments('arbitrary headers of a payment', (deployment) => {
  const service = shareService(deployment);

  it(
    'answers arbitrary values of any header with a 4xx that costs nothing, or pays',
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.dictionary(headerName, headerText, { minKeys: 1, maxKeys: 4 }), async (headers) => {
          const key = await generateKey(service.url);
          await expectPaidOrUnspent(service.url, key, await pay(service.url, key, GOOD_BODY, { headers }));
        }),
        RUNS,
      );
    },
    FUZZ_TIMEOUT_MS,
  );

  it(
    'takes no arbitrary Idempotency-Key for a key that was generated',
    async () => {
      await fc.assert(
        fc.asyncProperty(headerText, async (value) => {
          const answer = await pay(service.url, value);
          expectError(answer, 400);
          expect([MISSING_KEY, INVALID_KEY]).toContain(answer.json<{ message: string }>().message);
          expectClientError(await paymentStatus(service.url, value));
        }),
        RUNS,
      );
    },
    FUZZ_TIMEOUT_MS,
  );

  it(
    'answers arbitrary bytes in the Idempotency-Key header, which no client library would send, with a 400',
    async () => {
      // Without line ends, which would begin a header of their own.
      const bytes = fc
        .uint8Array({ maxLength: 100 })
        .map((raw) => raw.filter((byte) => byte !== 0x0d && byte !== 0x0a));
      await fc.assert(
        fc.asyncProperty(bytes, async (value) => {
          const text = requestText(
            'POST /api/payment HTTP/1.1',
            [
              `Idempotency-Key: ${Buffer.from(value).toString('latin1')}`,
              'Content-Type: application/json',
              `Content-Length: ${GOOD_BODY.length}`,
            ],
            GOOD_BODY,
          );
          const answer = await exchange(service.service.port, Buffer.from(text, 'latin1'));
          expect(answer, 'the connection was closed without an answer').toBeDefined();
          if (answer) expectError(answer, 400);
        }),
        RUNS,
      );
    },
    FUZZ_TIMEOUT_MS,
  );
});
