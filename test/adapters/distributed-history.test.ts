import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { executionOf } from '../../testkit/deployments/distributed-stores.js';
import { DECLINED, givenClaim, givenSettled, LONG_MS, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';

const PAYMENTS = 10;
const CONFIRMATION = executionOf('confirm_durable');
const MOMENT = Date.UTC(2020, 0);

let stores: Awaited<ReturnType<typeof openSqlStores>>;
let wire: TcpProxy;
let ports: Ports;

beforeEach(async () => {
  stores = await openSqlStores();
  wire = await startTcpProxy(Number(new URL(stores.databaseUrl).port));
  ports = await openDistributedPortsOn({ ...stores, databaseUrl: wire.through(stores.databaseUrl) });
});
afterEach(async () => {
  await ports.close();
  await wire.close();
  await stores.close();
});

async function givenSettledMany(): Promise<Claim[]> {
  const claims = await Promise.all(Array.from({ length: PAYMENTS }, () => givenClaim(ports.ledger)));
  await Promise.all(claims.map((claim) => givenSettled(ports.ledger, claim)));
  return claims.toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

async function exported(limit: number): Promise<string[]> {
  const keys: string[] = [];
  let after: string | undefined;
  do {
    const page = await ports.paymentHistory.settled({ from: MOMENT, to: MOMENT + 1, after, limit });
    keys.push(...page.payments.map(({ key }) => key));
    after = page.next;
  } while (after !== undefined);
  return keys;
}

/** PostgreSQL counts microseconds: what looks like one time to us has an order there. */
test('an export from PostgreSQL is the whole in pages of any size, of payments settled in one microsecond or millisecond', async () => {
  const keys = (await givenSettledMany()).map(({ key }) => key);
  const settleAt = (microseconds: string) =>
    stores.client.query(
      `UPDATE idempay.payments SET settled_at = to_timestamp($1) + ${microseconds} * interval '1 microsecond'`,
      [MOMENT / 1000],
    );
  await settleAt('7');
  for (const limit of [1, 3, PAYMENTS]) expect(await exported(limit)).toEqual(keys);
  // The later the key the earlier the settlement, so that neither the key nor the millisecond gives the order.
  await settleAt('(SELECT 999 - count(*) FROM idempay.payments AS other WHERE other.key < payments.key)');
  for (const limit of [1, 3, PAYMENTS]) expect(await exported(limit)).toEqual(keys.toReversed());
});

/** What is answered of a final payment must survive a failover as what was written does (`distributed-standby-wait.test.ts`). */
describe('what is read of payments in PostgreSQL', () => {
  const confirmations = () => wire.count(CONFIRMATION);

  test('is confirmed when it is final, and not when it may still change or is only looked at', async () => {
    const { ledger, paymentHistory } = ports;
    const claim = await givenClaim(ledger);
    const whileUnderWay = confirmations();
    await paymentHistory.find(claim.key);
    await paymentHistory.settled({ from: 0, to: Date.now(), after: undefined, limit: 1 });
    expect(whileUnderWay()).toBe(0);

    await givenSettled(ledger, claim);
    const whenFinal = confirmations();
    await paymentHistory.find(claim.key);
    expect(whenFinal()).toBe(1);
    await paymentHistory.settled({ from: 0, to: Date.now() + LONG_MS, after: undefined, limit: 1 });
    expect(whenFinal()).toBe(2);
    const nothing = { state: undefined, createdFrom: undefined, createdTo: undefined, before: undefined };
    await paymentHistory.newest({ ...nothing, limit: 1 });
    expect(whenFinal()).toBe(2);
  });
});

describe('a resolution whose reply is lost on its way from PostgreSQL', () => {
  const resolve = (key: string) => {
    const limits = { dedupMs: 0, idempotencyTtlMs: LONG_MS };
    return ports.ledger.resolve({ key, owner: newOwner(), ...DECLINED, ...limits });
  };

  async function givenAbandoned(): Promise<Claim> {
    const claim = await givenClaim(ports.ledger);
    await ports.ledger.abandon(claim, 0);
    return claim;
  }

  test('is read back, confirmed, and answered as resolved', async () => {
    const { key } = await givenAbandoned();
    const lost = wire.loseReply(executionOf('resolve'));
    const confirmed = wire.count(CONFIRMATION);
    const resolved = await resolve(key);
    await lost;
    expect(resolved).toMatchObject({ state: 'resolved', final: { outcome: { reason: DECLINED.reason } } });
    expect(confirmed()).toBe(1);
  });

  test('is not taken for ours when another one had settled it before', async () => {
    const { key, processor } = await givenAbandoned();
    const claim = await ports.ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS });
    await givenSettled(ports.ledger, claim as Claim);
    const lost = wire.loseReply(executionOf('resolve'));
    const resolved = await resolve(key);
    await lost;
    expect(resolved).toEqual({ state: 'settled before' });
  });

  test('is unknown when the row cannot be read back, and given again it finds the first one', async () => {
    const { key } = await givenAbandoned();
    const lost = wire.loseReply(executionOf('resolve')).then(() => wire.cutOff());
    await expect(resolve(key)).rejects.toMatchObject({
      effect: 'unknown',
    });
    await lost;
    wire.heal();
    expect(await resolve(key)).toEqual({ state: 'settled before' });
    expect(await ports.paymentHistory.find(key)).toMatchObject({ resolution: DECLINED.reason });
  });
});
