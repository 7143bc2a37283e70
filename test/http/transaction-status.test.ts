import { describe, expect, it } from 'vitest';
import { expectError } from '../../testkit/client/error-body.js';
import type { Answer } from '../../testkit/client/http-client.js';
import {
  changeStatus,
  changeStatusByQuery,
  FINAL_STATUSES,
  givenTransaction,
  MOVABLE_STATUSES,
  putStatus,
  quoted,
  readTransaction,
  STATUSES,
  type Status,
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

type Headers = Record<string, string>;
type Put = (url: string, id: number) => Promise<Answer>;

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' };
const JSON_TYPE = { 'Content-Type': 'application/json' };
const byBody =
  (body: unknown, query = '', headers: Headers = {}): Put =>
  (url, id) =>
    putStatus(url, id, body, headers, query);
const byQuery =
  (query: string, headers: Headers = {}): Put =>
  (url, id) =>
    changeStatusByQuery(url, id, query, headers);

/**
 * Bug (the forms): a status change by query was refused with 415 when the client named a type for the body that it did not
 * send, as clients for forms do. Cause: the type was judged by its name alone. Fix: a body that is empty is none.
 */
const TAKEN: readonly (readonly [how: string, status: Status, put: Put])[] = [
  ['from the body', 'FLAGGED', byBody({ status: 'FLAGGED' })],
  ['from the query, without a body', 'FLAGGED', byQuery('?newStatus=FLAGGED')],
  ['from the query, with an empty body that is called JSON', 'BLOCKED', byQuery('?newStatus=BLOCKED', JSON_TYPE)],
  [
    'from the query, with a form of no bytes',
    'FLAGGED',
    byQuery('?newStatus=FLAGGED', { ...FORM, 'Content-Length': '0' }),
  ],
  [
    'from the query, with no chunks',
    'FLAGGED',
    byQuery('?newStatus=FLAGGED', { ...FORM, 'Transfer-Encoding': 'chunked' }),
  ],
  ['from the query, with a type and nothing else', 'FLAGGED', byQuery('?newStatus=FLAGGED', FORM)],
  ['from both, when they say the same', 'COMPLETED', byBody({ status: 'COMPLETED' }, '?newStatus=COMPLETED')],
  ['beside unknown members', 'ON_HOLD', byBody({ status: 'ON_HOLD', amount: 1 }, '?verbose=1&status=FAILED')],
];

const REFUSED: readonly [what: string, put: Put, status?: number][] = [
  ['two statuses that differ', byBody({ status: 'BLOCKED' }, '?newStatus=FLAGGED')],
  ['two statuses in the query', byQuery('?newStatus=FLAGGED&newStatus=BLOCKED')],
  ['no status', byQuery('')],
  ['an empty status in the query', byQuery('?newStatus=')],
  ['an empty body that is called JSON', byQuery('', JSON_TYPE)],
  ['no member', byBody({})],
  ['a status that is no text', byBody('{"status":5}')],
  ['a status in an array', byBody('{"status":["FLAGGED"]}')],
  ['null for a status', byBody('{"status":null}')],
  ['the status twice', byBody('{"status":"FLAGGED","status":"FLAGGED"}')],
  ['the status twice, once with an escape', byBody('{"status":"FLAGGED","\\u0073tatus":"FLAGGED"}')],
  ['a status that only a prototype has', byBody('{"__proto__":{"status":"FLAGGED"}}')],
  ['an array', byBody('[{"status":"FLAGGED"}]')],
  ['null', byBody('null')],
  ['bare text', byBody('"FLAGGED"')],
  ['text that is not JSON', byBody('{"status":"FLAGGED"')],
  ['bytes that are not UTF-8', byBody(Buffer.from('{"status":"FLAGGED\xff"}', 'latin1'))],
  ['a body that is not called JSON', byBody({ status: 'FLAGGED' }, '', { 'Content-Type': 'text/plain' }), 415],
  ['a form that is not empty', byBody('newStatus=FLAGGED', '?newStatus=FLAGGED', FORM), 415],
];

describeDeployments('changing the status of a transaction', (deployment) => {
  const shared = shareService(deployment);

  /** The answer is the transaction with nothing but its status changed, and so is what is read afterwards. */
  async function expectChanged(answer: Answer, before: Transaction, status: Status): Promise<void> {
    const after = { ...before, status };
    expect(answer.status, answer.text).toBe(200);
    expect(answer.text).toBe(JSON.stringify(after));
    expect(answer.headers['content-type']).toMatch(/^application\/json\b/);
    expect(answer.headers.etag).toBe(quoted(transactionTag(after)));
    const read = await readTransaction(shared.url, before.transactionId);
    expect(read.text).toBe(answer.text);
    expect(read.headers.etag).toBe(answer.headers.etag);
  }

  async function expectUnchanged(before: Transaction): Promise<void> {
    expect((await readTransaction(shared.url, before.transactionId)).json()).toEqual(before);
  }

  it.each(TAKEN)('takes the new status %s', async (_how, status, put) => {
    const before = await givenTransaction(shared.url);
    await expectChanged(await put(shared.url, before.transactionId), before, status);
  });

  it.each(REFUSED)('refuses %s', async (_what, put, status = 400) => {
    const before = await givenTransaction(shared.url);
    expectError(await put(shared.url, before.transactionId), status);
    await expectUnchanged(before);
  });

  it.each(['DONE', 'flagged', ' FLAGGED', 'toString', '__proto__', ''])(
    'refuses the unknown status %j and names those that it knows',
    async (status) => {
      const before = await givenTransaction(shared.url);
      const query = `?newStatus=${encodeURIComponent(status || '?')}`;
      for (const put of [byBody({ status }), byQuery(query)]) {
        const answer = await put(shared.url, before.transactionId);
        for (const known of STATUSES) expectError(answer, 400, new RegExp(`\\b${known}\\b`));
      }
      await expectUnchanged(before);
    },
  );

  /** Decision T4. */
  describe('by the rules of moves', () => {
    it.each(MOVABLE_STATUSES)('may give a transaction that is %s every status', async (status) => {
      for (const next of STATUSES) {
        const before = await givenTransaction(shared.url, { status });
        await expectChanged(await changeStatus(shared.url, before.transactionId, next), before, next);
      }
    });

    it.each(FINAL_STATUSES)('leaves a transaction that is %s so; setting that again is no error', async (status) => {
      const before = await givenTransaction(shared.url, { status });
      for (const next of STATUSES.filter((other) => other !== status)) {
        expectError(await changeStatus(shared.url, before.transactionId, next), 409, new RegExp(status));
        expectError(await changeStatusByQuery(shared.url, before.transactionId, `?newStatus=${next}`), 409);
      }
      await expectUnchanged(before);
      await expectChanged(await changeStatus(shared.url, before.transactionId, status), before, status);
    });

    it('makes a transaction final by a move as well as by its creation', async () => {
      const before = await givenTransaction(shared.url);
      await changeStatus(shared.url, before.transactionId, 'COMPLETED');
      await changeStatus(shared.url, before.transactionId, 'CANCELLED');
      expectError(await changeStatus(shared.url, before.transactionId, 'COMPLETED'), 409, /CANCELLED/);
      await expectUnchanged({ ...before, status: 'CANCELLED' });
    });

    it('lets only those succeed of racing moves to final statuses that are to one status', async () => {
      for (let round = 0; round < 10; round += 1) {
        const { transactionId } = await givenTransaction(shared.url);
        const moves = Array.from({ length: 10 }, (_, n) => FINAL_STATUSES[n % 2] as Status);
        const answers = await Promise.all(moves.map((status) => changeStatus(shared.url, transactionId, status)));
        const { status: final } = (await readTransaction(shared.url, transactionId)).json<Transaction>();
        expect(answers.map(({ status }) => status)).toEqual(moves.map((status) => (status === final ? 200 : 409)));
      }
    });
  });
});
