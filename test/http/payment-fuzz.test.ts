import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { generateKey, pay, paymentStatus } from '../../testkit/client/http-client.js';
import {
  expectBodyRefused,
  expectClientError,
  expectFirst,
  expectPaidOrUnspent,
  expectUnspent,
  INVALID_KEY,
  MISSING_KEY,
} from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { answerTo, paymentText } from '../../testkit/client/raw-http.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** Inputs of one run are sent side by side. */
const BATCH = 20;
const USD_DECIMALS = 2;
const MAX_DIGITS = 15;

vi.setConfig({ testTimeout: 120_000 });

/** Decision P4 for USD, stated in another way than the service states it: digit by digit. */
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

const anyBody = fc.oneof(
  fc.uint8Array({ maxLength: 1_000 }).map((bytes) => Buffer.from(bytes)),
  damagedBody,
  fc.json(),
  paymentLike.map((value) => JSON.stringify(value)),
);

/** What Node's client agrees to send in a header. */
const headerText = fc.string({
  unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => (code === 0x7f ? '\t' : String.fromCharCode(code))),
  maxLength: 200,
});

/** Headers that this service or a library below it reads. None changes where the body ends or who the connection is for. */
const headerName = fc.constantFrom(
  ...['Content-Type', 'Content-Encoding', 'Content-Language', 'Accept', 'Accept-Encoding', 'Accept-Charset'],
  ...['X-Request-Id', 'If-None-Match', 'If-Match', 'Cookie', 'Origin', 'Prefer', 'Authorization', 'Range', 'Forwarded'],
  ...['X-Forwarded-For', 'X-Forwarded-Host', 'traceparent', 'X-HTTP-Method-Override', 'Idempotent-Replayed'],
);

/** Without line ends, which would begin a header of their own. */
const headerBytes = fc
  .uint8Array({ maxLength: 100 })
  .map((raw) => raw.filter((byte) => byte !== 0x0d && byte !== 0x0a));

/** `test/unit/json-body` compares what is read as JSON with `JSON.parse`. */
describeDeployments('an arbitrary payment', (deployment) => {
  const shared = shareService(deployment);

  /** Holds the property for `count` inputs; a failing one is shrunk. */
  async function holds<T>(input: fc.Arbitrary<T>, count: number, property: (value: T) => Promise<void>): Promise<void> {
    const batch = fc.array(input, { minLength: 1, maxLength: BATCH, size: 'max' });
    const numRuns = (2 * count) / BATCH;
    await fc.assert(
      fc.asyncProperty(batch, async (values) => {
        await Promise.all(values.map(property));
      }),
      { numRuns },
    );
  }

  it('with any body gets a 4xx that costs nothing, or pays', async () => {
    await holds(anyBody, 600, async (body) => {
      const key = await generateKey(shared.url);
      await expectPaidOrUnspent(shared.url, key, await pay(shared.url, key, body));
    });
  });

  it('is accepted exactly with the amounts that the rule describes', async () => {
    await holds(amountText, 300, async (amount) => {
      const key = await generateKey(shared.url);
      const answer = await pay(shared.url, key, { amount, currency: 'USD' });
      if (isGoodAmount(amount)) {
        expectFirst(answer);
      } else {
        expectBodyRefused(answer, 400);
        await expectUnspent(shared.url, key);
      }
    });
  });

  it('with any value of any header gets a 4xx that costs nothing, or pays', async () => {
    await holds(fc.dictionary(headerName, headerText, { minKeys: 1, maxKeys: 4 }), 300, async (headers) => {
      const key = await generateKey(shared.url);
      await expectPaidOrUnspent(shared.url, key, await pay(shared.url, key, GOOD_BODY, { headers }));
    });
  });

  it('with any Idempotency-Key that was not generated is refused, and names no payment', async () => {
    await holds(headerText, 300, async (value) => {
      const answer = await pay(shared.url, value);
      expectError(answer, 400);
      expect([MISSING_KEY, INVALID_KEY]).toContain(answer.json<{ message: string }>().message);
      expectClientError(await paymentStatus(shared.url, value));
    });
  });

  it('with any bytes in the Idempotency-Key, which no client library would send, gets a 400', async () => {
    await holds(headerBytes, 300, async (value) => {
      const text = paymentText(Buffer.from(value).toString('latin1'));
      expectError(await answerTo(shared.service.port, Buffer.from(text, 'latin1')), 400);
    });
  });
});
