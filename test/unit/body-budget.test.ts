import { expect, test } from 'vitest';
import { ArrivingBody } from '#idempay/http/requests/arriving-body.js';
import { type BodyBudget, ByteBudget, createBodyBudget } from '#idempay/limits/byte-budget.js';

const PAYMENT = 16 * 1024;
const BATCH = 1024 * 1024;

const arriving = (budget: BodyBudget, client: string, isPayment = false) =>
  new ArrivingBody(budget, { isPayment, limitBytes: isPayment ? PAYMENT : BATCH, client: () => client });

/** Bodies of this length that the client can have at once. */
function bodiesOf(budget: BodyBudget, client: string, bytes: number, isPayment = false): ArrivingBody[] {
  const bodies: ArrivingBody[] = [];
  for (;;) {
    const body = arriving(budget, client, isPayment);
    if (body.add(Buffer.alloc(bytes))) {
      body.release();
      return bodies;
    }
    bodies.push(body);
  }
}

test('one client has an eighth of what is not for payments, and eight have all of it', () => {
  const budget = createBodyBudget();
  const bodies = Array.from({ length: 8 }, (_, index) => bodiesOf(budget, `client ${index}`, BATCH));
  expect(bodies.map(({ length }) => length)).toEqual(Array(8).fill(budget.others.most / 8 / BATCH));
  expect(bodiesOf(budget, 'another client', 1)).toHaveLength(0);

  bodies[0]?.[0]?.release();
  expect(bodiesOf(budget, 'another client', BATCH)).toHaveLength(1);
  expect(budget.others.mostOfClient).toBeGreaterThanOrEqual(BATCH);
});

test('a thousand whole payments have room, however much the others have', () => {
  const budget = createBodyBudget();
  for (let client = 0; client < 8; client += 1) bodiesOf(budget, `client ${client}`, BATCH);
  expect(bodiesOf(budget, 'a payer', PAYMENT, true)).toHaveLength(1_000);
});

test('a client that fills the part of payments keeps no other payer out', () => {
  const budget = createBodyBudget();
  const bodies = bodiesOf(budget, 'attacker', PAYMENT, true);
  expect(bodies).toHaveLength(1_000 + budget.others.mostOfClient / PAYMENT);
  expect(bodiesOf(budget, 'attacker', 1)).toHaveLength(0);
  expect(bodiesOf(budget, 'a payer', PAYMENT, true).length).toBeGreaterThan(0);
});

test('everything is given back, once', () => {
  const budget = createBodyBudget();
  for (let round = 0; round < 3; round += 1) {
    const batches = bodiesOf(budget, 'client', 1_000);
    const payments = bodiesOf(budget, 'payer', 1_000, true);
    for (const body of [...batches, ...batches, ...payments, ...payments]) body.release();
  }
  expect(bodiesOf(budget, 'client', BATCH)).toHaveLength(budget.others.mostOfClient / BATCH);
  expect(bodiesOf(budget, 'payer', PAYMENT, true)).toHaveLength(1_000 + budget.others.mostOfClient / PAYMENT);
});

test('only what has arrived counts', () => {
  const budget = createBodyBudget();
  for (let body = 0; body < 10_000; body += 1) expect(arriving(budget, 'client').add(Buffer.alloc(1))).toBeUndefined();
});

test.each([[1], [2], [1_000], [1_023], [70_001]])('a body in chunks of %i bytes is read as it was sent', (size) => {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 251));
  const body = arriving(createBodyBudget(), 'client');
  for (let at = 0; at < bytes.length; at += size) body.add(Buffer.from(bytes.subarray(at, at + size)));
  expect(body.content().equals(bytes)).toBe(true);
});

test('a body may be as long as its limit, and no longer', () => {
  const body = arriving(createBodyBudget(), 'client');
  expect(body.add(Buffer.alloc(BATCH - 1))).toBeUndefined();
  expect(body.add(Buffer.alloc(1))).toBeUndefined();
  expect(body.add(Buffer.alloc(1))).toMatchObject({ status: 413 });
});

test('the refusal says that nothing was begun, and when to try again', () => {
  const budget = { payments: new ByteBudget(0), others: new ByteBudget(1) };
  expect(arriving(budget, 'client').add(Buffer.alloc(2))).toMatchObject({
    status: 503,
    headers: { 'Retry-After': '2' },
    message: expect.stringContaining('nothing was begun'),
  });
});
