import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import type { RefundAttempt } from '#idempay/payments/ports/refund-ledger.js';
import type { Claim } from '#idempay/payments/values/payment.js';
import { executionOf } from '../../testkit/deployments/distributed-stores.js';
import {
  claimAttempt,
  DECLINED,
  givenClaim,
  givenSettled,
  inState,
  LONG_MS,
  newKeyOf,
  newOwner,
  newReference,
  turnsOf,
} from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { refundsWith } from '../../testkit/protocol/refund-attempts.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until.js';

const PAYMENTS = 10;
const CONFIRMATION = executionOf('confirm_durable');
const MOMENT = Date.UTC(2020, 0);
const NO_KEY = '00000000-0000-0000-0000-000000000000';
const RETENTION_MS = 24 * HOUR_MS;
const RETENTION_HOURS = 24 + 2;

let stores: Awaited<ReturnType<typeof openSqlStores>>;
let wire: TcpProxy;
let ports: Ports;
let ledger: Ports['ledger'];
let history: Ports['paymentHistory'];

beforeEach(async () => {
  stores = await openSqlStores();
  wire = await startTcpProxy(Number(new URL(stores.databaseUrl).port));
  ports = await openDistributedPortsOn({ ...stores, databaseUrl: wire.through(stores.databaseUrl) });
  ({ ledger, paymentHistory: history } = ports);
});
afterEach(async () => {
  await ports.close();
  await wire.close();
  await stores.close();
});

const sql = (text: string, values: unknown[] = []) => stores.client.query(text, values);

/** PostgreSQL counts microseconds: what looks like one time to us has an order there. */
test('an export from PostgreSQL is the whole in pages of any size, of payments settled in one microsecond or millisecond', async () => {
  const claims = await Promise.all(Array.from({ length: PAYMENTS }, () => givenClaim(ledger)));
  await Promise.all(claims.map((claim) => givenSettled(ledger, claim)));
  const keys = claims.map(({ key }) => key).sort();
  const expectExported = async (expected: string[]) => {
    for (const limit of [1, 3, PAYMENTS]) {
      const exported: string[] = [];
      let after: string | undefined;
      do {
        const page = await history.settled({ from: MOMENT, to: MOMENT + 1, after, limit });
        exported.push(...page.payments.map(({ key }) => key));
        after = page.next;
      } while (after !== undefined);
      expect(exported).toEqual(expected);
    }
  };
  const settleAt = (us: string) =>
    sql(`UPDATE idempay.payments SET settled_at = to_timestamp($1) + ${us} * interval '1 microsecond'`, [
      MOMENT / 1000,
    ]);

  await settleAt('7');
  await expectExported(keys);
  // The later the key the earlier the settlement, so that neither the key nor the millisecond gives the order.
  await settleAt('(SELECT 999 - count(*) FROM idempay.payments AS other WHERE other.key < payments.key)');
  await expectExported(keys.toReversed());
});

test('a claim with a value that PostgreSQL refuses fails no other claim of its batch', async () => {
  const refused = ledger.claim(claimAttempt({ client: 'jwt:shop\0' }));
  const others = Promise.all(Array.from({ length: 3 }, () => ledger.claim(claimAttempt())));
  await expect(refused).rejects.toMatchObject({ effect: 'unchanged' });
  expect((await others).map(({ state }) => state)).toEqual(['claimed', 'claimed', 'claimed']);
});

/** An answer about a final payment must survive a failover as a write does (`distributed-standby-wait.test.ts`). */
test('what is read of payments is confirmed when it is final, and not when it may still change or is only looked at', async () => {
  const confirmed = wire.count(CONFIRMATION);
  const settled = (to: number) => history.settled({ from: 0, to, after: undefined, limit: 1 });
  const claim = await givenClaim(ledger);
  await history.find(claim.key);
  await settled(Date.now());
  expect(confirmed()).toBe(0);

  await givenSettled(ledger, claim);
  const ofSettling = confirmed();
  await history.find(claim.key);
  expect(confirmed()).toBe(ofSettling + 1);
  await settled(Date.now() + LONG_MS);
  expect(confirmed()).toBe(ofSettling + 2);
  const everything = { state: undefined, claimedFrom: undefined, claimedTo: undefined, before: undefined };
  await history.newest({ ...everything, limit: 1 }, 1);
  expect(confirmed()).toBe(ofSettling + 2);
});

const loseRows = () =>
  sql(
    `UPDATE idempay.deployment SET look_up_references_until = ${Number.MAX_SAFE_INTEGER}, adopted_at = to_timestamp(0)`,
  );

describe('a claim whose reply is lost on its way from PostgreSQL', () => {
  test('is read back, and is the first claim of its key', async () => {
    const lost = wire.loseReply(executionOf('claim'));
    expect(await ledger.claim(claimAttempt())).toMatchObject({ state: 'claimed', claim: { epoch: 1, unsent: true } });
    await lost;
  });

  /** Otherwise it would charge without a look-up, although an attempt of a lost row may have charged. */
  test('is the claim of a lost row after rows were lost', async () => {
    await loseRows();
    const lost = wire.loseReply(executionOf('claim_in_full'));
    const claimed = await ledger.claim(claimAttempt(turnsOf(ports.id)(newReference())));
    await lost;
    expect(claimed).toMatchObject({ state: 'taken over', claim: { epoch: 1, unsent: false, mayBeLost: true } });
  });

  test("is not taken for ours when the row is another owner's", async () => {
    const { key } = await givenClaim(ledger);
    const lost = wire.loseReply(executionOf('claim'));
    await expect(ledger.claim(claimAttempt({ key }))).rejects.toMatchObject({ effect: 'unknown' });
    await lost;
  });
});

describe('a claim of a refund whose reply is lost on its way from PostgreSQL', () => {
  let attempt: RefundAttempt;
  beforeEach(async () => {
    const paid = await givenClaim(ledger);
    await givenSettled(ledger, paid);
    attempt = refundsWith(ports.id)(paid);
  });

  test('is read back, and is the first claim of its name', async () => {
    const lost = wire.loseReply(executionOf('claim_refund'));
    const { claim } = inState(await ports.refunds.claimRefund(attempt), 'claimed');
    await lost;
    expect(claim).toMatchObject({ epoch: 1, unsent: true });
    expect(claim.mayBeLost).toBeUndefined();
    expect(await history.find(attempt.refund.payment)).toMatchObject({ refundedUnits: attempt.units });
  });

  /** Otherwise it would be sent without a look-up, although a lost row of it may have given the money back. */
  test('may be lost after rows were lost', async () => {
    await loseRows();
    const lost = wire.loseReply(executionOf('claim_refund'));
    const { claim } = inState(await ports.refunds.claimRefund(attempt), 'claimed');
    await lost;
    expect(claim).toMatchObject({ epoch: 1, unsent: false, mayBeLost: true, claimedAfterLoss: true });
  });
});

describe('a takeover whose reply is lost on its way from PostgreSQL', () => {
  const takeOver = ({ key, processor }: Claim) =>
    ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS });

  test('is read back, and is ours', async () => {
    const abandoned = await givenClaim(ledger);
    await ledger.abandon(abandoned, 0);
    const lost = wire.loseReply(executionOf('take_over'));
    expect(await takeOver(abandoned)).toMatchObject({ key: abandoned.key, epoch: 2 });
    await lost;
  });

  /** Otherwise two owners would be at work at once. */
  test("is not taken for ours when the row is another owner's", async () => {
    const held = await givenClaim(ledger);
    const lost = wire.loseReply(executionOf('take_over'));
    await expect(takeOver(held)).rejects.toMatchObject({ effect: 'unknown' });
    await lost;
    expect(await ledger.renew(held, LONG_MS)).toBe(true);
  });
});

describe('a resolution whose reply is lost on its way from PostgreSQL', () => {
  const resolve = (key: string) =>
    ledger.resolve({ key, owner: newOwner(), ...DECLINED, dedupMs: 0, idempotencyTtlMs: LONG_MS });
  let abandoned: Claim;
  beforeEach(async () => {
    abandoned = await givenClaim(ledger);
    await ledger.abandon(abandoned, 0);
  });

  test('is read back, confirmed, and answered as resolved', async () => {
    const lost = wire.loseReply(executionOf('resolve'));
    const confirmed = wire.count(CONFIRMATION);
    const resolved = await resolve(abandoned.key);
    await lost;
    expect(resolved).toMatchObject({ state: 'resolved', final: { outcome: { reason: DECLINED.reason } } });
    expect(confirmed()).toBe(1);
  });

  test('is not taken for ours when another one had settled it before', async () => {
    const { key, processor } = abandoned;
    const claim = await ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS });
    await givenSettled(ledger, claim as Claim);
    const lost = wire.loseReply(executionOf('resolve'));
    const resolved = await resolve(key);
    await lost;
    expect(resolved).toEqual({ state: 'settled before' });
  });

  test('is unknown when the row cannot be read back, and given again it finds the first one', async () => {
    const { key } = abandoned;
    const lost = wire.loseReply(executionOf('resolve')).then(() => wire.cutOff());
    await expect(resolve(key)).rejects.toMatchObject({ effect: 'unknown' });
    await lost;
    wire.heal();
    expect(await resolve(key)).toEqual({ state: 'settled before' });
    expect(await history.find(key)).toMatchObject({ resolution: DECLINED.reason });
  });
});

/**
 * A claim that read the horizon before it was raised may insert after it: so nothing may be removed below a bound before
 * every such claim has ended (`retention-statements.ts`). Time passes here by what the row says of it.
 */
describe('the horizon in PostgreSQL', () => {
  /** It may be removed, and the time of retention is over. */
  let removable: Claim;
  beforeEach(async () => {
    removable = await givenClaim(ledger);
    await givenSettled(ledger, removable, { ttlMs: 1 });
    await untilPast(1);
    await passHours(ledger, RETENTION_HOURS);
    await claimsHaveEnded();
  });

  const remove = () => removeOld(ledger, RETENTION_MS);
  const claimsHaveEnded = () => sql("UPDATE idempay.payment_horizon SET seen_at = seen_at - interval '7 seconds'");

  async function horizon(): Promise<{ keys_before: string; removable_before: string; seen: boolean }> {
    const columns = 'keys_before, removable_before, seen_at IS NOT NULL AS seen';
    return (await sql(`SELECT ${columns} FROM idempay.payment_horizon`)).rows[0];
  }

  test('is raised for claims, then seen, and only then, when they have ended, used for removal', async () => {
    expect(await remove()).toBe(0);
    const raised = await horizon();
    expect(raised).toEqual({ keys_before: expect.any(String), removable_before: NO_KEY, seen: false });
    expect(removable.key < raised.keys_before).toBe(true);

    for (let call = 0; call < 3; call += 1) expect(await remove()).toBe(0);
    expect(await horizon()).toEqual({ ...raised, seen: true });

    await claimsHaveEnded();
    expect(await remove()).toBe(1);
    expect((await horizon()).removable_before).toBe(raised.keys_before);
    expect(await ledger.claim(claimAttempt({ key: removable.key }))).toEqual({ state: 'expired' });
  });

  test('is advanced once by several at once, and never lowered', async () => {
    await Promise.all(Array.from({ length: 8 }, remove));
    const raised = await horizon();
    expect(raised).toMatchObject({ removable_before: NO_KEY });
    await remove();
    expect(await horizon()).toEqual({ ...raised, seen: true });

    await claimsHaveEnded();
    await sql('UPDATE idempay.retention_hours SET lowest_key_ms = 1');
    await remove();
    const { keys_before } = raised;
    expect(await horizon()).toEqual({ keys_before, removable_before: keys_before, seen: false });
  });

  test('judges a key by the time in it, to the millisecond', async () => {
    await remove();
    const bound = Number.parseInt((await horizon()).keys_before.replaceAll('-', '').slice(0, 12), 16);
    expect(await ledger.claim(claimAttempt({ key: newKeyOf(bound - 1) }))).toEqual({ state: 'expired' });
    expect(await ledger.claim(claimAttempt({ key: newKeyOf(bound) }))).toMatchObject({ state: 'claimed' });
  });
});

/**
 * A failover may lose the row that says whose payments are in the database, and `idempay simulated discard` may run alongside a service
 * that it does not see. This process has written the name down before.
 */
test('a claim counts only while the name of its processor is in the database, and writes it down again', async () => {
  const names = async () =>
    (await stores.client.query('SELECT processors FROM idempay.deployment')).rows[0]?.processors;
  const set = (value: string) => stores.client.query('UPDATE idempay.deployment SET processors = $1', [value]);
  await givenClaim(ledger);
  await set('{}');
  await givenClaim(ledger);
  expect(await names()).toEqual(['test']);

  await set('{simulated}');
  const attempt = claimAttempt();
  await expect(ledger.claim(attempt)).rejects.toThrow('All payments in the database of DATABASE_URL were simulated');
  expect(await ledger.find(attempt.key)).toEqual({ state: 'absent' });
  expect(await names()).toEqual(['simulated']);
});

/** Bug: such a claim failed as unknown, although nothing was claimed, and nobody read the row again. */
test.each(['register_processor', 'mark_order_access'])(
  'a claim goes on if the reply of %s is lost before it',
  async (statement) => {
    const started = await openDistributedPortsOn(
      { ...stores, databaseUrl: wire.through(stores.databaseUrl) },
      { access: 'none' },
    );
    onTestFinished(() => started.close());
    const lost = wire.loseReply(executionOf(statement));
    const claimed = await started.ledger.claim(claimAttempt(turnsOf(started.id)('order-1', 1)));
    expect(claimed).toMatchObject({ state: 'claimed', claim: { epoch: 1, unsent: true } });
    await lost;
  },
);
