import { describe, expect, it } from 'vitest';
import { expectNotModified, MATCHING_FORMS, OTHER_FORMS, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import type { Answer } from '../../testkit/client/http-client.js';
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

type Headers = Record<string, string | string[]>;

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

const AMOUNTS = ['100.50', '100', '100.0000', '0.0001', '0.0010', '12345678901.2345', '99999999999999.9'];

describeDeployments('the tag of one transaction', (deployment) => {
  const shared = shareService(deployment);
  const read = (id: number, headers: Headers = {}, method = 'GET') => readTransaction(shared.url, id, headers, method);
  const change = (id: number, status: string, headers: Headers = {}) => changeStatus(shared.url, id, status, headers);
  const remove = (id: number, headers: Headers = {}) => deleteTransaction(shared.url, id, headers);

  async function given(): Promise<{ id: number; tag: string; created: Transaction }> {
    const created = await givenTransaction(shared.url);
    return { id: created.transactionId, tag: transactionTag(created), created };
  }

  /** A change and a delete with these conditions happen; `make` is given the tag of the moment. */
  async function expectApplied(make: (tag: string) => Headers): Promise<void> {
    const { id, tag, created } = await given();
    const changed = await change(id, 'FLAGGED', make(tag));
    expect(changed.status).toBe(200);
    expect(changed.json()).toEqual({ ...created, status: 'FLAGGED' });
    expect((await remove(id, make(tagOf(changed)))).status).toBe(204);
    expect((await read(id)).status).toBe(404);
  }

  async function expectRefused(make: (tag: string) => Headers): Promise<void> {
    const { id, tag } = await given();
    const before = await read(id);
    expectError(await change(id, 'FLAGGED', make(tag)), 412);
    // Setting the status that it has would change nothing, and is refused all the same.
    expectError(await change(id, 'PENDING', make(tag)), 412);
    expectError(await remove(id, make(tag)), 412);
    const after = await read(id);
    expect(after.text).toBe(before.text);
    expect(after.headers.etag).toBe(before.headers.etag);
  }

  it.each([
    ...AMOUNTS.map((amount) => ({ fromAccount: 'A', toAccount: 'B', amount })),
    { fromAccount: 'caf\u00e9 \u{1f600}', toAccount: 'cafe\u0301 "', amount: '7' },
  ])('is the md5 of its fields, the amount as its shortest decimal: %o', async (members) => {
    const created = await givenTransaction(shared.url, members);
    const first = await read(created.transactionId);
    expect(tagOf(first)).toBe(transactionTag(created));
    expect(first.headers['cache-control']).toBe('private, no-cache');
    expect(tagOf(await read(created.transactionId)), 'of a cached transaction').toBe(transactionTag(created));
  });

  it('is another one for each status', async () => {
    const { id, created } = await given();
    const tags = new Set<string>();
    for (const status of [...MOVABLE_STATUSES, 'FAILED' as const]) {
      const changed = await change(id, status);
      expect(tagOf(changed)).toBe(transactionTag({ ...created, status }));
      expect(tagOf(await read(id))).toBe(tagOf(changed));
      tags.add(tagOf(changed));
    }
    expect(tags.size).toBe(STATUSES.length - 1);
  });

  describe('in If-None-Match', () => {
    it.each(MATCHING_FORMS)('named by %s gives 304', async (_name, make) => {
      const { id, tag } = await given();
      const condition = { 'If-None-Match': make(tag) };
      // From the store of record, from the cache, and without a body.
      for (const method of ['GET', 'GET', 'HEAD']) expectNotModified(await read(id, condition, method), tag);
    });

    it.each(OTHER_FORMS)('not named by %s gives the transaction', async (_name, make) => {
      const { id, tag, created } = await given();
      for (let n = 0; n < 2; n++) {
        const answer = await read(id, { 'If-None-Match': make(tag) });
        expect(answer.status).toBe(200);
        expect(answer.json()).toEqual(created);
        expect(tagOf(answer)).toBe(tag);
      }
    });

    it('gives the transaction again once its status has changed, and 304 once it has changed back', async () => {
      const { id, tag } = await given();
      await change(id, 'FLAGGED');
      expect((await read(id, { 'If-None-Match': quoted(tag) })).status).toBe(200);
      await change(id, 'PENDING');
      expectNotModified(await read(id, { 'If-None-Match': quoted(tag) }), tag);
    });

    /** Bug: the change was made. Cause: the header was looked at by GET alone. Fix: it is judged where If-Match is. */
    it.each(MATCHING_FORMS)('refuses a status change and a delete with 412 when named by %s', (_name, make) =>
      expectRefused((tag) => ({ 'If-None-Match': make(tag) })),
    );

    it.each(OTHER_FORMS)('lets a status change and a delete happen when not named by %s', (_name, make) =>
      expectApplied((tag) => ({ 'If-None-Match': make(tag) })),
    );

    it('refuses a change with 412 when If-Match holds and it does not', async () => {
      await expectRefused((tag) => ({ 'If-Match': quoted(tag), 'If-None-Match': quoted(tag) }));
      await expectApplied((tag) => ({ 'If-Match': quoted(tag), 'If-None-Match': OTHER_TAG }));
    });
  });

  describe('in If-Match', () => {
    it.each(HOLDING)('lets a status change and a delete happen when it is %s', (_name, make) =>
      expectApplied((tag) => ({ 'If-Match': make(tag) })),
    );

    it.each(FAILING)('refuses both with 412 when it is %s, and nothing is changed', (_name, make) =>
      expectRefused((tag) => ({ 'If-Match': make(tag) })),
    );

    it.each(HOLDING)('gives the transaction when it is %s', async (_name, make) => {
      const { id, tag, created } = await given();
      const condition = { 'If-Match': make(tag) };
      for (let n = 0; n < 2; n++) expect((await read(id, condition)).json()).toEqual(created);
      // RFC 9110 13.2.2: where it holds, If-None-Match is judged.
      expectNotModified(await read(id, { ...condition, 'If-None-Match': quoted(tag) }), tag);
    });

    it.each(FAILING)('gives 412 and no transaction when it is %s', async (_name, make) => {
      const { id, tag } = await given();
      const condition = { 'If-Match': make(tag), 'If-None-Match': quoted(tag) };
      expectError(await read(id, condition), 412);
      expect((await read(id, condition, 'HEAD')).status).toBe(412);
    });

    it('refuses the tag of an earlier status, also when the cache has been asked for it', async () => {
      const { id, tag, created } = await given();
      await read(id);
      const changed = await change(id, 'FLAGGED');
      expectError(await change(id, 'BLOCKED', { 'If-Match': quoted(tag) }), 412);
      expectError(await remove(id, { 'If-Match': quoted(tag) }), 412);
      expect((await read(id)).json()).toEqual({ ...created, status: 'FLAGGED' });
      expect((await change(id, 'BLOCKED', { 'If-Match': changed.headers.etag as string })).status).toBe(200);
    });

    it('lets exactly one of many changes happen that were made on the same tag', async () => {
      for (let round = 0; round < 10; round++) {
        const { id, tag } = await given();
        const moves = [...MOVABLE_STATUSES.slice(1), ...FINAL_STATUSES];
        const answers = await Promise.all(moves.map((status) => change(id, status, { 'If-Match': quoted(tag) })));
        const won = answers.filter((answer) => answer.status === 200);
        expect(won).toHaveLength(1);
        for (const lost of answers.filter((answer) => answer !== won[0])) expectError(lost, 412);
        expect((await read(id)).text).toBe(won[0]?.text);
      }
    });

    it('lets either a change or a delete happen that were made on the same tag, never both', async () => {
      for (let round = 0; round < 10; round++) {
        const { id, tag } = await given();
        const condition = { 'If-Match': quoted(tag) };
        const [changed, deleted] = await Promise.all([change(id, 'FLAGGED', condition), remove(id, condition)]);
        // The later of the two meets another tag, or nothing at all.
        expect(['200 412', '404 204']).toContain(`${changed.status} ${deleted.status}`);
        expect((await read(id)).status).toBe(changed.status === 200 ? 200 : 404);
      }
    });
  });

  it.each(['If-Match', 'If-None-Match'])('in %s of an unknown id gives 404, whatever it is', async (name) => {
    for (const form of ['*', OTHER_TAG]) {
      const condition = { [name]: form };
      const sent: Promise<Answer>[] = [
        read(UNKNOWN_ID, condition),
        change(UNKNOWN_ID, 'FLAGGED', condition),
        remove(UNKNOWN_ID, condition),
      ];
      for (const answer of await Promise.all(sent)) expectUnknownTransaction(answer, UNKNOWN_ID);
    }
  });
});
