import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { executionOf } from '../../testkit/deployments/distributed-stores.js';
import { type OpenStores, openStores } from '../../testkit/deployments/topologies/open-stores.js';
import { completed, givenClaim, givenSettled, LONG_MS, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, type Ports } from '../../testkit/protocol/ports.js';
import { startTcpProxy, type TcpProxy } from '../../testkit/servers/tcp-proxy.js';

const PAYMENTS = 10;
const MOMENT = Date.UTC(2020, 0);

let stores: OpenStores;
let wire: TcpProxy;
let ports: Ports;
let client: pg.Client;

beforeEach(async () => {
  stores = await openStores();
  wire = await startTcpProxy(Number(new URL(stores.databaseUrl).port));
  ports = await openDistributedPortsOn({ ...stores, databaseUrl: wire.through(stores.databaseUrl) });
  client = new pg.Client({ connectionString: stores.databaseUrl });
  await client.connect();
});
afterEach(async () => {
  await client.end();
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
describe('an export from PostgreSQL', () => {
  test.each([1, 3, PAYMENTS])('is the whole in pages of %s, of payments settled in one microsecond', async (limit) => {
    const claims = await givenSettledMany();
    await client.query("UPDATE idempay.payments SET settled_at = to_timestamp($1) + interval '7 microseconds'", [
      MOMENT / 1000,
    ]);
    expect(await exported(limit)).toEqual(claims.map(({ key }) => key));
  });

  test.each([1, 3, PAYMENTS])('is the whole in pages of %s, of payments settled in one millisecond', async (limit) => {
    const claims = await givenSettledMany();
    // The later the key the earlier the settlement, so that neither the key nor the millisecond gives the order.
    for (const [index, { key }] of claims.entries()) {
      await client.query(
        "UPDATE idempay.payments SET settled_at = to_timestamp($1) + $2 * interval '1 microsecond' WHERE key = $3",
        [MOMENT / 1000, 999 - index, key],
      );
    }
    expect(await exported(limit)).toEqual(claims.map(({ key }) => key).reverse());
  });
});

/** What is told of a final payment must survive a failover as what was written does (`distributed-standby-wait.test.ts`). */
describe('what is read of payments in PostgreSQL', () => {
  const confirmations = () => wire.count(executionOf('confirm_durable'));

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
  const verdict = {
    state: 'DECLINED',
    reason: 'never arrived',
    dedupMs: 0,
    idempotencyTtlMs: LONG_MS,
  } as const;

  async function givenAbandoned(): Promise<Claim> {
    const claim = await givenClaim(ports.ledger);
    await ports.ledger.abandon(claim, 0);
    return claim;
  }

  test('is read back, confirmed, and answered as resolved', async () => {
    const { key } = await givenAbandoned();
    const lost = wire.loseReply(executionOf('resolve'));
    const confirmed = wire.count(executionOf('confirm_durable'));
    const resolved = await ports.ledger.resolve({ ...verdict, key, owner: newOwner() });
    await lost;
    expect(resolved).toMatchObject({ state: 'resolved', final: { outcome: { reason: 'never arrived' } } });
    expect(confirmed()).toBe(1);
  });

  test('is not taken for ours when another one had settled it before', async () => {
    const { key, processor } = await givenAbandoned();
    const claim = await ports.ledger.takeOver({ key, processor, owner: newOwner(), leaseMs: LONG_MS });
    if (!claim) throw new Error('what was given up could not be taken over');
    await givenSettled(ports.ledger, claim, { outcome: completed(claim) });
    const lost = wire.loseReply(executionOf('resolve'));
    const resolved = await ports.ledger.resolve({ ...verdict, key, owner: newOwner() });
    await lost;
    expect(resolved).toEqual({ state: 'settled before' });
  });

  test('is unknown when the row cannot be read back, and given again it finds the first one', async () => {
    const { key } = await givenAbandoned();
    const lost = wire.loseReply(executionOf('resolve')).then(() => wire.cutOff());
    await expect(ports.ledger.resolve({ ...verdict, key, owner: newOwner() })).rejects.toMatchObject({
      effect: 'unknown',
    });
    await lost;
    wire.heal();
    expect(await ports.ledger.resolve({ ...verdict, key, owner: newOwner() })).toEqual({ state: 'settled before' });
    expect(await ports.paymentHistory.find(key)).toMatchObject({ resolution: 'never arrived' });
  });
});
