import pg from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Ledger } from '#idempay/payments/ledger.js';
import { claimAttempt, givenClaim, givenSettled, newKeyOf, SHORT_MS } from '../support/payment-attempts.js';
import { openDistributedPortsOn, type Ports } from '../support/ports.js';
import { type OpenStores, openStores } from '../support/topologies/open-stores.js';
import { untilPast } from '../support/until-past.js';

const NO_KEY = '00000000-0000-0000-0000-000000000000';
const LIMIT = 100;
const YEAR_MS = 365 * 86_400_000;

/**
 * A claim that read the horizon before it was raised may insert after it: so nothing may be removed below a bound before
 * every such claim has ended (`payment-horizon-statements.ts`). Time passes here by what the row says of it.
 */
describe('the horizon in PostgreSQL', () => {
  let stores: OpenStores;
  let ports: Ports;
  let ledger: Ledger;
  let client: pg.Client;

  beforeEach(async () => {
    stores = await openStores();
    ports = await openDistributedPortsOn(stores);
    ledger = ports.ledger;
    client = new pg.Client({ connectionString: stores.databaseUrl });
    await client.connect();
  });
  afterEach(async () => {
    await client.end();
    await ports.close();
    await stores.close();
  });

  const remove = () => ledger.removeSettled(SHORT_MS, LIMIT);

  async function horizon() {
    const { rows } = await client.query<{ keys_before: string; removable_before: string; seen: boolean }>(
      'SELECT keys_before, removable_before, seen_at IS NOT NULL AS seen FROM idempay.payment_horizon',
    );
    return rows[0];
  }

  async function claimsHaveEnded(): Promise<void> {
    await client.query("UPDATE idempay.payment_horizon SET seen_at = seen_at - interval '7 seconds'");
  }

  test('is raised for claims, then seen, and only then, when they have ended, used for removal', async () => {
    const claim = await givenClaim(ledger);
    await givenSettled(ledger, claim, { ttlMs: 1 });
    await untilPast(SHORT_MS);

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

  /** The bug is told in `embedded-horizon.test.ts`. */
  test('is never higher than there are rows, so a clock that was far ahead does not refuse the keys of the time after', async () => {
    const claim = await givenClaim(ledger);
    await claimsHaveEnded();
    await ledger.removeSettled(-YEAR_MS, LIMIT);
    expect(claim.key < ((await horizon())?.keys_before ?? '')).toBe(true);
    await untilPast(1);
    expect(await ledger.claim(claimAttempt())).toMatchObject({ state: 'claimed' });
  });

  test('is advanced once by several at once, and never lowered', async () => {
    await claimsHaveEnded();
    await Promise.all(Array.from({ length: 8 }, remove));
    const raised = await horizon();
    expect(raised).toMatchObject({ removable_before: NO_KEY, seen: true });

    await claimsHaveEnded();
    await ledger.removeSettled(Number.MAX_SAFE_INTEGER / 1_000, LIMIT);
    expect(await horizon()).toEqual({
      keys_before: raised?.keys_before,
      removable_before: raised?.keys_before,
      seen: false,
    });
  });

  test('judges a key by the time in it, to the millisecond', async () => {
    await givenClaim(ledger);
    await claimsHaveEnded();
    await remove();
    const bound = Number.parseInt((await horizon())?.keys_before.replaceAll('-', '').slice(0, 12) ?? '', 16);
    expect(await ledger.claim(claimAttempt({ key: newKeyOf(bound - 1) }))).toEqual({ state: 'expired' });
    expect(await ledger.claim(claimAttempt({ key: newKeyOf(bound) }))).toMatchObject({ state: 'claimed' });
  });
});
