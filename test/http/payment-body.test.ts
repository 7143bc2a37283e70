import { it } from 'vitest';
import { generateKey, pay } from '../../testkit/client/http-client.js';
import {
  expectAccepted,
  expectBodyRefused,
  expectRefused,
  expectUnspent,
} from '../../testkit/client/payment-answers.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

/** Members given twice: once of them must not win silently. */
const DUPLICATES: [body: string, member: RegExp][] = [
  ['{"amount":"100.50","amount":"100.50","currency":"USD"}', /amount/],
  ['{"amount":"1","amount":"1000000","currency":"USD"}', /amount/],
  ['{"amount":true,"currency":"USD","amount":"100.50"}', /amount/],
  ['{"amount":"100.50","currency":"USD","currency":"USD"}', /currency/],
  ['{"amount":"100.50","currency":"USD","currency":"JPY"}', /currency/],
  ['{"amount":"1","am\\u006funt":"2","currency":"USD"}', /amount/],
  ['{"\\u0061mount":"1","currency":"USD","amount":"1"}', /amount/],
  ['{"amount":"100.50","currency":"USD","curr\\u0065ncy":"EUR"}', /currency/],
];

const IGNORED_MEMBERS: string[] = [
  '"note":"thanks"',
  '"note":null',
  '"note":[{"amount":"7","currency":"EUR"}]',
  '"Amount":"7","CURRENCY":"EUR","amount ":"8"',
  '"":""',
  '"__proto__":{"amount":"7","isAdmin":true}',
  '"\\u005f_proto__":null',
  '"constructor":{"prototype":{"amount":"7"}}',
  '"toString":"7","hasOwnProperty":1',
  '"n":1e999',
];

const INCOMPLETE: [body: string, member: RegExp][] = [
  ['{}', /amount|currency/],
  ['{"currency":"USD"}', /amount/],
  ['{"amount":"100.50"}', /currency/],
  ['{"Amount":"100.50","currency":"USD"}', /amount/],
  ['{"amount":"100.50","Currency":"USD"}', /currency/],
  // What only the prototype offers is not in the body.
  ['{"__proto__":{"amount":"100.50"},"currency":"USD"}', /amount/],
  ['{"constructor":{"prototype":{"currency":"USD"}},"amount":"100.50"}', /currency/],
  // A payment one level too deep.
  ['{"payment":{"amount":"100.50","currency":"USD"}}', /amount|currency/],
];

const NOT_AN_OBJECT = ['[]', '[{"amount":"100.50","currency":"USD"}]', 'null', 'true', '100.50', '"100.50"', '""'];

/** Equal to the eye of JSON: order, white space and escapes say nothing. */
const WRITTEN_OTHERWISE = [
  '{"currency":"USD","amount":"100.50"}',
  '\r\n\t {\n\t"amount" : "100.50" ,\r\n"currency":"USD" } \n',
  '{"am\\u006funt":"100.50","\\u0063urrency":"USD"}',
];

/** Decision P4: the members of the body. A refusal names the member and costs nothing. */
describeDeployments('members of a payment body', (deployment) => {
  const service = shareService(deployment);

  it.each(WRITTEN_OTHERWISE)('accepts a payment however its JSON is written: %j', async (body) => {
    await expectAccepted(service.url, body);
  });

  it.each(IGNORED_MEMBERS)('ignores unknown members: %s', async (members) => {
    await expectAccepted(service.url, `{${members},"amount":"100.50","currency":"USD"}`);
    await expectAccepted(service.url, `{"amount":"100.50","currency":"USD",${members}}`);
  });

  it.each(DUPLICATES)('refuses a member given twice: %s', async (body, message) => {
    await expectRefused(service.url, body, 400, { message });
  });

  it.each(INCOMPLETE)('refuses a missing member: %s', async (body, message) => {
    await expectRefused(service.url, body, 400, { message });
  });

  it.each(NOT_AN_OBJECT)('refuses %s, which is no object', async (body) => {
    await expectRefused(service.url, body, 400);
  });

  it('refuses bad bodies of one key again and again without spending it', async () => {
    const key = await generateKey(service.url);
    for (const amount of ['0', '-1', '1e3', 'x']) {
      expectBodyRefused(await pay(service.url, key, { amount, currency: 'USD' }), 400, /amount/);
    }
    await expectUnspent(service.url, key);
  });
});
