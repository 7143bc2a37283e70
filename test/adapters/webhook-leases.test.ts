import { describe, expect, test } from 'vitest';
import { openModelledPorts } from '../../proof/simulator/models/distributed.js';
import { inState, newKey, newOwner } from '../../testkit/protocol/payment-attempts.js';
import { openDistributedPorts, sharePorts } from '../../testkit/protocol/ports.js';

const LEASE_MS = 10_000;
const HOUR_MS = 3_600_000;
const POSITION = { incarnation: '0123456789abcdef', atUs: 1, key: undefined };
const LATER = { ...POSITION, atUs: 2 };

// Bug: after the clock of the database server was set back, nobody served an endpoint whose owner had died, for as long as it was set back.
// Cause: its lease ended only when the clock had come there again. Fix: a lease that ends later than two leases from now is nobody's.
describe.each([
  ['distributed', openDistributedPorts],
  ['modelled', openModelledPorts],
] as const)('the lease of an endpoint when the clock was set back (%s)', async (_, open) => {
  const { endpointRows: rows } = await sharePorts(open);

  /** Owned by a process that died. To the clock now, its lease lasts for `ms`. */
  async function ownedFor(ms: number) {
    const lease = { name: `endpoint-${newKey().slice(-12)}`, owner: newOwner() };
    await rows.begin({ name: lease.name, client: undefined, position: POSITION, leaseMs: LEASE_MS });
    inState(await rows.take({ ...lease, client: undefined, leaseMs: ms }), 'taken');
    return lease;
  }
  const takeNext = (name: string, client?: string) => rows.take({ name, owner: newOwner(), client, leaseMs: LEASE_MS });

  test('another process takes it, and what the former owner writes changes nothing', async () => {
    const former = await ownedFor(HOUR_MS);
    inState(await takeNext(former.name), 'taken');
    expect(await rows.advance(former, LATER)).toBe('stale');
    expect(await rows.find(former.name)).toMatchObject({ position: POSITION });
    // The lease is of the clock now.
    expect(await takeNext(former.name)).toEqual({ state: 'held' });
  });

  test('an owner that lives keeps it by lengthening it', async () => {
    const lease = await ownedFor(HOUR_MS);
    inState(await rows.take({ ...lease, client: undefined, leaseMs: LEASE_MS }), 'taken');
    expect(await takeNext(lease.name)).toEqual({ state: 'held' });
  });

  test('a lease that may be of the clock now is held', async () => {
    const { name } = await ownedFor(1.5 * LEASE_MS);
    expect(await takeNext(name)).toEqual({ state: 'held' });
  });

  test('an endpoint of another client begins anew', async () => {
    const { name } = await ownedFor(HOUR_MS);
    expect(await takeNext(name, 'key:b')).toEqual({ state: 'new' });
    await rows.begin({ name, client: 'key:b', position: LATER, leaseMs: LEASE_MS });
    expect(inState(await takeNext(name, 'key:b'), 'taken').position).toEqual(LATER);
  });
});
