import {
  CancelledError,
  ConflictError,
  DeclinedError,
  Idempay,
  InvalidRequestError,
  isSamePayment,
  MismatchError,
  NotCancelledError,
  NotFoundError,
  OutOfTurnError,
  UnknownOutcomeError,
} from '@idempay/client';
import { describe, expect, test } from 'vitest';
import { UNKNOWN_KEY } from '../../testkit/client/payment-answers.js';
import { allOf, failureOf } from '../../testkit/client-library/scripted-fetch.js';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { setProcessorEnvironment } from '../../testkit/deployments/processor-environment.js';
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

  describe('payments by reference', () => {
    const environment = setProcessorEnvironment(deployment);

    test('two clicks on two servers, with nothing kept, are one charge', async () => {
      const { url } = await environment.serve();
      const order = { reference: 'order-17' };
      const servers = Array.from({ length: 8 }, () => new Idempay({ baseUrl: url }));
      const results = await Promise.all(servers.map(({ payments }) => payments.pay(PAYMENT, order)));
      expect(new Set(results.map(({ transactionId }) => transactionId)).size).toBe(1);
      expect(results.filter(({ replayed }) => !replayed).length).toBeLessThanOrEqual(1);
      const { payments } = new Idempay({ baseUrl: url });
      const again = await payments.pay(PAYMENT, order);
      expect(again).toMatchObject({ ...PAYMENT, replayed: true, key: results[0]?.key });
      expect(await environment.processor.chargesOf(again.key)).toHaveLength(1);
      const { transactionId } = again;
      expect(await payments.status(order)).toMatchObject({ ...order, attempt: 1, state: 'COMPLETED', transactionId });
      const other = payments.pay({ ...PAYMENT, amount: '7' }, order);
      expect(await failureOf(MismatchError, other)).toMatchObject({ ...order, attempt: 1 });
      expect(await failureOf(OutOfTurnError, payments.pay(PAYMENT, { ...order, attempt: 2 }))).toMatchObject({
        why: 'previous-completed',
      });
      expect(await failureOf(NotCancelledError, payments.cancel(order))).toMatchObject({ why: 'completed' });
    });

    test('a decline names the next attempt, which is paid or cancelled', async () => {
      const { url } = await environment.serve();
      const { payments } = new Idempay({ baseUrl: url });
      const order = { reference: 'order-18' };
      await environment.processor.behave({ declineRate: 1 });
      const first = await failureOf(DeclinedError, payments.pay(PAYMENT, order));
      expect(first).toMatchObject({ ...order, attempt: 1, nextAttempt: 2, reason: 'insufficient funds' });
      expect(await failureOf(DeclinedError, payments.pay(PAYMENT, order))).toMatchObject({ attempt: 1 });
      const absent = payments.pay(PAYMENT, { ...order, attempt: 3 });
      expect(await failureOf(OutOfTurnError, absent)).toMatchObject({ why: 'previous-absent' });
      await failureOf(DeclinedError, payments.pay(PAYMENT, { ...order, attempt: first.nextAttempt }));
      await environment.processor.behave({ declineRate: 0 });
      const superseded = await failureOf(OutOfTurnError, payments.pay(PAYMENT, order));
      expect(superseded).toMatchObject({ why: 'superseded', attempt: 1 });
      const late = await failureOf(NotCancelledError, payments.cancel({ ...order, attempt: 2 }));
      expect(late).toMatchObject({ why: 'declined', nextAttempt: 3 });
      const { key } = await payments.cancel({ ...order, attempt: late.nextAttempt });
      expect(await payments.cancel({ ...order, attempt: late.nextAttempt })).toEqual({ key });
      const closed = await failureOf(CancelledError, payments.pay(PAYMENT, { ...order, attempt: 3 }));
      expect(closed).toMatchObject({ ...order, attempt: 3, key });
      expect(await payments.status(order)).toMatchObject({ state: 'CANCELLED', attempt: 3 });
      expect(await payments.status({ ...order, attempt: 1 })).toMatchObject({ state: 'DECLINED' });
      const listed = await allOf(payments.list({ ...order, limit: 2 }));
      expect(listed.map(({ attempt, state }) => [attempt, state])).toEqual([
        [3, 'CANCELLED'],
        [2, 'DECLINED'],
        [1, 'DECLINED'],
      ]);
      await failureOf(NotFoundError, payments.status({ reference: 'order-19' }));
    });

    test('a key without a reference is cancelled too, and its payment is refused for ever', async () => {
      const { payments } = client();
      const { key } = await payments.pay(PAYMENT);
      expect(await failureOf(NotCancelledError, payments.cancel({ key }))).toMatchObject({ key, why: 'completed' });
      const unpaid = (await (await fetch(`${service.url}/api/server-generated/generate-key`)).json()) as string;
      expect(await payments.cancel({ key: unpaid })).toEqual({ key: unpaid });
      expect(await failureOf(CancelledError, payments.resume(unpaid, PAYMENT))).toMatchObject({ key: unpaid });
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
