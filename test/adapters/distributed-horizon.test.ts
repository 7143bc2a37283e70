import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { claimAttempt, givenClaim, givenSettled, newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until-past.js';

const NO_KEY = '00000000-0000-0000-0000-000000000000';
const RETENTION_MS = 24 * HOUR_MS;
const RETENTION_HOURS = 24 + 2;

/**
 * A claim that read the horizon before it was raised may insert after it: so nothing may be removed below a bound before
 * every such claim has ended (`payment-horizon-statements.ts`). Time passes here by what the row says of it.
 */
describe('the horizon in PostgreSQL', () => {
  let stores: Awaited<ReturnType<typeof openSqlStores>>;
  let ports: Ports;
  let ledger: Ports['ledger'];
  let sql: typeof stores.client.query;

  beforeEach(async () => {
    stores = await openSqlStores();
    sql = stores.client.query.bind(stores.client);
    ports = await openDistributedPortsOn(stores);
    ledger = ports.ledger;
  });
  afterEach(async () => {
    await ports.close();
    await stores.close();
  });

  const remove = () => removeOld(ledger, RETENTION_MS);

  /** One payment that may be removed, and the time of retention over. */
  async function givenRemovable(): Promise<Claim> {
    const claim = await givenClaim(ledger);
    await givenSettled(ledger, claim, { ttlMs: 1 });
    await untilPast(1);
    await passHours(ledger, RETENTION_HOURS);
    return claim;
  }

  async function horizon() {
    const { rows } = await sql<{ keys_before: string; removable_before: string; seen: boolean }>(
      'SELECT keys_before, removable_before, seen_at IS NOT NULL AS seen FROM idempay.payment_horizon',
    );
    return rows[0];
  }

  async function claimsHaveEnded(): Promise<void> {
    await sql("UPDATE idempay.payment_horizon SET seen_at = seen_at - interval '7 seconds'");
  }

  test('is raised for claims, then seen, and only then, when they have ended, used for removal', async () => {
    const claim = await givenRemovable();
    await claimsHaveEnded();
    expect(await remove()).toBe(0);
    const raised = await horizon();
    expect(raised).toEqual({ keys_before: expect.any(String), removable_before: NO_KEY, seen: false });
    expect(claim.key < (raised?.keys_before ?? '')).toBe(true);

    for (let call = 0; call < 3; call += 1) expect(await remove()).toBe(0);
    expect(await horizon()).toEqual({ ...raised, seen: true });

    await claimsHaveEnded();
    expect(await remove()).toBe(1);
    expect((await horizon())?.removable_before).toBe(raised?.keys_before);
    expect(await ledger.claim(claimAttempt({ key: claim.key }))).toEqual({ state: 'expired' });
  });

  test('is advanced once by several at once, and never lowered', async () => {
    await givenRemovable();
    await claimsHaveEnded();
    await Promise.all(Array.from({ length: 8 }, remove));
    const raised = await horizon();
    expect(raised).toMatchObject({ removable_before: NO_KEY });
    await remove();
    expect(await horizon()).toEqual({ ...raised, seen: true });

    await claimsHaveEnded();
    await sql('UPDATE idempay.retention_hours SET lowest_key_ms = 1');
    await remove();
    expect(await horizon()).toEqual({
      keys_before: raised?.keys_before,
      removable_before: raised?.keys_before,
      seen: false,
    });
  });

  test('judges a key by the time in it, to the millisecond', async () => {
    await givenRemovable();
    await claimsHaveEnded();
    await remove();
    const bound = Number.parseInt((await horizon())?.keys_before.replaceAll('-', '').slice(0, 12) ?? '', 16);
    expect(await ledger.claim(claimAttempt({ key: newKeyOf(bound - 1) }))).toEqual({ state: 'expired' });
    expect(await ledger.claim(claimAttempt({ key: newKeyOf(bound) }))).toMatchObject({ state: 'claimed' });
  });

  test('leaves a payment whose hour nobody noted until it has been seen for as long', async () => {
    const claim = await givenRemovable();
    // As a process of the version before settles one.
    await sql('UPDATE idempay.payments SET settled_hour = NULL WHERE key = $1', [claim.key]);
    for (const [hours, isThere] of [
      [0, true],
      [RETENTION_HOURS - 3, true],
      [3, false],
    ] as const) {
      await passHours(ledger, hours);
      for (let round = 0; round < 3; round += 1) {
        await remove();
        await claimsHaveEnded();
      }
      expect((await ports.paymentHistory.find(claim.key)) !== undefined, `after ${hours} hours more`).toBe(isThere);
    }
  });
});
