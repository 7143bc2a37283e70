import { expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import { expectHeadAsGet } from '../../testkit/client/payment-records.js';
import {
  deleteTransaction,
  draft,
  expectUnknownTransaction,
  givenTransaction,
  idsOf,
  listTransactions,
  newAccount,
  postTransaction,
  putStatus,
  quoted,
  readTransaction,
  STATUSES,
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const FIRST_ID = 100_000_000_000_001;
const UNKNOWN_IDS = ['1', '999999999999999', '9007199254740993', '9223372036854775808', '9'.repeat(120)];
const NO_IDS = ['007', '0', '+1', '-1', '1.0', '1e3', '0x10', '1%20', '%201', '%EF%BC%91', 'abc', `0${FIRST_ID}`];

/** The number text that must come out, and the JSON texts that it may have come in as. */
const ACCEPTED_AMOUNTS: readonly [number: string, sent: readonly string[]][] = [
  ['100', ['100', '"100"', '"100.0000"']],
  ['100.5', ['100.50', '"100.50"']],
  ['1', ['1.00000']],
  ['0.0001', ['"0.0001"', '1e-4']],
  ['99999999999.9999', ['"99999999999.9999"']],
  ['99999999999999.9', ['99999999999999.9']],
  ['10000000', ['1.0E7']],
  ['90071992547409.9', ['"90071992547409.9"']],
];

/** They differ in case, white space or Unicode composition only. */
const ACCEPTED_ACCOUNTS = [
  ['alice', 'ALICE'],
  ['  padded', '  padded  '],
  ['caf\u00e9', 'cafe\u0301'],
  ['\u{1f600}'.repeat(64), '"\\/<b>&\'%00'],
  ['\ufeffa\u200db', '__proto__'],
] as const;

/** JSON texts in place of the good one, by the member that the refusal names. */
const REFUSED_MEMBERS: readonly [member: string, values: readonly string[]][] = [
  ['amount', ['0', '-1', '"-1"', '"1e3"', '1e100', '1e-5', '"0x10"', '" 1"', 'null', 'true', '[5]', '{"value":5}']],
  ['amount', ['100000000000000', '"1.00000"', '9007199254740993', `1${'0'.repeat(400)}`, `"0.${'1'.repeat(400)}"`]],
  ['fromAccount', ['""', `"${'x'.repeat(63)}e\u0301"`, '"a\\u0000b"', '"a\\ud800"', 'null', '{"id":"A"}']],
  ['toAccount', ['""', `"${'\u{1f600}'.repeat(65)}"`, '"a\\nb"', '5']],
  ['status', ['"DONE"', '"pending"', '"PENDING "', '""', '"constructor"', '5', '["PENDING"]', '{}']],
];

const REFUSED_BODIES: readonly [names: RegExp, body: string][] = [
  [/account/i, '{"fromAccount":"A","toAccount":"\\u0041","amount":1}'],
  [/fromAccount/, '{"toAccount":"B","amount":1}'],
  [/toAccount/, '{"fromAccount":"A","amount":1}'],
  [/amount/, '{"fromAccount":"A","toAccount":"B"}'],
  [/amount/, '{"__proto__":{"amount":5},"fromAccount":"A","toAccount":"B"}'],
  [/amount/, '{"fromAccount":"A","toAccount":"B","amount":1,"\\u0061mount":2}'],
  [/JSON object/, '[{"fromAccount":"A","toAccount":"B","amount":1}]'],
];

describeDeployments('creating, reading and deleting transactions', (deployment) => {
  const shared = shareService(deployment);
  const refuse = async (body: string, message: RegExp) =>
    expectError(await postTransaction(shared.url, body), 400, message);

  it('answers the first create with 201, the first id, the place, the tag and exactly this text', async () => {
    const before = Date.now();
    const answer = await postTransaction(shared.url, { fromAccount: 'A', toAccount: 'B', amount: '100.50' });
    expect(answer.status).toBe(201);
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    const created = answer.json<Transaction>();
    expect(answer.text).toBe(
      `{"transactionId":${FIRST_ID},"fromAccount":"A","toAccount":"B","amount":100.5,` +
        `"status":"PENDING","createdAt":"${created.createdAt}"}`,
    );
    expect(new URL(answer.headers.location ?? '', shared.url).pathname).toBe(`/api/transactions/${FIRST_ID}`);
    expect(answer.headers.etag).toBe(quoted(transactionTag(created)));
    expect(created.createdAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
    // A second of room on both sides: the store's clock may decide, and it may keep whole seconds.
    expect(Date.parse(created.createdAt)).toBeGreaterThanOrEqual(before - 1000);
    expect(Date.parse(created.createdAt)).toBeLessThanOrEqual(Date.now() + 1000);
  });

  it('reads a created transaction at its place, with the same text and tag; HEAD is GET without the body', async () => {
    const created = await postTransaction(shared.url, draft({ status: 'ON_HOLD' }));
    const { transactionId } = created.json<Transaction>();
    const read = await readTransaction(shared.url, transactionId);
    expect(read).toMatchObject({ status: 200, text: created.text, headers: { etag: created.headers.etag } });
    expect(read.headers['content-type']).toMatch(/^application\/json\b/);

    await expectHeadAsGet(`${shared.url}/api/transactions/${transactionId}`, ['etag', 'cache-control']);
    expect((await readTransaction(shared.url, '1', {}, 'HEAD')).status).toBe(404);
  });

  it.each(['PENDING', 'COMPLETED', 'FAILED'])('deletes a %s one with 204; then it is unknown', async (status) => {
    const account = newAccount();
    const { transactionId } = await givenTransaction(shared.url, { fromAccount: account, status });
    // A media type for a body that is not there is no reason to refuse.
    const headers = { 'Content-Type': 'application/json', 'Content-Length': '0' };
    const deleted = await deleteTransaction(shared.url, transactionId, status === 'PENDING' ? headers : {});
    expect([deleted.status, deleted.text]).toEqual([204, '']);
    await expectUnknown(transactionId);
    expect(idsOf(await listTransactions(shared.url, { from: account }))).toEqual([]);
  });

  it.each(UNKNOWN_IDS)('finds no transaction %s, and says so with the id as it was sent', expectUnknown);

  it.each(NO_IDS)('refuses %s as an id', async (id) => {
    expectError(await readTransaction(shared.url, id), 400);
    expectError(await putStatus(shared.url, id, { status: 'FLAGGED' }), 400);
    expectError(await deleteTransaction(shared.url, id), 400);
  });

  /** Rule T2; `test/unit/transaction` has every form. */
  it.each(ACCEPTED_AMOUNTS)('shows the amount %s when created, read and listed: %j', async (number, sent) => {
    const account = newAccount();
    for (const amount of sent) {
      const answer = await postTransaction(shared.url, bodyWith('amount', amount, account));
      expect(answer.status, answer.text).toBe(201);
      const read = await readTransaction(shared.url, answer.json<Transaction>().transactionId);
      expect([...numberTexts(answer.text), ...numberTexts(read.text)]).toEqual([number, number]);
    }
    const list = await listTransactions(shared.url, { from: account });
    expect(numberTexts(list.text)).toEqual(sent.map(() => number));
  });

  /** Rule T3; `test/unit/transaction` has every form. */
  it.each(ACCEPTED_ACCOUNTS)('keeps the accounts %j and %j as they were sent', async (fromAccount, toAccount) => {
    const created = await givenTransaction(shared.url, { fromAccount, toAccount });
    expect(created).toMatchObject({ fromAccount, toAccount });
    expect((await readTransaction(shared.url, created.transactionId)).json()).toEqual(created);
  });

  it('takes every status from the start, PENDING when none is sent', async () => {
    expect((await givenTransaction(shared.url)).status).toBe('PENDING');
    for (const status of STATUSES) expect((await givenTransaction(shared.url, { status })).status).toBe(status);
  });

  it.each(REFUSED_MEMBERS)('refuses a wrong %s and names it: %j', async (member, values) => {
    for (const value of values) await refuse(bodyWith(member, value), new RegExp(member));
  });

  it.each(REFUSED_BODIES)('refuses with %s: %s', async (names, body) => {
    await refuse(body, names);
  });

  it('ignores unknown members, also those that the service itself fills', async () => {
    const body =
      '{"transactionId":7,"createdAt":"1999","__proto__":{"status":"FAILED","polluted":1},"constructor":{"a":[1]},' +
      '"fromAccount":"A","note":{"amount":9,"amount":8},"toAccount":"B","amount":1}';
    const created = (await postTransaction(shared.url, body)).json<Transaction>();
    expect(Object.keys(created)).toEqual(Object.keys(await givenTransaction(shared.url)));
    expect(created).toMatchObject({ fromAccount: 'A', toAccount: 'B', amount: 1, status: 'PENDING' });
    expect(created.transactionId).toBeGreaterThan(FIRST_ID);
    expect(created.createdAt).not.toBe('1999');
  });

  /** The last one: the service ends. */
  it('uses no id again after a delete and a restart', async () => {
    const [kept, deleted] = [await givenTransaction(shared.url), await givenTransaction(shared.url)];
    await deleteTransaction(shared.url, deleted.transactionId);
    await shared.service.stop();
    const { url } = await shared.stores.serve();
    expect((await readTransaction(url, kept.transactionId)).json()).toEqual(kept);
    expect((await givenTransaction(url)).transactionId).toBeGreaterThan(deleted.transactionId);
  });

  async function expectUnknown(id: string | number): Promise<void> {
    expectUnknownTransaction(await readTransaction(shared.url, id), id);
    expectUnknownTransaction(await putStatus(shared.url, id, { status: 'FLAGGED' }), id);
    expectUnknownTransaction(await deleteTransaction(shared.url, id), id);
  }
});

/** A good body in which one member has the given JSON text. */
function bodyWith(member: string, json: string, fromAccount = 'A'): string {
  const members = { fromAccount: `"${fromAccount}"`, toAccount: '"B"', amount: '1', [member]: json };
  return `{${Object.entries(members).map(([name, value]) => `"${name}":${value}`)}}`;
}

/** The amounts as text on the wire: parsing them would hide `100.50` and lost digits. */
function numberTexts(body: string): (string | undefined)[] {
  return [...body.matchAll(/"amount":([^,}]+)/g)].map(([, text]) => text);
}
