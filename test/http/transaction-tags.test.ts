import { expect, it } from 'vitest';
import { expectNotModified, MATCHING_FORMS, OTHER_FORMS, tagOf } from '../../testkit/client/entity-tags.js';
import { expectError } from '../../testkit/client/error-body.js';
import {
  changeStatus,
  deleteTransaction,
  expectUnknownTransaction,
  givenTransaction,
  quoted,
  readTransaction,
  transactionTag,
} from '../../testkit/client/transactions.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

type Conditions = Record<string, string | string[]>;

const OTHER_TAG = '"0123456789abcdef0123456789abcdef"';
const UNKNOWN_ID = 999_999_999_999_999;

/** Conditions on a change, a delete and, of If-Match, a read: RFC 9110 13.1.1 compares strongly, 13.1.2 weakly. */
const HOLDING: readonly [what: string, make: (tag: string) => Conditions][] = [
  ['If-Match: the tag', (tag) => ({ 'If-Match': quoted(tag) })],
  ['If-Match: the strong tag beside the weak one', (tag) => ({ 'If-Match': `W/"${tag}", "${tag}"` })],
  ['If-Match, sent twice', (tag) => ({ 'If-Match': [OTHER_TAG, quoted(tag)] })],
  ['If-Match: a star', () => ({ 'If-Match': '*' })],
  ['If-None-Match: another tag', () => ({ 'If-None-Match': OTHER_TAG })],
  ['both, for the tag and for another', (tag) => ({ 'If-Match': quoted(tag), 'If-None-Match': OTHER_TAG })],
];

/** Bug (If-None-Match): the change was made. Cause: only GET looked at the header. Fix: it is judged where If-Match is. */
const FAILING: readonly [what: string, make: (tag: string) => Conditions][] = [
  ['If-Match: another tag', () => ({ 'If-Match': OTHER_TAG })],
  ['If-Match: the weak tag', (tag) => ({ 'If-Match': `W/"${tag}"` })],
  ['If-None-Match: the tag', (tag) => ({ 'If-None-Match': quoted(tag) })],
  ['If-None-Match: the weak tag', (tag) => ({ 'If-None-Match': `W/"${tag}"` })],
  ['If-None-Match, sent twice', (tag) => ({ 'If-None-Match': [OTHER_TAG, quoted(tag)] })],
  ['If-None-Match: a star', () => ({ 'If-None-Match': '*' })],
  ['both, for the tag', (tag) => ({ 'If-Match': quoted(tag), 'If-None-Match': quoted(tag) })],
];

describeDeployments('the tag of one transaction', (deployment) => {
  const shared = shareService(deployment);
  const read = (id: number, headers: Conditions = {}, method = 'GET') =>
    readTransaction(shared.url, id, headers, method);
  const change = (id: number, status: string, headers: Conditions = {}) =>
    changeStatus(shared.url, id, status, headers);
  const remove = (id: number, headers: Conditions = {}) => deleteTransaction(shared.url, id, headers);

  async function given(members = {}) {
    const created = await givenTransaction(shared.url, members);
    return { id: created.transactionId, tag: transactionTag(created), created };
  }

  it.each([
    ...['100.50', '100.0000', '0.0010', '12345678901.2345', '99999999999999.9'].map((amount) => ({ amount })),
    { fromAccount: 'caf\u00e9 \u{1f600}', toAccount: 'cafe\u0301 "', amount: '7' },
  ])('is the md5 of its fields, the amount as its shortest decimal: %o', async (members) => {
    const { id, tag } = await given(members);
    // From the store of record, then from the cache.
    for (let n = 0; n < 2; n++) {
      const answer = await read(id);
      expect(tagOf(answer)).toBe(tag);
      expect(answer.headers['cache-control']).toBe('private, no-cache');
    }
  });

  it.each(MATCHING_FORMS)('gives 304 when If-None-Match names it by %s', async (_name, make) => {
    const { id, tag } = await given();
    for (const method of ['GET', 'GET', 'HEAD']) {
      expectNotModified(await read(id, { 'If-None-Match': make(tag) }, method), tag);
    }
  });

  it.each(OTHER_FORMS)('gives the transaction when If-None-Match has %s', async (_name, make) => {
    const { id, tag, created } = await given();
    const answer = await read(id, { 'If-None-Match': make(tag) });
    expect([answer.status, answer.json(), tagOf(answer)]).toEqual([200, created, tag]);
  });

  it('is another one while the status is another, and the same again once it has changed back', async () => {
    const { id, tag } = await given();
    await change(id, 'FLAGGED');
    expect((await read(id, { 'If-None-Match': quoted(tag) })).status).toBe(200);
    await change(id, 'PENDING');
    expectNotModified(await read(id, { 'If-None-Match': quoted(tag) }), tag);
  });

  it.each(HOLDING)('lets a change, a delete and a read happen under %s', async (_what, make) => {
    const { id, tag, created } = await given();
    expect((await read(id, make(tag))).json()).toEqual(created);
    const changed = await change(id, 'FLAGGED', make(tag));
    expect([changed.status, changed.json()]).toEqual([200, { ...created, status: 'FLAGGED' }]);
    expect((await remove(id, make(tagOf(changed)))).status).toBe(204);
    expect((await read(id)).status).toBe(404);
  });

  it.each(FAILING)('refuses a change and a delete with 412 under %s, and nothing is changed', async (_what, make) => {
    const { id, tag } = await given();
    const before = await read(id);
    // Setting the status that it has would change nothing, and is refused all the same.
    for (const status of ['FLAGGED', 'PENDING']) expectError(await change(id, status, make(tag)), 412);
    expectError(await remove(id, make(tag)), 412);
    const after = await read(id);
    expect([after.text, after.headers.etag]).toEqual([before.text, before.headers.etag]);
  });

  it('refuses a read with 412 when If-Match fails; where it holds, If-None-Match is judged', async () => {
    const { id, tag } = await given();
    for (const form of [OTHER_TAG, `W/"${tag}"`]) {
      const conditions = { 'If-Match': form, 'If-None-Match': quoted(tag) };
      expectError(await read(id, conditions), 412);
      expect((await read(id, conditions, 'HEAD')).status).toBe(412);
    }
    expectNotModified(await read(id, { 'If-Match': quoted(tag), 'If-None-Match': quoted(tag) }), tag);
  });

  it('of an earlier status is refused, also when the cache has been asked for it', async () => {
    const { id, tag, created } = await given();
    await read(id);
    const changed = await change(id, 'FLAGGED');
    expectError(await change(id, 'BLOCKED', { 'If-Match': quoted(tag) }), 412);
    expectError(await remove(id, { 'If-Match': quoted(tag) }), 412);
    expect((await read(id)).json()).toEqual({ ...created, status: 'FLAGGED' });
    expect((await change(id, 'BLOCKED', { 'If-Match': changed.headers.etag as string })).status).toBe(200);
  });

  it.each(['If-Match', 'If-None-Match'])('in %s of an unknown id gives 404, whatever it is', async (name) => {
    for (const form of ['*', OTHER_TAG]) {
      const condition = { [name]: form };
      const sent = [
        read(UNKNOWN_ID, condition),
        change(UNKNOWN_ID, 'FLAGGED', condition),
        remove(UNKNOWN_ID, condition),
      ];
      for (const answer of await Promise.all(sent)) expectUnknownTransaction(answer, UNKNOWN_ID);
    }
  });
});
