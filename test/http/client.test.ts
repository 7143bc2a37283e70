import {
  ConflictError,
  Idempay,
  InvalidRequestError,
  isSamePayment,
  MismatchError,
  NotFoundError,
  UnknownOutcomeError,
} from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { allOf, failureOf } from '../../testkit/client-library/scripted-fetch.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { shareService } from '../../testkit/deployments/shared-service.js';

const PAYMENT = { amount: '100.50', currency: 'USD' };
const WANTED = { fromAccount: 'alice', toAccount: 'bob', amount: '12.34' };

describeDeployments('the client at the service', (deployment) => {
  const service = shareService(deployment, { PAYLOAD_MISMATCH: 'reject' });
  const client = () => new Idempay({ baseUrl: service.url });

  describe('payments', () => {
    test('are paid, resumed, read, listed and exported', async () => {
      const { payments } = client();
      await payments.prefetchKeys(3);
      const first = await payments.pay(PAYMENT);
      const again = await payments.resume(first.key, PAYMENT);
      expect(again).toEqual({ ...first, replayed: true });
      expect(isSamePayment(again, PAYMENT)).toBe(true);
      const shown = await payments.get(first.key);
      expect(shown).toMatchObject({ state: 'COMPLETED', ...PAYMENT, transactionId: first.transactionId });
      expect(await payments.get(first.key), 'by its tag').toBe(shown);
      const others = [await payments.pay(PAYMENT), await payments.pay(PAYMENT)];
      const keys = [first, ...others].map(({ key }) => key);
      const listed = await allOf(payments.list({ state: 'COMPLETED', limit: 2 }));
      expect(listed.map(({ idempotencyKey }) => idempotencyKey)).toEqual([...keys].sort().reverse());
      expect((await allOf(payments.list({ limit: 2 }).pages())).map(({ length }) => length)).toEqual([2, 1]);
      const exported = await allOf(payments.export(new Date().toISOString().slice(0, '2026-11-25'.length)));
      expect(exported.map(({ idempotencyKey }) => idempotencyKey).sort()).toEqual([...keys].sort());
    });

    test('that cannot be paid say why', async () => {
      const { payments } = client();
      for (const wrong of [
        { amount: '1.234', currency: 'EUR' },
        { amount: '-1', currency: 'EUR' },
        { amount: '1', currency: 'XXX' },
        { amount: '0', currency: 'EUR' },
        { amount: '1'.repeat(16), currency: 'EUR' },
      ]) {
        const error = await failureOf(InvalidRequestError, payments.pay(wrong));
        // By this the client knows that the content is meant, and no attempt can have paid it.
        expect(error.message).toMatch(/^'(amount|currency)'/);
        expect(error.requestId).toMatch(/\S/);
      }
      const { key } = await payments.pay(PAYMENT);
      const mismatch = payments.resume(key, { amount: '7', currency: 'EUR' });
      expect(await failureOf(MismatchError, mismatch)).toMatchObject({ key, status: 422 });
      const unknown = await failureOf(UnknownOutcomeError, payments.resume(UNKNOWN_KEY, PAYMENT));
      expect(unknown.record).toBeNull();
      await failureOf(NotFoundError, payments.get(UNKNOWN_KEY));
      const late = payments.resolve(key, { outcome: 'declined', reason: 'on the statement' });
      await failureOf(ConflictError, late);
    });
  });

  describe('transactions', () => {
    test('are created once for each key, alone and in batches', async () => {
      const { transactions } = client();
      const first = await transactions.create(WANTED, { idempotencyKey: 'one' });
      const again = await transactions.create(WANTED, { idempotencyKey: 'one' });
      expect([first.replayed, again]).toEqual([false, { ...first, replayed: true }]);
      const other = transactions.create({ ...WANTED, amount: '1' }, { idempotencyKey: 'one' });
      expect(await failureOf(MismatchError, other)).toMatchObject({ key: 'one' });
      const rows = Array.from({ length: 1_000 }, (_, index) => ({ ...WANTED, fromAccount: `batch ${index}` }));
      const batch = await transactions.createBatch(rows, { idempotencyKey: 'one' });
      expect(batch.transactions.map(({ fromAccount }) => fromAccount)).toEqual(
        rows.map(({ fromAccount }) => fromAccount),
      );
      const repeat = await transactions.createBatch(rows, { idempotencyKey: 'one' });
      expect(repeat).toEqual({ ...batch, replayed: true });
      const wrong = transactions.createBatch([WANTED, { ...WANTED, amount: '0' }]);
      expect((await failureOf(InvalidRequestError, wrong)).message).toMatch(/^transactions\[1\]: 'amount'/);
      const listed = await allOf(transactions.list({ to: 'bob' }));
      expect(listed.map(({ transactionId }) => transactionId)).toEqual(await transactions.ids({ to: 'bob' }));
      expect(listed.length).toBe(1_001);
    });

    test('are changed and removed only as they were read', async () => {
      const { transactions } = client();
      const { transactions: others } = client();
      const { transaction } = await transactions.create({ ...WANTED, fromAccount: 'carol' });
      expect(await transactions.get(transaction.transactionId), 'by its tag').toBe(transaction);
      const flagged = await others.changeStatus(transaction.transactionId, 'FLAGGED');
      await failureOf(ConflictError, transactions.changeStatus(transaction, 'ON_HOLD'));
      await failureOf(ConflictError, transactions.remove(transaction));
      const read = await transactions.get(transaction.transactionId);
      expect(read).toEqual(flagged);
      const ifMatch = transactions.tagOf(read);
      await others.remove(read.transactionId, { ifMatch });
      await failureOf(NotFoundError, transactions.changeStatus(read, 'ON_HOLD'));
      await failureOf(NotFoundError, transactions.get(read.transactionId));
    });
  });

  test('without a service there, nothing was charged', async () => {
    const nobody = new Idempay({ baseUrl: 'http://127.0.0.1:9', deadlineMs: 500 });
    const error = await nobody.payments.pay(PAYMENT).catch((fault: unknown) => fault);
    expect(error).toMatchObject({ name: 'UnavailableError' });
  });
});
