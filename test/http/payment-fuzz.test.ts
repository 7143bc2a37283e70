import fc from 'fast-check';
import { it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import {
  expectBodyRefused,
  expectFirst,
  expectPaidOrUnspent,
  expectReplay,
  expectUnspent,
} from '../../testkit/client/payment-answers.js';
import { GOOD_BODY } from '../../testkit/client/payment-bodies.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

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

/** JSON with one of everything, for edits that leave most of it standing. */
const RICH_JSON = '{"amount":100.50,"currency":"USD","x":[1,-2.5e+3,{"y":null,"z":"\\u00e9\\n\\/"},true,false,[],{}]}';

/** That JSON after one or two edits with characters that mean something to a reader of JSON, or to a lenient one. */
const editedJson = fc
  .array(
    fc.record({
      at: fc.nat(RICH_JSON.length),
      remove: fc.nat(2),
      insert: fc.string({
        unit: fc.constantFrom(...'{}[]",:\\/*\'`0123.eE+-xnu \t\n\r\0\b\v\x7f\u00a0\u2028\u20ac'),
        maxLength: 2,
      }),
    }),
    { minLength: 1, maxLength: 2 },
  )
  .map((edits) =>
    edits.reduce((text, { at, remove, insert }) => text.slice(0, at) + insert + text.slice(at + remove), RICH_JSON),
  );

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describeDeployments('arbitrary payment bodies', (deployment) => {
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
    'reads exactly the texts that are JSON',
    async () => {
      // On a completed key a body that can be read is a replay whatever it says; one that cannot is a 400 (decision P3).
      const key = await generateKey(service.url);
      const transactionId = expectFirst(await pay(service.url, key));
      await fc.assert(
        fc.asyncProperty(editedJson, async (text) => {
          const answer = await pay(service.url, key, text);
          if (isJson(text)) expectReplay(answer, transactionId);
          else expectBodyRefused(answer, 400);
        }),
        { numRuns: 2_000 },
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
});
