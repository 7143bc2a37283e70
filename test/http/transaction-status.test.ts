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
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

describeDeployments('changing the status of a transaction', (deployment) => {
  const shared = shareService(deployment);

  /** The answer is the transaction with nothing but its status changed, and so is what is read afterwards. */
  async function expectChanged(answer: Answer, before: Transaction, status: Transaction['status']): Promise<void> {
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
    const read = await readTransaction(shared.url, before.transactionId);
    expect(read.json()).toEqual(before);
  }

  describe('takes the new status', () => {
    it('from the body', async () => {
      const before = await givenTransaction(shared.url);
      await expectChanged(await putStatus(shared.url, before.transactionId, { status: 'FLAGGED' }), before, 'FLAGGED');
    });

    it('from the query, without a body', async () => {
      const before = await givenTransaction(shared.url);
      const answer = await changeStatusByQuery(shared.url, before.transactionId, '?newStatus=FLAGGED');
      await expectChanged(answer, before, 'FLAGGED');
    });

    it('from the query, with an empty body that is called JSON', async () => {
      const before = await givenTransaction(shared.url);
      const headers = { 'Content-Type': 'application/json' };
      const answer = await changeStatusByQuery(shared.url, before.transactionId, '?newStatus=BLOCKED', headers);
      await expectChanged(answer, before, 'BLOCKED');
    });

    it('from both, when they say the same', async () => {
      const before = await givenTransaction(shared.url);
      const body = { status: 'COMPLETED' };
      const answer = await putStatus(shared.url, before.transactionId, body, {}, '?newStatus=COMPLETED');
      await expectChanged(answer, before, 'COMPLETED');
    });

    it('and ignores members and query parameters that it does not know', async () => {
      const before = await givenTransaction(shared.url);
      const body = { status: 'ON_HOLD', amount: 1, transactionId: 5 };
      const answer = await putStatus(shared.url, before.transactionId, body, {}, '?verbose=1&status=FAILED');
      await expectChanged(answer, before, 'ON_HOLD');
    });
  });

  describe('refuses', () => {
    it('two statuses that differ', async () => {
      const before = await givenTransaction(shared.url);
      const body = { status: 'BLOCKED' };
      expectError(await putStatus(shared.url, before.transactionId, body, {}, '?newStatus=FLAGGED'), 400);
      expectError(
        await changeStatusByQuery(shared.url, before.transactionId, '?newStatus=FLAGGED&newStatus=BLOCKED'),
        400,
      );
      await expectUnchanged(before);
    });

    it('a request that names no status', async () => {
      const before = await givenTransaction(shared.url);
      const headers = { 'Content-Type': 'application/json' };
      expectError(await changeStatusByQuery(shared.url, before.transactionId, ''), 400);
      expectError(await changeStatusByQuery(shared.url, before.transactionId, '?newStatus='), 400);
      expectError(await changeStatusByQuery(shared.url, before.transactionId, '', headers), 400);
      expectError(await putStatus(shared.url, before.transactionId, {}), 400);
      await expectUnchanged(before);
    });

    it.each(['DONE', 'flagged', ' FLAGGED', 'toString', '__proto__', ''])(
      'the unknown status "%s", naming those it knows',
      async (status) => {
        const before = await givenTransaction(shared.url);
        const byBody = await putStatus(shared.url, before.transactionId, { status });
        const query = `?newStatus=${encodeURIComponent(status || '?')}`;
        const byQuery = await changeStatusByQuery(shared.url, before.transactionId, query);
        for (const known of STATUSES) {
          expectError(byBody, 400, new RegExp(`\\b${known}\\b`));
          expectError(byQuery, 400, new RegExp(`\\b${known}\\b`));
        }
        await expectUnchanged(before);
      },
    );

    it.each([
      ['a status that is no text', '{"status":5}'],
      ['a status in an array', '{"status":["FLAGGED"]}'],
      ['null for a status', '{"status":null}'],
      ['the status twice', '{"status":"FLAGGED","status":"FLAGGED"}'],
      ['the status twice, once spelled with an escape', '{"status":"FLAGGED","\\u0073tatus":"FLAGGED"}'],
      ['a status that only a prototype has', '{"__proto__":{"status":"FLAGGED"}}'],
      ['an array', '[{"status":"FLAGGED"}]'],
      ['null', 'null'],
      ['bare text', '"FLAGGED"'],
      ['text that is not JSON', '{"status":"FLAGGED"'],
      ['bytes that are not UTF-8', Buffer.from('{"status":"FLAGGED\xff"}', 'latin1')],
    ])('%s as a body', async (_what, body) => {
      const before = await givenTransaction(shared.url);
      expectError(await putStatus(shared.url, before.transactionId, body), 400);
      await expectUnchanged(before);
    });

    it('a body that is not called JSON', async () => {
      const before = await givenTransaction(shared.url);
      const headers = { 'Content-Type': 'text/plain' };
      expectError(await putStatus(shared.url, before.transactionId, { status: 'FLAGGED' }, headers), 415);
      await expectUnchanged(before);
    });
  });

  describe('by the rules of moves', () => {
    it.each(MOVABLE_STATUSES)('a transaction that is %s may take every status', async (status) => {
      for (const next of STATUSES) {
        const before = await givenTransaction(shared.url, { status });
        await expectChanged(await changeStatus(shared.url, before.transactionId, next), before, next);
      }
    });

    it.each(FINAL_STATUSES)('a transaction that is %s stays so, and setting that again is no error', async (status) => {
      const before = await givenTransaction(shared.url, { status });
      for (const next of STATUSES.filter((other) => other !== status)) {
        expectError(await changeStatus(shared.url, before.transactionId, next), 409, new RegExp(status));
        expectError(await changeStatusByQuery(shared.url, before.transactionId, `?newStatus=${next}`), 409);
        await expectUnchanged(before);
      }
      await expectChanged(await changeStatus(shared.url, before.transactionId, status), before, status);
    });

    it('a transaction becomes final by a move as well as by its creation', async () => {
      const before = await givenTransaction(shared.url);
      await changeStatus(shared.url, before.transactionId, 'COMPLETED');
      await changeStatus(shared.url, before.transactionId, 'CANCELLED');

      expectError(await changeStatus(shared.url, before.transactionId, 'COMPLETED'), 409, /CANCELLED/);
      await expectUnchanged({ ...before, status: 'CANCELLED' });
    });

    it('of many moves to final statuses that race, only those to one status succeed', async () => {
      for (let round = 0; round < 10; round++) {
        const { transactionId } = await givenTransaction(shared.url);
        const moves = Array.from({ length: 10 }, (_, n) => FINAL_STATUSES[n % 2] as string);
        const answers = await Promise.all(moves.map((status) => changeStatus(shared.url, transactionId, status)));

        const { status: final } = (await readTransaction(shared.url, transactionId)).json<Transaction>();
        answers.forEach((answer, n) => {
          expect(answer.status).toBe(moves[n] === final ? 200 : 409);
        });
      }
    });
  });
});
