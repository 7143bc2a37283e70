import { expect, onTestFinished, test } from 'vitest';
import { describeDeployments } from '../../testkit/deployments/deployments.js';
import { givenClaim, LONG_MS, newOwner, newProcessorName } from '../../testkit/protocol/payment-attempts.js';
import type { Ports } from '../../testkit/protocol/ports.js';
import { aged, changeStored, openPortsOn, type StoredChange } from '../../testkit/protocol/stored-rows.js';
import { clockSetBackMs, patience } from '../../testkit/time/patience.js';

const [SECOND_MS, MINUTE_MS, HOUR_MS] = [1_000, 60_000, 3_600_000];
const DAY_MS = 24 * HOUR_MS;
/** The age grows while stores are closed and opened, and the time until the next question shrinks before it is read. */
const SLACK_MS = patience(4_000);

/** Rows of payments that wait at the processor, in states and of ages that no test can wait for (rule P24). */
describeDeployments('pending payments', (deployment) => {
  async function open() {
    const stores = await deployment.open();
    onTestFinished(() => stores.close());
    let ports = await openPortsOn(stores);
    onTestFinished(() => ports.close());
    return {
      stores,
      ports: () => ports,
      /** Changes the rows while no process is there, and starts one. */
      async changed(...changes: readonly StoredChange[]) {
        await ports.close();
        for (const change of changes) await changeStored(stores, change);
        ports = await openPortsOn(stores);
        return ports;
      },
    };
  }

  async function pending({ ledger }: Ports, members: { processor?: string; untilMs?: number } = {}) {
    const { processor = newProcessorName(), untilMs = Date.now() + DAY_MS } = members;
    const claim = await givenClaim(ledger, { processor });
    await ledger.leave(claim, { recoverAfterMs: 0, pendingUntilMs: untilMs }, { sent: true });
    return claim;
  }

  test.each([
    ['the age is short, after 5 seconds', SECOND_MS, DAY_MS, 5 * SECOND_MS],
    ['the age is longer, after a quarter of it', 20 * MINUTE_MS, DAY_MS, 5 * MINUTE_MS],
    ['the age is very long, after an hour', 30 * HOUR_MS, DAY_MS, HOUR_MS],
    ['the end is expected before, then', 20 * MINUTE_MS, 2 * MINUTE_MS, 2 * MINUTE_MS],
    ['the end was expected in the past, after a quarter of the age', 20 * MINUTE_MS, -MINUTE_MS, 5 * MINUTE_MS],
    ['the end was expected in the past and the age is very long, after an hour', DAY_MS, -HOUR_MS, HOUR_MS],
  ])('are asked about again: if %s', async (_when, ageMs, untilMs, nextMs) => {
    const { ports, changed } = await open();
    const { key, processor } = await pending(ports(), { untilMs: Date.now() + untilMs });
    const { ledger, paymentHistory } = await changed(aged([key], ageMs));
    expect(await ledger.duePending({ processor, limit: 1 })).toMatchObject([{ key }]);
    const { recoverAt = 0, now = 0 } = (await paymentHistory.findLife(key)) ?? {};
    expect(recoverAt - now).toBeGreaterThan(nextMs - SLACK_MS);
    expect(recoverAt - now).toBeLessThan(nextMs + SLACK_MS);
  });

  test('are left alone under a live lease, also if they are due', async () => {
    const { stores, ports } = await open();
    const { ledger } = ports();
    const { key, processor } = await pending(ports());
    const by = { key, processor, owner: newOwner(), leaseMs: LONG_MS };
    expect(await ledger.takeOver({ ...by, isPending: true })).toMatchObject({ key });
    await changeStored(stores, {
      embedded: 'UPDATE payments SET recover_at = 0',
      distributed: 'UPDATE idempay.payments SET recover_at = to_timestamp(0)',
    });
    expect(await ledger.duePending({ processor, limit: 10 })).toEqual([]);
  });

  test('are resolved by an operator 30 days after their first claim, whatever end was expected', async () => {
    const { ports, changed } = await open();
    const [young, old] = [await pending(ports(), { untilMs: Date.now() + 90 * DAY_MS }), await pending(ports())];
    const limits = { owner: newOwner(), state: 'COMPLETED', reason: 'asked', dedupMs: 0, idempotencyTtlMs: 0 } as const;
    const { ledger } = await changed(aged([young.key], 30 * DAY_MS - HOUR_MS), aged([old.key], 30 * DAY_MS));
    const early = await ledger.resolve({ ...limits, key: young.key });
    if (early.state !== 'too early') throw new Error(`answered ${early.state}`);
    expect(early.remainingMs).toBeLessThanOrEqual(HOUR_MS + clockSetBackMs());
    expect(early.remainingMs).toBeGreaterThan(HOUR_MS - 10 * MINUTE_MS);
    expect(await ledger.resolve({ ...limits, key: old.key })).toMatchObject({ state: 'resolved' });
  });

  test('keep the time of their next question through a start, which ends no lease of another process', async () => {
    const { ports, changed } = await open();
    const processor = newProcessorName();
    const [waiting, working] = [await pending(ports(), { processor }), await pending(ports(), { processor })];
    const { ledger: before, paymentHistory: historyBefore } = ports();
    await before.duePending({ processor, limit: 10 });
    const asked = await historyBefore.findLife(waiting.key);
    await before.takeOver({ key: working.key, processor, owner: newOwner(), leaseMs: LONG_MS, isPending: true });
    const { ledger, paymentHistory } = await changed();
    const found = await paymentHistory.findLife(waiting.key);
    expect(found?.recoverAt).toBe(asked?.recoverAt);
    expect(await ledger.find(waiting.key)).toMatchObject({ state: 'pending', payment: { remainingMs: 0 } });
    const by = { key: working.key, processor, owner: newOwner(), leaseMs: LONG_MS, isPending: true };
    const taken = await ledger.takeOver(by);
    // One process alone can work on a folder, so its leases ended with it.
    if (deployment.name === 'embedded') expect(taken).toMatchObject({ epoch: 3 });
    else expect(taken).toBeUndefined();
  });
});
