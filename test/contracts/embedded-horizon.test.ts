import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '#idempay/clock.js';
import type { Deployment } from '#idempay/deployments/deployment.js';
import { openEmbedded } from '#idempay/deployments/embedded/open.js';
import type { Claim } from '#idempay/payments/payment.js';
import { claimAttempt, givenClaim, givenSettled, LONG_MS, SHORT_MS } from '../support/payment-attempts.js';
import { untilPast } from '../support/until-past.js';

const MANY = 1_200;
const YEAR_MS = 365 * 86_400_000;

let dataDir: string;
let deployment: Deployment;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'idempay-horizon-'));
  await start();
});
afterEach(async () => {
  await deployment.close();
  await rm(dataDir, { recursive: true, force: true });
});

async function start(): Promise<void> {
  deployment = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
}

async function givenRemovable(count: number): Promise<Claim[]> {
  const { ledger } = deployment;
  const claims = await Promise.all(Array.from({ length: count }, () => givenClaim(ledger)));
  await Promise.all(claims.map((claim) => givenSettled(ledger, claim, { ttlMs: 1 })));
  await untilPast(SHORT_MS);
  return claims;
}

test('a removed key is expired also after a new start', async () => {
  const [claim] = await givenRemovable(1);
  const key = claim?.key ?? '';
  expect(await deployment.ledger.removeSettled(SHORT_MS, MANY)).toBe(1);
  await deployment.close();
  await start();
  expect(await deployment.ledger.claim(claimAttempt({ key }))).toEqual({ state: 'expired' });
  expect(await deployment.ledger.claim(claimAttempt())).toMatchObject({ state: 'claimed' });
});

test('a limit is kept', async () => {
  const { ledger } = deployment;
  await givenRemovable(MANY);
  expect(await ledger.removeSettled(SHORT_MS, MANY - 100)).toBe(MANY - 100);
  expect(await ledger.removeSettled(SHORT_MS, MANY)).toBe(100);
});

/**
 * Bug: after one start with a clock that was a year ahead every first payment was refused for a year. Cause: the horizon was
 * raised to the wrong time. Fix: it is never higher than there are rows.
 */
test('a clock that was far ahead does not refuse the keys of the time after', async () => {
  const { ledger } = deployment;
  const [claim] = await givenRemovable(1);
  // As it would be called by a clock that is a year ahead: what was just settled is older than it should be.
  expect(await ledger.removeSettled(-YEAR_MS, MANY)).toBe(1);
  expect(await ledger.claim(claimAttempt({ key: claim?.key ?? '' }))).toEqual({ state: 'expired' });
  expect(await ledger.claim(claimAttempt())).toMatchObject({ state: 'claimed' });
});

test('a start makes every payment due that was under way, whatever its lease and its back-off', async () => {
  const { ledger } = deployment;
  const [alive, backedOff] = [await givenClaim(ledger), await givenClaim(ledger)];
  await ledger.abandon(backedOff, LONG_MS);
  await deployment.close();
  await start();
  const { processor } = alive;
  const due = await deployment.ledger.takeOverAbandoned({ owner: 'recovery', leaseMs: LONG_MS, processor, limit: 10 });
  expect(due.map(({ key }) => key).sort()).toEqual([alive.key, backedOff.key].sort());
});
