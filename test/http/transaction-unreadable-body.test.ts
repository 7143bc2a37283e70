import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { ask } from '../../testkit/client/http-client.js';
import {
  draft,
  givenTransaction,
  idsOf,
  listTransactions,
  postTransaction,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const GOOD = JSON.stringify(draft());

const REFUSED = [
  ['an empty body', ''],
  ['white space', '  \n'],
  ['text that is cut off', GOOD.slice(0, -1)],
  ['text after the end', `${GOOD} {}`],
  ['a trailing comma', GOOD.replace('}', ',}')],
  ['single quotes', GOOD.replaceAll('"', "'")],
  ['a comment', GOOD.replace('}', '/* why not */}')],
  ['names without quotes', '{fromAccount:"A",toAccount:"B",amount:1}'],
  ['a raw line break in a text', '{"fromAccount":"A\n","toAccount":"B","amount":1}'],
  ['an escape that does not exist', '{"fromAccount":"\\x41","toAccount":"B","amount":1}'],
  ['a number with zeros in front', '{"fromAccount":"A","toAccount":"B","amount":01}'],
  ['a number with a plus', '{"fromAccount":"A","toAccount":"B","amount":+1}'],
  ['a number that ends in a point', '{"fromAccount":"A","toAccount":"B","amount":1.}'],
  ['a number that is none', '{"fromAccount":"A","toAccount":"B","amount":NaN}'],
  ['bytes that are not UTF-8', Buffer.from('{"fromAccount":"\xff","toAccount":"B","amount":1}', 'latin1')],
  ['an overlong UTF-8 sequence', Buffer.from('{"fromAccount":"\xc0\x80","toAccount":"B","amount":1}', 'latin1')],
  ['a surrogate in UTF-8', Buffer.from('{"fromAccount":"\xed\xa0\x80","toAccount":"B","amount":1}', 'latin1')],
  ['UTF-16', Buffer.from(GOOD, 'utf16le')],
  ['an array', `[${GOOD}]`],
  ['null', 'null'],
  ['a text', '"A"'],
  ['a number', '1'],
  ['a boolean', 'true'],
  ['10,000 arrays that never close', '['.repeat(10_000)],
  ['8,000 nested arrays in an unknown member', GOOD.replace('}', `,"x":${'['.repeat(8_000)}${']'.repeat(8_000)}}`)],
] as const;

describeDeployments('a body that cannot be read as a transaction', (deployment) => {
  const shared = shareService(deployment);

  it.each(REFUSED)('is refused with 400 when it is %s', async (_what, body) => {
    expectError(await postTransaction(shared.url, body), 400);
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonp',
    'text/json-ish',
    'nonsense',
  ])('is refused with 415 when it is called %s', async (type) => {
    expectError(await postTransaction(shared.url, GOOD, { 'Content-Type': type }), 415);
  });

  it('is refused with 415 when it is not called anything', async () => {
    expectError(await ask(`${shared.url}/api/transactions`, { method: 'POST', body: GOOD }), 415);
  });

  it.each(['application/json; charset=utf-8', 'APPLICATION/JSON', 'application/json;charset="UTF-8"'])(
    'is not what %s is',
    async (type) => {
      expect((await postTransaction(shared.url, GOOD, { 'Content-Type': type })).status).toBe(201);
    },
  );

  it('is refused with 413 when it is long, whether or not it says so beforehand', async () => {
    const long = GOOD.replace('}', `,"note":"${'x'.repeat(128 * 1024)}"}`);
    expectError(await postTransaction(shared.url, long), 413);
    expectError(await postTransaction(shared.url, long, { 'Transfer-Encoding': 'chunked' }), 413);
  });

  it('leaves the service and its ids as they were', async () => {
    const before = await givenTransaction(shared.url);
    const list = idsOf(await listTransactions(shared.url));

    for (const [, body] of REFUSED) await postTransaction(shared.url, body);

    expect(idsOf(await listTransactions(shared.url))).toEqual(list);
    expect((await givenTransaction(shared.url)).transactionId).toBe(before.transactionId + 1);
  });
});
