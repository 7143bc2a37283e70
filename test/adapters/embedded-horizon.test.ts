import { expect, test } from 'vitest';
import type { Claim } from '#idempay/payments/values/payment.js';
import { openEmbeddedFolder } from '../../testkit/protocol/embedded-folder.js';
import { claimAttempt, givenClaim, givenSettled, LONG_MS, newKeyOf } from '../../testkit/protocol/payment-attempts.js';
import { HOUR_MS, passHours, removeOld } from '../../testkit/time/retention-time.js';
import { untilPast } from '../../testkit/time/until-past.js';

const MANY = 1_200;
const RETENTION_MS = 24 * HOUR_MS;
const RETENTION_HOURS = 24 + 2;

const folder = openEmbeddedFolder();

async function givenRemovable(count: number): Promise<Claim[]> {
  const { ledger } = folder.deployment;
  const claims = await Promise.all(Array.from({ length: count }, () => givenClaim(ledger)));
  await Promise.all(claims.map((claim) => givenSettled(ledger, claim, { ttlMs: 1 })));
  await untilPast(1);
  await passHours(ledger, RETENTION_HOURS);
  return claims;
}

test('a removed key is expired also after a new start', async () => {
  const [claim] = await givenRemovable(1);
  const key = claim?.key ?? '';
  expect(await removeOld(folder.deployment.ledger, RETENTION_MS)).toBe(1);
  await folder.deployment.close();
  await folder.start();
  expect(await folder.deployment.ledger.claim(claimAttempt({ key }))).toEqual({ state: 'expired' });
  expect(await folder.deployment.ledger.claim(claimAttempt())).toMatchObject({ state: 'claimed' });
});

test('a limit is kept', async () => {
  const { ledger } = folder.deployment;
  await givenRemovable(MANY);
  expect(await ledger.removeSettled(RETENTION_MS, MANY - 100)).toEqual({ removed: MANY - 100, more: true });
  expect(await ledger.removeSettled(RETENTION_MS, MANY)).toEqual({ removed: 100, more: false });
});

test('a payment that was settled by a clock 60 days behind stays for the retention', async () => {
  const { ledger } = folder.deployment;
  await passHours(ledger, RETENTION_HOURS);
  const backMs = 60 * 24 * HOUR_MS;
  const claim = await givenClaim(ledger, { key: newKeyOf(Date.now() - backMs) });
  await givenSettled(ledger, claim, { ttlMs: 1 });
  folder.inFile((database) =>
    database.prepare('UPDATE payments SET settled_at = settled_at - ? WHERE key = ?').run(backMs, claim.key),
  );
  await passHours(ledger, RETENTION_HOURS - 3);
  expect(await removeOld(ledger, RETENTION_MS)).toBe(0);
  await passHours(ledger, 3);
  expect(await removeOld(ledger, RETENTION_MS)).toBe(1);
});

test('a start makes every payment due that was under way, whatever its lease and its back-off', async () => {
  const { ledger } = folder.deployment;
  const [alive, backedOff] = [await givenClaim(ledger), await givenClaim(ledger)];
  await ledger.abandon(backedOff, LONG_MS);
  await folder.deployment.close();
  await folder.start();
  const { processor } = alive;
  const due = await folder.deployment.ledger.takeOverAbandoned({
    owner: 'recovery',
    leaseMs: LONG_MS,
    processor,
    limit: 10,
  });
  expect(due.map(({ key }) => key).sort()).toEqual([alive.key, backedOff.key].sort());
});
