import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Content } from '#idempay/payments/values/content.js';
import { systemClock } from '#idempay/platform/clock.js';
import { openEmbedded } from '#idempay/stores/embedded/open.js';
import { SETTLE } from '#idempay/stores/postgres/payments/ledger-statements.js';
import {
  claimAttempt,
  completed,
  DECLINED,
  inState,
  LONG_MS,
  newOwner,
  newProcessorName,
} from '../../testkit/protocol/payment-attempts.js';
import { paymentSteps } from '../../testkit/protocol/payment-steps.js';
import { openDistributedPortsOn, openSqlStores, type Ports } from '../../testkit/protocol/ports.js';
import { untilPast } from '../../testkit/time/until.js';

/**
 * The commit that makes a payment final erases its source, whoever makes it (rule P19). No port tells the source of a final row, so
 * the tables are read. `embedded-sources` tests that nothing of it stays in the file of SQLite.
 */

interface Opened {
  readonly ports: Ports;
  /** All rows of the tables that payments are in. */
  text(): Promise<string>;
  close(): Promise<void>;
}

async function openFolder(): Promise<Opened> {
  const dataDir = await mkdtemp(join(tmpdir(), 'idempay-final-sources-'));
  const ports = await openEmbedded({ dataDir, transactionCacheTtlMs: LONG_MS, clock: systemClock });
  const database = new DatabaseSync(join(dataDir, 'idempay.sqlite'), { readOnly: true });
  const rowsOf = (table: string) => database.prepare(`SELECT * FROM ${table}`).all();
  return {
    ports,
    text: async () => JSON.stringify(['payments', 'payment_sources', 'idempotency_keys'].map(rowsOf)),
    async close() {
      database.close();
      await ports.close();
      await rm(dataDir, { recursive: true });
    },
  };
}

async function openServers(): Promise<Opened> {
  const stores = await openSqlStores();
  const ports = await openDistributedPortsOn(stores);
  return {
    ports,
    async text() {
      return JSON.stringify((await stores.client.query('SELECT * FROM idempay.payments')).rows);
    },
    async close() {
      await ports.close();
      await stores.close();
    },
  };
}

describe.each([
  ['embedded', openFolder],
  ['distributed', openServers],
])('%s: a source', (_deployment, open) => {
  let opened: Opened;
  beforeAll(async () => {
    opened = await open();
  });
  afterAll(() => opened.close());

  test.each(Object.entries(ENDS))('is erased by %s, and the description is kept', async (_name, end) => {
    const content = { source: `tok_${randomUUID()}`, description: `Shoes ${randomUUID()}` };
    const key = await end(stepsOn(opened, content.source), content);
    const text = await opened.text();
    expect(text).toContain(key);
    expect(text).toContain(content.description);
    expect(text).not.toContain(content.source);
  });

  test.each(Object.entries(ENDS))('is erased with the address to return to by %s', async (_name, end) => {
    const [source, returnUrl] = [`tok_${randomUUID()}`, `https://shop.example/back?order=${randomUUID()}`];
    const content = { source, description: `Shoes ${randomUUID()}`, returnUrl };
    await end(stepsOn(opened, returnUrl), content);
    const text = await opened.text();
    expect(text).toContain(content.description);
    expect(text).not.toContain(source);
    expect(text).not.toContain(returnUrl);
  });
});

test('a build that knows no sources cannot settle a payment that has one, so that a new process finishes it', async () => {
  const stores = await openSqlStores();
  const ports = await openDistributedPortsOn(stores);
  const { deadClaim, takeover, settled } = paymentSteps({
    ...ports,
    ...{ clock: systemClock, pass: untilPast },
  });
  const claim = await deadClaim({ content: { source: 'tok_old' } });
  const { key, epoch, owner } = claim;
  const settleOfBefore = SETTLE.text.replace(' source = NULL,', '');
  expect(settleOfBefore).not.toBe(SETTLE.text);
  const values = [[key], [epoch], [owner], ['COMPLETED'], [null], [LONG_MS], [null]];
  await expect(stores.client.query(settleOfBefore, values)).rejects.toThrow('violates check constraint');
  const taken = await takeover(claim);
  expect(taken.content).toEqual({ source: 'tok_old' });
  await settled(taken);
  await ports.close();
  await stores.close();
});

type Steps = ReturnType<typeof stepsOn>;
type End = (steps: Steps, content: Content & { readonly description: string }) => Promise<string>;

function stepsOn({ ports, text }: Opened, source: string) {
  const given = paymentSteps({ ...ports, clock: systemClock, pass: untilPast });
  /** It is there as long as the payment may have to be sent again. */
  const expectKept = async () => expect(await text()).toContain(source);
  return { ...given, ledger: ports.ledger, expectKept };
}

const ENDS: Readonly<Record<string, End>> = {
  async 'the settlement of the first attempt'({ claim, settled, expectKept }, content) {
    const first = await claim({ content });
    await expectKept();
    await settled(first);
    return first.key;
  },
  async 'a decline'({ claim, settled }, content) {
    const first = await claim({ content });
    await settled(first, { outcome: DECLINED });
    return first.key;
  },
  async 'the settlement of a takeover, with an event'({ deadClaim, takeover, ledger, expectKept }, content) {
    const taken = await takeover(await deadClaim({ content }));
    await expectKept();
    inState(await ledger.settle(taken, completed(taken), LONG_MS, { lookedUp: 'found', sent: false }), 'settled');
    return taken.key;
  },
  async 'the settlement of a payment that was pending'({ claim, takeover, settled, ledger, expectKept }, content) {
    const first = await claim({ content });
    await ledger.leave(first, { recoverAfterMs: 0, pendingUntilMs: Date.now() }, { sent: true });
    await expectKept();
    await settled(await takeover(first, { isPending: true }));
    return first.key;
  },
  async 'the ending of a cancellation'({ abandoned, settled, ledger, expectKept }, content) {
    const { key, processor } = await abandoned({ content });
    const ending = { key, processor, owner: newOwner(), leaseMs: LONG_MS, scope: 'order', onlyUnsent: false } as const;
    const begun = await ledger.beginEnding(ending);
    await expectKept();
    if (begun) await settled(begun, { outcome: DECLINED });
    return key;
  },
  async 'the settlement of recovery'({ abandoned, settled, ledger }, content) {
    const processor = newProcessorName();
    const { key } = await abandoned({ content, processor }, 0, 'unsent');
    const takeover = { owner: newOwner(), leaseMs: LONG_MS, processor, first: 'longest due', limit: 1 } as const;
    for (const taken of await ledger.takeOverDue(takeover)) await settled(taken);
    return key;
  },
  async 'an operator'({ abandoned, resolve, expectKept }, content) {
    const { key } = await abandoned({ content });
    await expectKept();
    inState(await resolve(key), 'resolved');
    return key;
  },
  async 'one of two operators who decide at once, and the late owner changes nothing'(
    { deadClaim, resolve, ledger },
    content,
  ) {
    const dead = await deadClaim({ content });
    const states = ['COMPLETED', 'DECLINED'] as const;
    const decided = await Promise.all(states.map((state) => resolve(dead.key, { state })));
    expect(decided.map(({ state }) => state).toSorted()).toEqual(['resolved', 'settled before']);
    expect(await ledger.settle(dead, completed(dead), LONG_MS)).toMatchObject({ state: 'final' });
    return dead.key;
  },
  async 'the claim, where that settles'({ ledger }, content) {
    const settleAs = { outcome: completed({ transactionId: 'TXN1' }), idempotencyTtlMs: LONG_MS };
    const attempt = claimAttempt({ content, settleAs });
    inState(await ledger.claim(attempt), 'settled');
    return attempt.key;
  },
};
