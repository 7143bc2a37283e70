import { expect, onTestFinished, test } from 'vitest';
import type { FeedPosition } from '#idempay/payments/settlement-feed.js';
import type { EndpointRows, SetAside } from '#idempay/webhooks/ports/endpoint-rows.js';
import { inState, LONG_MS, newKey, newOwner, SHORT_MS } from '../../testkit/protocol/payment-attempts.js';
import type { ContractPorts, OpenPorts } from '../../testkit/protocol/ports.js';
import { until } from '../../testkit/time/until.js';

const INCARNATION = '0123456789abcdef';
const TEN_MINUTES_MS = 600_000;
const DEADLINE_MS = 15_000;

/**
 * Guarantees of every EndpointRows beyond its types.
 *  1. An endpoint has one owner at a time, until its lease has ended or was given back. 2. What an earlier owner writes changes nothing.
 *  3. A new endpoint begins where it is told; one that is there goes on, and if its client is another one, it begins anew with nothing set
 *     aside. After rows may have been lost, a row may be one of these: if it is made within ten minutes, it names the incarnation before the
 *     loss, so that the feed begins earlier. 4. A stopped endpoint is nobody's until it is started, and keeps its position. 5. A settlement is set aside once, up to a limit,
 *     and is due again after its time; after its last time it is only kept, until it is sent again by hand.
 */
export function endpointRowsContract({ endpointRows: rows, pass }: ContractPorts, open: OpenPorts): void {
  const at = (atUs: number, key?: string): FeedPosition => ({ incarnation: INCARNATION, atUs, key });
  const newEndpoint = async (client?: string) => {
    const name = `endpoint-${newKey().slice(-12)}`;
    await rows.begin({ name, client, position: at(1), leaseMs: LONG_MS });
    return name;
  };
  const take = (
    name: string,
    owner = newOwner(),
    { client, leaseMs = LONG_MS }: { client?: string; leaseMs?: number } = {},
  ) => rows.take({ name, owner, client, leaseMs });
  const owned = async (client?: string) => {
    const name = await newEndpoint(client);
    const lease = { name, owner: newOwner() };
    inState(await rows.take({ ...lease, client, leaseMs: LONG_MS }), 'taken');
    return lease;
  };
  const aside = (key: string, more: Partial<Parameters<EndpointRows['setAside']>[1]> = {}) => ({
    ...{ key, cause: 'it answered 500', retryMs: LONG_MS, mostSetAside: 3, ...more },
  });

  test('1: an endpoint is one owner at a time, and the next one takes it when the lease has ended', async () => {
    const name = await newEndpoint();
    const first = newOwner();
    inState(await take(name, first, { leaseMs: SHORT_MS }), 'taken');
    // Its own is lengthened.
    inState(await take(name, first), 'taken');
    await pass(SHORT_MS);
    expect(await take(name)).toEqual({ state: 'held' });
    inState(await take(name, first, { leaseMs: SHORT_MS }), 'taken');
    await pass(SHORT_MS);
    inState(await take(name), 'taken');
    expect(await take(name, first)).toEqual({ state: 'held' });
  });

  test('1: of ten that ask at once one gets it', async () => {
    const name = await newEndpoint();
    const results = await Promise.all(Array.from({ length: 10 }, () => take(name)));
    expect(results.filter(({ state }) => state === 'taken')).toHaveLength(1);
  });

  test('1: it is free when the lease was given back, and only its owner gives it back', async () => {
    const lease = await owned();
    await rows.release({ ...lease, owner: newOwner() });
    expect(await take(lease.name)).toEqual({ state: 'held' });
    await rows.release(lease);
    inState(await take(lease.name), 'taken');
  });

  test('2: an owner that was replaced changes nothing', async () => {
    const name = await newEndpoint();
    const former = { name, owner: newOwner() };
    inState(await take(name, former.owner, { leaseMs: 1 }), 'taken');
    expect(await rows.setAside(former, aside(newKey()))).toBe('ok');
    await pass(1);
    inState(await take(name), 'taken');
    const [{ key }] = (await rows.listSetAside(name, 10)) as readonly [SetAside];
    expect(await rows.advance(former, at(99))).toBe('stale');
    expect(await rows.setAside(former, aside(newKey()))).toBe('stale');
    expect(await rows.refusedAgain(former, { key, cause: 'x', retryMs: 0, giveUpMs: 0 })).toBe('stale');
    expect(await rows.removeSetAside(former, key)).toBe('stale');
    expect(await rows.stopServing(former)).toBe('stale');
    await rows.release(former);
    expect(await rows.find(name)).toMatchObject({ position: { atUs: 1 }, setAside: 1, stoppedBy: undefined });
    expect(await rows.listSetAside(name, 10)).toMatchObject([{ key, cause: 'it answered 500' }]);
    expect(await take(name)).toEqual({ state: 'held' });
  });

  test('3: a position is kept as it was written, and a row that is there is not begun again', async () => {
    const lease = await owned();
    const key = newKey();
    expect(await rows.advance(lease, at(1_796_000_000_123_456, key))).toBe('ok');
    await rows.begin({ name: lease.name, client: undefined, position: at(2), leaseMs: LONG_MS });
    const taken = inState(await rows.take({ ...lease, client: undefined, leaseMs: LONG_MS }), 'taken');
    expect(taken).toMatchObject({ position: at(1_796_000_000_123_456, key), setAside: 0, isDue: false });
  });

  test('3: there is no endpoint before it is begun, and one of another client begins anew', async () => {
    expect(await take(`endpoint-${newKey().slice(-12)}`)).toEqual({ state: 'new' });
    const lease = await owned('key:a');
    await rows.setAside(lease, aside(newKey()));
    // Somebody serves it for the former client, perhaps with an older file.
    expect(await take(lease.name, newOwner(), { client: 'key:b' })).toEqual({ state: 'held' });
    await rows.begin({ name: lease.name, client: 'key:b', position: at(7), leaseMs: LONG_MS });
    expect(await rows.find(lease.name)).toMatchObject({ client: 'key:a', position: { atUs: 1 }, setAside: 1 });
    await rows.release(lease);
    expect(await take(lease.name, newOwner(), { client: 'key:b' })).toEqual({ state: 'new' });
    await rows.begin({ name: lease.name, client: 'key:b', position: at(7), leaseMs: LONG_MS });
    expect(await rows.find(lease.name)).toMatchObject({ client: 'key:b', position: { atUs: 7 }, setAside: 0 });
    expect(await rows.advance(lease, at(9))).toBe('stale');
    expect(inState(await take(lease.name, newOwner(), { client: 'key:b' }), 'taken').position).toEqual(at(7));
  });

  test.each([
    ['within ten minutes', 0],
    ['later', TEN_MINUTES_MS + LONG_MS],
  ])('3: a row that is made %s after rows may have been lost', async (_, ageMs) => {
    const own = await open();
    onTestFinished(() => own.close());
    const untilBound = (condition: (incarnation: string) => boolean) =>
      until('the bound', DEADLINE_MS, async () => {
        const bound = await own.settlements.look();
        return bound && condition(bound.incarnation) && bound;
      });
    const before = await untilBound(() => true);
    await own.beginIncarnation(ageMs);
    const bound = await untilBound((incarnation) => incarnation !== before.incarnation);
    await own.endpointRows.begin({ name: 'shop', client: undefined, position: bound, leaseMs: LONG_MS });
    const asked = { name: 'shop', owner: newOwner(), client: undefined, leaseMs: LONG_MS };
    const { position } = inState(await own.endpointRows.take(asked), 'taken');
    const isLost = ageMs === 0;
    expect(position).toMatchObject({ atUs: bound.atUs, incarnation: (isLost ? before : bound).incarnation });
    const question = { bound, client: undefined, kind: undefined, limit: 1, readLimit: 1 };
    const page = await own.settlements.page({ ...question, after: position });
    if (!isLost) inState(page, 'page');
    else expect(inState(page, 'other incarnation').fromUs).toBeLessThanOrEqual(bound.atUs - TEN_MINUTES_MS * 1_000);
  });

  test('4: a stopped endpoint is nobody’s until it is started, and goes on where it was', async () => {
    const lease = await owned();
    await rows.advance(lease, at(5));
    expect(await rows.stopServing(lease)).toBe('ok');
    expect(await rows.advance(lease, at(6))).toBe('stale');
    expect(await take(lease.name, lease.owner)).toEqual({ state: 'stopped' });
    expect(await rows.stop(lease.name)).toBe(true);
    expect((await rows.find(lease.name))?.stoppedBy).toBe('receiver');
    expect(await rows.start(lease.name)).toBe(true);
    expect(inState(await take(lease.name), 'taken').position).toEqual(at(5));
    expect(await rows.stop(lease.name)).toBe(true);
    expect(await take(lease.name)).toEqual({ state: 'stopped' });
    expect((await rows.find(lease.name))?.stoppedBy).toBe('operator');
    const absent = `endpoint-${newKey().slice(-12)}`;
    expect([await rows.stop(absent), await rows.start(absent)]).toEqual([false, false]);
    expect(await rows.find(absent)).toBeUndefined();
    expect(await rows.resend(absent, undefined)).toBeUndefined();
  });

  test('5: a settlement is set aside once, up to the limit', async () => {
    const lease = await owned();
    const keys = [newKey(), newKey(), newKey(), newKey()] as const;
    for (const key of keys.slice(0, 3))
      expect(await rows.setAside(lease, aside(key, { cause: 'x'.repeat(999) }))).toBe('ok');
    expect(await rows.setAside(lease, aside(keys[0]))).toBe('ok');
    expect(await rows.setAside(lease, aside(keys[3]))).toBe('full');
    const kept = await rows.listSetAside(lease.name, 10);
    expect(new Set(kept.map(({ key }) => key))).toEqual(new Set(keys.slice(0, 3)));
    expect(kept[0]?.cause.length).toBeLessThan(500);
    expect((await rows.list()).find(({ name }) => name === lease.name)?.setAside).toBe(3);
    expect(await rows.removeSetAside(lease, keys[1])).toBe('ok');
    expect(await rows.setAside(lease, aside(keys[3]))).toBe('ok');
  });

  test('5: it is due after its time, only kept after its last, and sent again by hand', async () => {
    const lease = await owned();
    const [due, later] = [newKey(), newKey()];
    await rows.setAside(lease, aside(due, { retryMs: 0 }));
    await rows.setAside(lease, aside(later));
    await pass(1);
    expect(await rows.due(lease, 10)).toEqual([due]);
    expect(inState(await take(lease.name, lease.owner), 'taken')).toMatchObject({ setAside: 2, isDue: true });
    await rows.refusedAgain(lease, { key: due, cause: 'again', retryMs: LONG_MS, giveUpMs: LONG_MS });
    expect(await rows.due(lease, 10)).toEqual([]);
    await rows.refusedAgain(lease, { key: due, cause: 'given up', retryMs: 0, giveUpMs: 0 });
    expect(await rows.due(lease, 10)).toEqual([]);
    const kept = (await rows.listSetAside(lease.name, 10)).find(({ key }) => key === due);
    expect(kept).toMatchObject({ cause: 'given up', nextTryAt: undefined });
    expect(await rows.resend(lease.name, due)).toBe(1);
    await pass(1);
    expect(await rows.due(lease, 10)).toEqual([due]);
    expect(await rows.resend(lease.name, undefined)).toBe(2);
    await pass(1);
    expect(new Set(await rows.due(lease, 10))).toEqual(new Set([due, later]));
    expect(await rows.due(lease, 1)).toHaveLength(1);
  });
}
