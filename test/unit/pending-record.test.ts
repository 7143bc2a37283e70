import { pino } from 'pino';
import { expect, test } from 'vitest';
import { createListener } from '#idempay/http/connections/listener.js';
import { createPendingRecord } from '#idempay/http/payments/payment-answers.js';
import { createServer, type Features } from '#idempay/http/server.js';
import type { PendingAnswer } from '#idempay/payments/answers.js';
import { StoreUnavailable } from '#idempay/platform/faults.js';

const DOWN = new StoreUnavailable('unchanged', 'the store is down');
const KEY = '019b0000-0000-7000-8000-000000000000';
const PENDING = { payment: { key: 'k', untilMs: 0 }, action: undefined } as unknown as PendingAnswer;

/**
 * Bug: a program was told that its request changed nothing after the charge was sent. Cause: the record of the pending payment could not be read.
 * Fix: a read that follows a write says that the request may have been carried out.
 */
test('a record that cannot be read does not say that nothing was changed', async () => {
  const read = createPendingRecord(() => Promise.reject(DOWN));
  await expect(read(PENDING, undefined)).rejects.toMatchObject({ effect: 'unknown', cause: DOWN });
  const fault = new Error('another fault');
  await expect(createPendingRecord(() => Promise.reject(fault))(PENDING, undefined)).rejects.toBe(fault);
});

/** The same of a pending refund: whoever believes it gives the money back by hand, too. */
test('a refund whose record cannot be read is not said to have changed nothing', async () => {
  const silent = pino({ level: 'silent' });
  const rules = { access: undefined, loopbackOnly: false, trustedNetworks: undefined };
  const pending = { state: 'pending', key: 'r', payment: KEY, untilMs: 0, retryAfterSeconds: 5 };
  const features = {
    payments: { refund: async () => pending },
    paymentRecords: { findOperation: () => Promise.reject(DOWN) },
    readiness: { isDraining: false },
  } as unknown as Features;
  const server = createServer(createListener(silent), features, rules, silent, () => {});
  const headers = { 'idempotency-key': KEY };
  const payload = { amount: '1.00', currency: 'USD' };
  const answer = await server.inject({ method: 'POST', url: '/api/refund?refund=line-1', headers, payload });
  expect([answer.statusCode, answer.json().message]).toEqual([503, expect.not.stringContaining('nothing was changed')]);
  expect(answer.json().message).toContain('same name');
});
