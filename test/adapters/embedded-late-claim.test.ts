import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { claimAttempt, LONG_MS, newKey, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { openEmbeddedPorts, type Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until-past.js';

/** Long enough that a busy machine begins before it is over. */
const KEY_LIFE_MS = 1_000;

/**
 * Bug: a key that expired between begin and claim was paid. Cause: the claim's deadline was the end of the lease alone,
 * although this deployment, unlike Redis, does not lengthen the record (decisions P9). Fix: whichever ends first.
 */
describe('a claim with a key that ends before the lease (embedded)', () => {
  let ports: Ports;

  beforeAll(async () => {
    ports = await openEmbeddedPorts();
  });
  afterAll(() => ports.close());

  test('is refused once the key has expired, and leaves no row', async () => {
    const [key, owner] = [newKey(), newOwner()];
    await ports.keys.issue(key, KEY_LIFE_MS);
    const issuedAt = performance.now();
    const begun = await ports.keys.begin({ key, owner, leaseMs: LONG_MS, fingerprint: '1.00 USD' });
    if (begun.state !== 'taken') throw new Error(`begin was answered '${begun.state}'`);
    expect(begun.claimBy).toBeLessThanOrEqual(issuedAt + KEY_LIFE_MS);

    await untilPast(KEY_LIFE_MS);
    expect(await ports.ledger.claim(claimAttempt({ key, owner, claimBy: begun.claimBy }))).toEqual({
      state: 'too late',
    });
    expect(await ports.ledger.find(key)).toEqual({ state: 'absent' });
  });
});
