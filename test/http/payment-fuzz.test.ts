import fc from 'fast-check';
import { expect, it } from 'vitest';
import { describeDeployments } from '../support/deployments.js';
import { expectError } from '../support/error-body.js';
import { type Answer, generateKey, pay, paymentStatus } from '../support/http-client.js';
import { expectBodyRefused, expectFirst, expectUnspent, INVALID_KEY, MISSING_KEY } from '../support/payment-answers.js';
import { GOOD_BODY } from '../support/payment-bodies.js';
import { exchange, requestText } from '../support/raw-http.js';
import { shareService } from '../support/shared-service.js';

const RUNS = { numRuns: 300 };
const FUZZ_TIMEOUT_MS = 120_000;
const USD_DECIMALS = 2;
const MAX_DIGITS = 15;

/** Decision P4 for USD, said a second time and in another way than the service says it: digit by digit. */
function isGoodAmount(text: string): boolean {
  const parts = text.split('.');
  const [whole = '', fraction] = parts;
  const digits = [...parts.join('')];
  return (
    parts.length <= 2 &&
    whole !== '' &&
    fraction !== '' &&
    digits.every((digit) => '0123456789'.includes(digit)) &&
    digits.some((digit) => digit !== '0') &&
    (whole === '0' || whole[0] !== '0') &&
    digits.length <= MAX_DIGITS &&
    (fraction?.length ?? 0) <= USD_DECIMALS
  );
}

/** A well-formed answer of either kind: the payment was made, or it was refused and the key is as it was. */
async function expectPaidOrUnspent(url: string, key: string, answer: Answer): Promise<void> {
  if (answer.status === 200) {
    expectFirst(answer);
    return;
  }
  expectClientError(answer);
  await expectUnspent(url, key);
}

function expectClientError(answer: Answer): void {
  expect(answer.status, answer.text).toBeGreaterThanOrEqual(400);
  expect(answer.status, answer.text).toBeLessThan(500);
  expectError(answer, answer.status);
}

/** Amounts that are good, nearly good, or noise made of the characters that numbers are made of. */
const amountText = fc.oneof(
  fc.stringMatching(/^[1-9][0-9]{0,15}(\.[0-9]{1,3})?$/),
  fc.stringMatching(/^0?0?[0-9]{0,3}\.?[0-9]{0,3}$/),
  fc.string({ unit: fc.constantFrom(...'0123456789.+-eEx_, \u0661'), maxLength: 18 }),
  fc.string({ unit: 'binary', maxLength: 8 }),
);

/** Payments with every part replaced by something that JSON can say. */
const paymentLike = fc.record(
  { amount: fc.oneof(fc.constant('100.50'), fc.jsonValue()), currency: fc.oneof(fc.constant('USD'), fc.jsonValue()) },
  { requiredKeys: [] },
);

/** A good body with a few bytes changed: nearer to a payment than noise ever comes. */
const damagedBody = fc
  .array(fc.tuple(fc.nat(GOOD_BODY.length - 1), fc.nat(0xff)), { minLength: 1, maxLength: 3 })
  .map((changes) => {
    const body = Buffer.from(GOOD_BODY);
    for (const [at, byte] of changes) body[at] = byte;
    return body;
  });

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

describeDeployments('arbitrary payments', (deployment) => {
  const service = shareService(deployment);

  it(
    'answers arbitrary bytes as a body with a 4xx that costs nothing, or pays',
    async () => {
      const body = fc.oneof(
        fc.uint8Array({ maxLength: 1_000 }).map((bytes) => Buffer.from(bytes)),
        damagedBody,
      );
      await fc.assert(
        fc.asyncProperty(body, async (bytes) => {
          const key = await generateKey(service.url);
          await expectPaidOrUnspent(service.url, key, await pay(service.url, key, bytes));
        }),
        RUNS,
      );
    },
    FUZZ_TIMEOUT_MS,
  );

  it(
    'answers arbitrary JSON as a body with a 4xx that costs nothing, or pays',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.oneof(
            fc.json(),
            paymentLike.map((value) => JSON.stringify(value)),
          ),
          async (text) => {
            const key = await generateKey(service.url);
            await expectPaidOrUnspent(service.url, key, await pay(service.url, key, text));
          },
        ),
        RUNS,
      );
    },
    FUZZ_TIMEOUT_MS,
  );

  it(
    'accepts exactly the amounts that the rule describes',
    async () => {
      await fc.assert(
        fc.asyncProperty(amountText, async (amount) => {
          const key = await generateKey(service.url);
          const answer = await pay(service.url, key, { amount, currency: 'USD' });
          if (isGoodAmount(amount)) {
            expectFirst(answer);
          } else {
            expectBodyRefused(answer, 400);
            await expectUnspent(service.url, key);
          }
        }),
        RUNS,
      );
    },
    FUZZ_TIMEOUT_MS,
  );

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
