import { expect, test } from 'vitest';
import type { ClaimAttempt } from '#idempay/payments/ports/ledger.js';
import { type Content, MOST_RETURN_URL, MOST_SOURCE } from '#idempay/payments/values/content.js';
import {
  cancellation,
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newOwner,
  newProcessorName,
  newReference,
  SHORT_MS,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import type { ContractPorts } from '../../testkit/protocol/ports.js';

/** Parts that change on their way through a database, if anything does: order, spaces, escapes, names that objects have. */
const CONTENT: Content = {
  source: 'tok_!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~',
  description: ' Shoes \u{1f45f}\n\t\u0001 \'"\\ é e\u0301 \u2028 ',
  metadata: JSON.parse('{"b":"","a":"1","__proto__":"text","Ünï":"\\u007f \\" \\\\","constructor":"x"}'),
  returnUrl: 'https://shop.example/back?order=1%202&a=!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~',
};
const OTHER: Content = {
  ...{ source: 'tok_other', description: 'Other shoes', metadata: { other: 'yes' } },
  returnUrl: 'https://other.example/',
};

/**
 * Guarantees of every Ledger on the content of charges, beyond its types (rule P19):
 *  1. A claim, and each takeover of its row, has the content of the first claim, character for character, whatever came later.
 *  2. A row that is not final keeps it, also one that is given up. 3. The description and the metadata stay in the record.
 *  4. Claims with and without content, and with and without a reference, that arrive together do not change each other.
 *  5. `payerOf` has the source and the return address of a payment that is not final, and of no other.
 *  `adapters/sources-at-the-end` tests that the source is erased with the end of a payment.
 */
export function ledgerContentContract(ports: ContractPorts): void {
  const { ledger, paymentHistory: history, pass } = ports;
  const given = paymentSteps(ports);
  const turn = turnsOf(ports.id);
  const claim = (members: Partial<ClaimAttempt>) => ledger.claim(claimAttempt(members));

  test('1: the claim of a new row has the content that came with it, and the order', async () => {
    const plain = await given.claim({ content: CONTENT });
    expect(plain).toMatchObject({ content: CONTENT });
    expect(JSON.stringify(plain.content)).toBe(JSON.stringify(CONTENT));
    const text = newReference();
    expect(await given.claim({ ...turn(text), content: CONTENT })).toMatchObject({ reference: text, content: CONTENT });
    expect((await given.claim()).content).toBeUndefined();
  });

  test('1: each takeover has the content of the first claim, whatever the repeats say', async () => {
    const text = newReference();
    const first = await given.claim({ ...turn(text), content: CONTENT, leaseMs: SHORT_MS });
    await pass(SHORT_MS);
    const second = inState(await claim({ ...turn(text), content: OTHER, leaseMs: SHORT_MS }), 'taken over').claim;
    expect(second).toMatchObject({ key: first.key, reference: text });
    await pass(SHORT_MS);
    const third = await given.takeover(second);
    for (const { content } of [second, third]) expect(JSON.stringify(content)).toBe(JSON.stringify(CONTENT));
  });

  test('1: a takeover by recovery has the content, and a row without content gets none later', async () => {
    const processor = newProcessorName();
    const [with_, without] = [
      await given.abandoned({ processor, content: CONTENT }),
      await given.abandoned({ processor }),
    ];
    const takeover = { owner: newOwner(), leaseMs: SHORT_MS, processor, first: 'longest due', limit: 10 } as const;
    const taken = await ledger.takeOverDue(takeover);
    const contentOf = (key: string) => taken.find((one) => one.key === key)?.content;
    expect(JSON.stringify(contentOf(with_.key))).toBe(JSON.stringify(CONTENT));
    expect([taken.length, contentOf(without.key)]).toEqual([2, undefined]);
    await pass(SHORT_MS);
    const later = inState(await claim({ key: without.key, processor, content: OTHER }), 'taken over').claim;
    expect(later.content).toBeUndefined();
  });

  test('2: a payment that is given up keeps its content', async () => {
    const { key } = await given.abandoned({ content: CONTENT }, LONG_MS, 'unsent');
    const taken = inState(await claim({ key, content: OTHER }), 'taken over').claim;
    expect(JSON.stringify(taken.content)).toBe(JSON.stringify(CONTENT));
  });

  test('3: description and metadata stay in the record, however it ends; the source is in none', async () => {
    const { source, returnUrl, ...kept } = CONTENT;
    const settleAs = { outcome: completed({ transactionId: 'TXN1' }), idempotencyTtlMs: LONG_MS };
    const [open, paid, declined] = await given.claims(3, { content: CONTENT });
    const resolved = await given.abandoned({ content: CONTENT });
    if (paid) await given.settled(paid);
    if (declined) await given.settled(declined, { outcome: DECLINED });
    await given.resolve(resolved.key);
    const attempt = claimAttempt({ content: CONTENT, settleAs });
    inState(await ledger.claim(attempt), 'settled');
    for (const { key } of [open, paid, declined, resolved, attempt].flatMap((one) => one ?? [])) {
      const record = await history.find(key);
      expect(JSON.stringify([record?.description, record?.metadata])).toBe(
        JSON.stringify([kept.description, kept.metadata]),
      );
      const life = JSON.stringify(await history.findLife(key));
      for (const erased of [source, returnUrl]) expect(life).not.toContain(JSON.stringify(erased).slice(1, -1));
    }
    const closed = cancellation();
    inState(await ledger.cancel(closed), 'cancelled');
    expect(await history.find(closed.key)).toMatchObject({ description: undefined, metadata: undefined });
  });

  test('4: claims of every kind that arrive together each keep their own content, also in their rows', async () => {
    const kinds = Array.from({ length: 60 }, (_, n) => ({
      ...(n % 2 === 0 && turn(newReference())),
      ...(n % 3 === 0 && { content: { source: `tok_${n}`, description: `Item ${n}` } }),
      ...(n % 7 === 0 && { content: { returnUrl: `https://shop.example/${n}` } }),
      ...(n % 5 === 0 && { settleAs: { outcome: completed({ transactionId: `TXN${n}` }), idempotencyTtlMs: LONG_MS } }),
      leaseMs: SHORT_MS,
    })).map(claimAttempt);
    const results = await Promise.all(kinds.map((kind) => ledger.claim(kind)));
    for (const [n, { key, content, turn: its, settleAs }] of kinds.entries()) {
      const record = await history.find(key);
      expect(record).toMatchObject({ description: content?.description, reference: its?.reference.text });
      const result = results[n];
      if (settleAs) expect(result).toMatchObject({ state: 'settled' });
      else expect(result).toMatchObject({ state: 'claimed', claim: { content } });
    }
    await pass(SHORT_MS);
    for (const [n, result] of results.entries()) {
      if (result?.state !== 'claimed') continue;
      const taken = await given.takeover(result.claim);
      expect(JSON.stringify(taken.content)).toBe(JSON.stringify(kinds[n]?.content));
      expect(taken.reference).toBe(kinds[n]?.turn?.reference.text);
    }
  });

  test('5: the source is known until the payment is final, whoever has it', async () => {
    const [paid, resolved] = [await given.claim({ content: CONTENT }), await given.abandoned({ content: CONTENT })];
    const without = await given.claim({ content: { description: 'Hat' } });
    for (const { key } of [paid, resolved])
      expect(await ledger.payerOf(key)).toEqual({ source: CONTENT.source, returnUrl: CONTENT.returnUrl });
    await given.settled(paid);
    await given.resolve(resolved.key);
    for (const { key } of [paid, resolved, without, claimAttempt()]) expect(await ledger.payerOf(key)).toBeUndefined();
  });

  test('1, 5: a source and an address to return to are kept without each other, and the source is never the address', async () => {
    const returnUrl = `https://shop.example/${'x'.repeat(MOST_RETURN_URL - 'https://shop.example/'.length)}`;
    const contents: readonly Content[] = [
      { source: 'tok_1', returnUrl },
      { returnUrl },
      { source: 'x'.repeat(MOST_SOURCE), returnUrl },
      { source: 'x'.repeat(MOST_SOURCE) },
    ];
    for (const content of contents) {
      const claim = await given.abandoned({ content });
      expect(await ledger.payerOf(claim.key)).toEqual(content);
      expect((await given.takeover(claim)).content).toEqual(content);
    }
  });
}
