import { describe, expect, it } from 'vitest';
import { expectNotModified, MATCHING_FORMS, OTHER_FORMS, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import {
  changeStatus,
  deleteTransaction,
  expectUnknownTransaction,
  FINAL_STATUSES,
  givenTransaction,
  MOVABLE_STATUSES,
  quoted,
  readTransaction,
  STATUSES,
  type Transaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const OTHER_TAG = '"0123456789abcdef0123456789abcdef"';
const UNKNOWN_ID = 999_999_999_999_999;

/** Forms of `If-Match` that hold, as RFC 9110 13.1.1 compares: strongly. */
const HOLDING: readonly [string, (tag: string) => string | string[]][] = [
  ['the tag', (tag) => `"${tag}"`],
  ['a list that ends with the tag', (tag) => `${OTHER_TAG}, "${tag}"`],
  ['a list that begins with the tag', (tag) => `"${tag}" ,W/"x", ""`],
  ['the strong tag beside the weak one', (tag) => `W/"${tag}", "${tag}"`],
  ['the header sent twice', (tag) => [OTHER_TAG, `"${tag}"`]],
  ['a star', () => '*'],
];

const FAILING: readonly [string, (tag: string) => string][] = [
  ['another tag', () => OTHER_TAG],
  ['a list without the tag', () => `${OTHER_TAG}, ""`],
  ['the weak tag, for the comparison is strong', (tag) => `W/"${tag}"`],
  ['the tag in capitals', (tag) => `"${tag.toUpperCase()}"`],
  ['a tag that holds it after a comma', (tag) => `"x,${tag}"`],
  ['the tag with only an opening quote', (tag) => `"${tag}`],
  ['a quoted star', () => '"*"'],
];

describeDeployments('the tag of one transaction', (deployment) => {
  const shared = shareService(deployment);

  it.each([
    { fromAccount: 'A', toAccount: 'B', amount: '100.50' },
    { fromAccount: 'A', toAccount: 'B', amount: '100' },
    { fromAccount: 'A', toAccount: 'B', amount: '100.0000' },
    { fromAccount: 'A', toAccount: 'B', amount: '0.0001' },
    { fromAccount: 'A', toAccount: 'B', amount: '0.0010' },
    { fromAccount: 'A', toAccount: 'B', amount: '12345678901.2345' },
    { fromAccount: 'A', toAccount: 'B', amount: '99999999999999.9' },
    { fromAccount: 'caf\u00e9 \u{1f600}', toAccount: 'cafe\u0301 "', amount: '7' },
  ])('is the md5 of its fields, the amount as its shortest decimal: %o', async (members) => {
    const created = await givenTransaction(shared.url, members);
    const first = await readTransaction(shared.url, created.transactionId);
    const second = await readTransaction(shared.url, created.transactionId);

    expect(tagOf(first)).toBe(transactionTag(created));
    expect(tagOf(second), 'the tag of a cached transaction').toBe(transactionTag(created));
    expect(first.headers['cache-control']).toBe('private, no-cache');
  });

  it('is another one for each status', async () => {
    const before = await givenTransaction(shared.url);
    const tags = new Set<string>();
    for (const status of [...MOVABLE_STATUSES, 'FAILED' as const]) {
      const changed = await changeStatus(shared.url, before.transactionId, status);
      expect(tagOf(changed)).toBe(transactionTag({ ...before, status }));
      expect(tagOf(await readTransaction(shared.url, before.transactionId))).toBe(tagOf(changed));
      tags.add(tagOf(changed));
    }
    expect(tags.size).toBe(STATUSES.length - 1);
  });

  describe('in If-None-Match', () => {
    it.each(MATCHING_FORMS)('named by %s gives 304', async (_name, make) => {
      const { id, tag } = await given();
      const condition = { 'If-None-Match': make(tag) };
      // Both from the store of record and from the cache.
      expectNotModified(await readTransaction(shared.url, id, condition), tag);
      expectNotModified(await readTransaction(shared.url, id, condition), tag);
      expectNotModified(await readTransaction(shared.url, id, condition, 'HEAD'), tag);
    });

    it.each(OTHER_FORMS)('not named by %s gives the transaction', async (_name, make) => {
      const { id, tag, created } = await given();
      for (let read = 0; read < 2; read++) {
        const answer = await readTransaction(shared.url, id, { 'If-None-Match': make(tag) });
        expect(answer.status).toBe(200);
        expect(answer.json()).toEqual(created);
        expect(tagOf(answer)).toBe(tag);
      }
    });

    it('gives the transaction again once its status has changed, and 304 once it has changed back', async () => {
      const { id, tag } = await given();
      const condition = { 'If-None-Match': quoted(tag) };
      await changeStatus(shared.url, id, 'FLAGGED');
      expect((await readTransaction(shared.url, id, condition)).status).toBe(200);
      await changeStatus(shared.url, id, 'PENDING');
      expectNotModified(await readTransaction(shared.url, id, condition), tag);
    });

    /** Bug: the change was made. Cause: the header was looked at by GET alone. Fix: it is judged where If-Match is. */
    it.each(MATCHING_FORMS)('refuses a status change and a delete with 412 when named by %s', async (_name, make) => {
      const { id, tag } = await given();
      const before = await readTransaction(shared.url, id);
      const condition = { 'If-None-Match': make(tag) };
      expectError(await changeStatus(shared.url, id, 'FLAGGED', condition), 412);
      expectError(await deleteTransaction(shared.url, id, condition), 412);
      expect((await readTransaction(shared.url, id)).text).toBe(before.text);
    });

    it.each(OTHER_FORMS)('lets a status change and a delete happen when not named by %s', async (_name, make) => {
      const { id, tag } = await given();
      const changed = await changeStatus(shared.url, id, 'FLAGGED', { 'If-None-Match': make(tag) });
      expect(changed.status).toBe(200);
      const deleted = await deleteTransaction(shared.url, id, { 'If-None-Match': make(tagOf(changed)) });
      expect(deleted.status).toBe(204);
    });

    it('refuses a change with 412 when it meets If-Match and not If-None-Match', async () => {
      const { id, tag } = await given();
      const both = { 'If-Match': quoted(tag), 'If-None-Match': quoted(tag) };
      expectError(await changeStatus(shared.url, id, 'FLAGGED', both), 412);
      const changed = await changeStatus(shared.url, id, 'FLAGGED', { ...both, 'If-None-Match': OTHER_TAG });
      expect(changed.status).toBe(200);
    });

    it.each(['*', OTHER_TAG])('gives 404 for an unknown id, whatever it names: %s', async (form) => {
      const condition = { 'If-None-Match': form };
      expectUnknownTransaction(await readTransaction(shared.url, UNKNOWN_ID, condition), UNKNOWN_ID);
      expectUnknownTransaction(await changeStatus(shared.url, UNKNOWN_ID, 'FLAGGED', condition), UNKNOWN_ID);
      expectUnknownTransaction(await deleteTransaction(shared.url, UNKNOWN_ID, condition), UNKNOWN_ID);
    });
  });

  describe('in If-Match', () => {
    it.each(HOLDING)('lets a status change and a delete happen when it is %s', async (_name, make) => {
      const { id, tag, created } = await given();

      const changed = await changeStatus(shared.url, id, 'FLAGGED', { 'If-Match': make(tag) });
      expect(changed.status).toBe(200);
      expect(changed.json()).toEqual({ ...created, status: 'FLAGGED' });
      const deleted = await deleteTransaction(shared.url, id, { 'If-Match': make(tagOf(changed)) });
      expect(deleted.status).toBe(204);
      expect((await readTransaction(shared.url, id)).status).toBe(404);
    });

    it.each(FAILING)('refuses both with 412 when it is %s, and nothing is changed', async (_name, make) => {
      const { id, tag } = await given();
      const before = await readTransaction(shared.url, id);
      const condition = { 'If-Match': make(tag) };

      expectError(await changeStatus(shared.url, id, 'FLAGGED', condition), 412);
      expectError(await deleteTransaction(shared.url, id, condition), 412);
      // Setting the status that it has would change nothing, and is refused all the same.
      expectError(await changeStatus(shared.url, id, 'PENDING', condition), 412);

      const after = await readTransaction(shared.url, id);
      expect(after.status).toBe(200);
      expect(after.text).toBe(before.text);
      expect(after.headers.etag).toBe(before.headers.etag);
    });

    it.each(HOLDING)('gives the transaction when it is %s', async (_name, make) => {
      const { id, tag, created } = await given();
      const condition = { 'If-Match': make(tag) };
      expect((await readTransaction(shared.url, id, condition)).json()).toEqual(created);
      expect((await readTransaction(shared.url, id, condition)).json()).toEqual(created);
      // RFC 9110 13.2.2: where it holds, If-None-Match is judged.
      const both = { ...condition, 'If-None-Match': quoted(tag) };
      expectNotModified(await readTransaction(shared.url, id, both), tag);
    });

    it.each(FAILING)('gives 412 and no transaction when it is %s', async (_name, make) => {
      const { id, tag } = await given();
      const condition = { 'If-Match': make(tag), 'If-None-Match': quoted(tag) };
      expectError(await readTransaction(shared.url, id, condition), 412);
      expect((await readTransaction(shared.url, id, condition, 'HEAD')).status).toBe(412);
    });

    it('refuses the tag of an earlier status, also when the cache has been asked for it', async () => {
      const { id, tag, created } = await given();
      await readTransaction(shared.url, id);
      const changed = await changeStatus(shared.url, id, 'FLAGGED');

      expectError(await changeStatus(shared.url, id, 'BLOCKED', { 'If-Match': quoted(tag) }), 412);
      expectError(await deleteTransaction(shared.url, id, { 'If-Match': quoted(tag) }), 412);
      expect((await readTransaction(shared.url, id)).json()).toEqual({ ...created, status: 'FLAGGED' });
      const retried = { 'If-Match': changed.headers.etag as string };
      expect((await changeStatus(shared.url, id, 'BLOCKED', retried)).status).toBe(200);
    });

    it('lets exactly one of many changes happen that were made on the same tag', async () => {
      for (let round = 0; round < 10; round++) {
        const { id, tag } = await given();
        const moves = [...MOVABLE_STATUSES.slice(1), ...FINAL_STATUSES];
        const condition = { 'If-Match': quoted(tag) };
        const answers = await Promise.all(moves.map((status) => changeStatus(shared.url, id, status, condition)));

        const won = answers.filter((answer) => answer.status === 200);
        expect(won).toHaveLength(1);
        for (const lost of answers.filter((answer) => answer !== won[0])) expectError(lost, 412);
        expect((await readTransaction(shared.url, id)).text).toBe(won[0]?.text);
      }
    });

    it('lets either a change or a delete happen that were made on the same tag, never both', async () => {
      for (let round = 0; round < 10; round++) {
        const { id, tag } = await given();
        const condition = { 'If-Match': quoted(tag) };
        const [changed, deleted] = await Promise.all([
          changeStatus(shared.url, id, 'FLAGGED', condition),
          deleteTransaction(shared.url, id, condition),
        ]);
        // The later of the two meets another tag, or nothing at all.
        expect(['200 412', '404 204']).toContain(`${changed.status} ${deleted.status}`);
        expect((await readTransaction(shared.url, id)).status).toBe(changed.status === 200 ? 200 : 404);
      }
    });

    it.each(['*', OTHER_TAG])('gives 404 for an unknown id, whatever it names: %s', async (form) => {
      expectUnknownTransaction(await changeStatus(shared.url, UNKNOWN_ID, 'FLAGGED', { 'If-Match': form }), UNKNOWN_ID);
      expectUnknownTransaction(await deleteTransaction(shared.url, UNKNOWN_ID, { 'If-Match': form }), UNKNOWN_ID);
      expectUnknownTransaction(await readTransaction(shared.url, UNKNOWN_ID, { 'If-Match': form }), UNKNOWN_ID);
    });
  });

  async function given(): Promise<{ id: number; tag: string; created: Transaction }> {
    const created = await givenTransaction(shared.url);
    return { id: created.transactionId, tag: transactionTag(created), created };
  }
});
